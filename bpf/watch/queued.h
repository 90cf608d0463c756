/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * queued.h - a packet of a known flow goes into the queue, and adds to the flow.
 *
 * In full tracking each packet counts for its round: gaps, bytes in flight, retransmissions; some
 * are timed, and one marks the round.  Light tracking (bpf/core/watch/light_tracking.h) counts
 * packets and bytes, and little else.
 */
#ifndef TCPILOT_WATCH_QUEUED_H
#define TCPILOT_WATCH_QUEUED_H

#include "../core/watch/shape.h"
#include "../core/watch/whole.h"
#include "echo.h"

/* At least so many packets of a round are timed, if it has them. */
#define TIMED_PER_ROUND 64
/* In light tracking one packet of so many is timed. */
#define LIGHT_TIMED_EVERY 16

static __always_inline void stamp(struct tp_watch_flow *flow, const struct tp_packet *p,
				  struct tp_stamp *stamp, __u64 now_ns)
{
	__u32 per_round = flow->now.in_packets - flow->round.in_packets;

	flow->until_timed = per_round / TIMED_PER_ROUND;
	stamp->at_ns = now_ns;
	stamp->flow = flow->id;
	stamp->drops = flow->drops;
	stamp->twin = 0;
	stamp->tag = p->address;
	if (p->packets > 1)
		tp_stamp_super(p, stamp);
}

static __always_inline void note_gap(struct tp_watch_flow *flow, __u32 packets, __u64 now_ns)
{
	__u64 gap_ns = now_ns > flow->last_in_ns ? now_ns - flow->last_in_ns : 0;

	/* In a super-packet, all but the first follow at once. */
	flow->now.burst_packets += packets - 1 + (gap_ns * 4 < flow->gap_ns);
	if (gap_ns > flow->gap_max_ns)
		flow->gap_max_ns = gap_ns;
	flow->gap_ns = tp_mean_gap(flow->gap_ns, tp_min64(gap_ns, 1U << 30), packets);
	flow->last_in_ns = now_ns;
}

/* Data sent before.  Returns whether they were sent again because of a loss. */
static __noinline int came_again(struct tp_watch_flow *flow, const struct tp_packet *p,
				 __u64 now_ns)
{
	__u32 end;

	if (!flow || !p)
		return 0;
	end = p->seq + p->payload;
	if ((__s32)(end - flow->acked_seq) <= 0)
		return 0;
	if (tp_is_young(&flow->order, p->seq, now_ns, flow->min_rtt_us))
		return 0;
	/* Light tracking has few notes, and none in between: see light_queued(). */
	if (flow->flags & TP_FLOW_LIGHT && end == flow->max_seq)
		return 0;
	if (!tp_note_again(&flow->order, p->seq, now_ns, flow->min_rtt_us))
		return 0;
	flow->now.again_packets += p->packets;
	return 1;
}

/* A round begins with this packet of new data.  sent_seq: the end of the data before it. */
static __always_inline void mark(struct tp_watch_flow *flow, const struct tp_packet *p,
				 __u32 sent_seq, __u64 now_ns)
{
	if (flow->flags & TP_FLOW_ECHO && !tp_echo_came(flow, p->address, now_ns))
		return;
	if (flow->flags & TP_FLOW_BASE)
		flow->flight_max_bytes =
		    tp_max(flow->flight_max_bytes, tp_whole_window(sent_seq, flow->base_seq));
	flow->mark_seq = p->seq + p->payload;
	flow->mark_ns = now_ns;
	flow->flags |= TP_FLOW_MARK;
}

/* Notes where the flow's data are, now and then. */
static __always_inline void note_data(struct tp_watch_flow *flow, __u32 sent_seq, __u64 now_ns)
{
	if (tp_note_newest(&flow->order, sent_seq, flow->acked_seq, now_ns, flow->min_rtt_us))
		flow->window_at_ns = tp_await_window(&flow->order, flow->window_at_ns, now_ns,
						     flow->up_us, flow->min_rtt_us);
}

