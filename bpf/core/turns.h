/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * turns.h - which queue of the BPF qdisc may send next: credits in bytes.
 *
 * Queues take turns by deficit round robin (Shreedhar and Varghese, SIGCOMM 1995).
 * Ants, the sparse flows, go first as long as they have not sent more than all
 * others together, and at most a burst ahead of them.  A credit below 0 is a debt.
 */
#ifndef TCPILOT_CORE_TURNS_H
#define TCPILOT_CORE_TURNS_H

#include "num.h"

/* Ants may send so much at once before it is the turn of others, and this bounds
 * their debt, too. */
#define TP_ANTS_BURST_BYTES (16 * 1514)

/* The credit of ants after a packet of theirs or of others. */
TP_INLINE __s64 tp_ants_credit(__s64 credit, __u32 bytes, int is_ants)
{
	if (is_ants)
		return tp_max_signed(credit - bytes, -TP_ANTS_BURST_BYTES);
	return tp_min_signed(credit + bytes, TP_ANTS_BURST_BYTES);
}

/* The rest of a queue's credit when it has nothing more to send: unused credit is
 * lost, a debt is kept, so that it does not pay to leave early. */
TP_INLINE __s64 tp_credit_at_leave(__s64 credit)
{
	return tp_min_signed(credit, 0);
}

#endif
