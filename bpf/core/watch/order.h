/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * order.h - whether data out of order were lost, or only late.
 *
 * Data are sent again a round trip after the first time, at the earliest: the sender has to hear of
 * the loss, by an acknowledgement of something behind it (RFC 8985, section 3).  So data that fill
 * a gap sooner were overtaken on their way here.  Data acknowledged by the receiver are not sent
 * because of a loss, and two copies in a row are one packet doubled by a network.
 *
 * Pure functions, also compiled for the host by tests.
 */
#ifndef TCPILOT_ORDER_H
#define TCPILOT_ORDER_H

#include "../../abi/watch.h"
#include "../num.h"

#define TP_GAPS_MASK (TP_GAPS - 1)
#define TP_NS_OF_SOON                                                                              \
	750 /* a microsecond of the round trip, less a quarter: it may get shorter                 \
	     */

/* New data from `seq` on leave a gap after the data before, up to `sent_seq`. */
TP_INLINE void tp_gap_opens(struct tp_gaps *g, __u32 sent_seq, __u32 seq, __u64 now_ns)
{
	struct tp_gap *gap = &g->gap[g->next++ & TP_GAPS_MASK];

	gap->at_ns = now_ns;
	gap->from = sent_seq;
	gap->to = seq;
}

/* Whether it is too soon for a retransmission. */
TP_INLINE int tp_is_soon(__u64 then_ns, __u64 now_ns, __u32 rtt_us)
{
	return now_ns - then_ns < (__u64)rtt_us * TP_NS_OF_SOON;
}

/* Whether these data, not new, fill a gap opened a short time ago. */
TP_INLINE int tp_fills_gap(const struct tp_gaps *g, __u32 seq, __u32 end, __u64 now_ns,
			   __u32 rtt_us)
{
	int found = 0;

	for (__u32 i = 0; i < TP_GAPS; i++) {
		const struct tp_gap *gap = &g->gap[i];

		found |= (__s32)(seq - gap->from) >= 0 && (__s32)(gap->to - end) >= 0 &&
			 tp_is_soon(gap->at_ns, now_ns, rtt_us);
	}
	return found;
}

#endif
