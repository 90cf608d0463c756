/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * drop.h - packets dropped in the queue, by the kernel's reports.
 *
 * The tracepoint kfree_skb fires for each packet dropped anywhere, and for
 * no other.  Its reason says whether a qdisc dropped it.  The difference of in and out
 * would not do: on a busy host some events are seen at one end of the queue only, and each
 * of them would count as a loss that never happened.
 *
 * Until 6.13 CoDel, FQ_CoDel and PIE gave no reason when they dropped at the head of
 * the queue.  A driver that frees a sent packet gives none, either.  A packet without a
 * reason counts if it was stamped and has not left.  In flows with many packets per round
 * only some are stamped.
 */
#ifndef TCPILOT_WATCH_DROP_H
#define TCPILOT_WATCH_DROP_H

#include "quic.h"

#define TP_IS_REASON(reason, name)                                                                 \
	(bpf_core_enum_value_exists(enum skb_drop_reason, name) &&                                 \
	 (reason) == bpf_core_enum_value(enum skb_drop_reason, name))
#define TP_REASONS_OF_A_RANGE 16 /* bits: SKB_DROP_REASON_SUBSYS_SHIFT */

/* Whether a qdisc gave this reason. */
static __always_inline int tp_is_of_a_queue(__u32 reason)
{
	if (TP_IS_REASON(reason, SKB_DROP_REASON_QDISC_DROP) ||
	    TP_IS_REASON(reason, SKB_DROP_REASON_QDISC_OVERLIMIT) ||
	    TP_IS_REASON(reason, SKB_DROP_REASON_QDISC_CONGESTED) ||
	    TP_IS_REASON(reason, SKB_DROP_REASON_QDISC_BURST_DROP) ||
	    TP_IS_REASON(reason, SKB_DROP_REASON_CAKE_FLOOD) ||
	    TP_IS_REASON(reason, SKB_DROP_REASON_FQ_BAND_LIMIT) ||
	    TP_IS_REASON(reason, SKB_DROP_REASON_FQ_HORIZON_LIMIT) ||
	    TP_IS_REASON(reason, SKB_DROP_REASON_FQ_FLOW_LIMIT))
		return 1;
	return bpf_core_enum_value_exists(enum qdisc_drop_reason, __QDISC_DROP_REASON) &&
	       reason >> TP_REASONS_OF_A_RANGE ==
		   bpf_core_enum_value(enum qdisc_drop_reason, __QDISC_DROP_REASON) >>
		       TP_REASONS_OF_A_RANGE;
}

/*
 * A packet of a flow was dropped.  If the tail of the queue refused it, the flow counts it
 * when the packets ahead of it have left, as its receiver will notice: then the stamp of
 * the packet behind it comes out.  If it was taken from inside the queue, the flow counts
 * it at once.
 */
static __noinline int tp_dropped(struct tp_packet *p, __u32 is_certain)
{
	struct tp_watch_flow *flow;
	struct tp_stamp *stamp;

	if (!p)
		return 0;
	flow = tp_find_flow(&p->key);
	if (!flow || !p->payload) {
		if (is_certain)
			ADD(dropped_packets, p->packets);
		return 0;
	}
	stamp = tp_stamp_of(p);
	if (stamp && stamp->flow != flow->id)
		stamp = 0;
	if (stamp)
		tp_unstamp(stamp);
	if (!is_certain && !stamp)
		return 0;
	ADD(dropped_packets, p->packets);
	__sync_fetch_and_add(&flow->drops, p->packets);
	__sync_fetch_and_add(&flow->dropped_bytes, p->bytes);
	if (flow->flags & TP_FLOW_LIGHT)
		flow->lost_ns = bpf_ktime_get_ns();
	if (flow->flags & TP_FLOW_QUIC ? !tp_quic_dropped(flow, p, stamp)
				       : p->seq - flow->last_seq >= flow->last_payload)
		flow->now.dropped_packets = flow->drops;
	return 0;
}

#endif
