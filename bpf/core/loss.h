/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * loss.h - the loss rule: does a connection lose so much that it should be rescued?
 */
#ifndef TCPILOT_CORE_LOSS_H
#define TCPILOT_CORE_LOSS_H

#include "num.h"

/* Whether more than 1/2^shift of the segments were retransmitted, and enough
 * were sent for that share to mean something. */
TP_INLINE int tp_loss_is_heavy(__u32 retransmitted, __u32 sent, __u32 min_sent, __u32 shift)
{
	return sent >= min_sent && ((__u64)retransmitted << (shift & 31)) > sent;
}

#endif