/* The sender has answered what was acknowledged at a note. */
__noinline int take_noted_window(struct tp_watch_flow *flow, __u64 now_ns)
{
	__u32 window;

	if (!flow)
		return 0;
	window =
	    tp_noted_window(&flow->order, flow->max_seq, now_ns, flow->up_us, flow->min_rtt_us);
	flow->flight_max_bytes = tp_max(flow->flight_max_bytes, window);
	flow->window_at_ns = tp_next_window(&flow->order, now_ns, flow->up_us);
	return 0;
}

static __always_inline void tcp_queued(struct tp_watch_flow *flow, const struct tp_packet *p,
				       struct tp_stamp *place, __u64 now_ns)
{
	__u32 end = p->seq + p->payload, sent_seq = flow->max_seq, flight;
	int again = (__s32)(end - sent_seq) <= 0;

	note_gap(flow, p->packets, now_ns);
	if (now_ns >= flow->window_at_ns)
		take_noted_window(flow, now_ns);
	/* A retransmission replaces the stamp of the original. */
	if (!again && flow->until_timed > p->packets) {
		flow->until_timed -= p->packets;
	} else {
		stamp(flow, p, place, now_ns);
		note_data(flow, sent_seq, now_ns);
	}
	if (again)
		came_again(flow, p, now_ns);
	else
		flow->max_seq = end;
	flow->last_seq = p->seq;
	flow->last_payload = p->payload;
	if (p->payload / p->packets > flow->segment_bytes)
		flow->segment_bytes = p->payload / p->packets;
	flight = flow->max_seq - flow->acked_seq;
	if ((__s32)flight > 0 && flight > flow->flight_max_bytes)
		flow->flight_max_bytes = flight;
	if (!(flow->flags & TP_FLOW_MARK) && !again && now_ns >= flow->mark_after_ns)
		mark(flow, p, sent_seq, now_ns);
}

/* New data are out of order: those between were overtaken, or lost. */
__noinline int note_gap_in_data(struct tp_watch_flow *flow)
{
	if (flow)
		tp_note_newest(&flow->order, flow->max_seq, flow->acked_seq, bpf_ktime_get_ns(),
			       flow->min_rtt_us);
	return 0;
}

/* Counts a packet in light tracking.  Now and then one is timed, and marked: only then, and out of
 * order, the clock is read.  New data behind a gap leave a note, so the data in between are known
 * to be late.  A copy of the newest data may come without a note, but is rarely sent for a loss. */
static __always_inline void light_queued(struct tp_watch_flow *flow, const struct tp_packet *p,
					 struct tp_stamp *place)
{
	__u32 end = p->seq + p->payload;
	int again = (__s32)(end - flow->max_seq) <= 0;

	flow->now.in_packets += p->packets;
	flow->now.in_bytes += p->bytes;
	flow->bytes += p->bytes;
	if (!again) {
		if (p->seq != flow->max_seq)
			note_gap_in_data(flow);
		flow->max_seq = end;
		if (flow->until_timed > p->packets) {
			flow->until_timed -= p->packets;
			return;
		}
	}
	flow->seen_ns = bpf_ktime_get_ns();
	if (again && came_again(flow, p, flow->seen_ns))
		flow->lost_ns = flow->seen_ns;
	stamp(flow, p, place, flow->seen_ns);
	flow->until_timed = LIGHT_TIMED_EVERY;
	if (!again)
		tp_note_newest(&flow->order, p->seq, flow->acked_seq, flow->seen_ns,
			       flow->min_rtt_us);
	if (!(flow->flags & TP_FLOW_MARK) && !again) {
		flow->mark_seq = end;
		flow->mark_ns = place->at_ns;
		flow->flags |= TP_FLOW_MARK;
	}
}

#endif
