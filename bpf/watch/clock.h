/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * clock.h - a flow's two clocks, and what happens when one strikes.
 *
 * A round begins when a packet is marked, by its sequence number, and ends when
 * the acknowledgement that passes it is seen.  The next mark waits for as long
 * as the sender takes to answer, which the handshake showed: so a round is a
 * round trip of the whole path, though only a part of it lies behind us.
 *
 * An interval is P4air's: the handshake's round-trip time, fixed; or where no
 * handshake was seen the least round.  It ends with the first packet after it.
 *
 * Counters are kept since a flow's start; each is written by one direction of
 * it only.  What struck takes the difference to its last snapshot.
 */
#ifndef TCPILOT_WATCH_CLOCK_H
#define TCPILOT_WATCH_CLOCK_H

#include "judge.h"
#include "../core/watch/p4air.h"

#define TP_NS_PER_US 1000
/* An interval where nothing tells a round trip: no handshake, no ACK. */
#define TP_BLIND_INTERVAL_US 100000

static __always_inline __u32 tp_us_since(__u64 now_ns, __u64 then_ns)
{
	__u64 us = now_ns > then_ns ? (now_ns - then_ns) / TP_NS_PER_US : 0;

	return us < ~0U ? us : ~0U;
}

/* The device: what left in a tenth of a second, the most of it in ten to
 * twenty seconds; and the longest sojourn in the same time. */
#define TP_RATE_WINDOW_NS 100000000ULL
#define TP_LINK_EPOCH_NS 10000000000ULL

static __always_inline void tp_link_rolls(__u64 now_ns)
{
	__u64 epoch = now_ns / TP_LINK_EPOCH_NS;

	if (epoch == link.queue_epoch)
		return;
	link.queue_us.previous = epoch == link.queue_epoch + 1 ? link.queue_us.current : 0;
	link.rate_max.previous = epoch == link.queue_epoch + 1 ? link.rate_max.current : 0;
	link.queue_us.current = 0;
	link.rate_max.current = 0;
	link.queue_epoch = epoch;
}

static __always_inline void tp_link_sent(__u32 bytes, __u64 now_ns)
{
	__u64 passed = now_ns - link.window_ns;

	__sync_fetch_and_add(&link.window_bytes, bytes);
	if (passed < TP_RATE_WINDOW_NS)
		return;
	tp_link_rolls(now_ns);
	if (passed < 2 * TP_RATE_WINDOW_NS) {
		__u64 rate = link.window_bytes * 1000000 / (passed / 1000);

		if (rate > link.rate_max.current)
			link.rate_max.current = rate;
		link.rate = tp_max64(link.rate_max.current, link.rate_max.previous);
	}
	link.window_bytes = 0;
	link.window_ns = now_ns;
}

static __always_inline void tp_interval_ends(struct tp_watch_flow *flow, __u64 now_ns)
{
	struct tp_watch_counts *now = &flow->now, *then = &flow->interval;
	__u32 rtt_us = flow->p4air.rtt_us, duration_us;
	struct tp_interval interval = {};

	if (!rtt_us)
		rtt_us = flow->min_rtt_us ? flow->min_rtt_us : TP_BLIND_INTERVAL_US;
	duration_us = tp_us_since(now_ns, flow->interval_at_ns);
	if (duration_us < rtt_us)
		return;
	interval.kind = TP_RECORD_INTERVAL;
	interval.flow = flow->id;
	interval.end_ns = now_ns;
	interval.duration_us = duration_us;
	interval.rtt_us = rtt_us;
	interval.packets = now->in_packets - then->in_packets;
	interval.acks = now->acks - then->acks;
	interval.max_queue_us = flow->sojourn_interval_us;
	interval.dropped_packets = now->dropped_packets - then->dropped_packets;
	interval.long_flows = link.long_flows;
	interval.link_rate = tp_min64(link.rate, ~0U);
	/* A switch knows its rate; one that is only learned is too low at first,
	 * and would end every slow start early. */
	interval.bdp_packets =
	    tp_p4air_bdp_packets(cfg.link_rate, link.long_flows, rtt_us, flow->segment_bytes);
	if (flow->p4air.group != TP_GROUP_UDP)
		tp_p4air_interval(&flow->p4air, interval.packets, interval.dropped_packets,
				  interval.max_queue_us, interval.bdp_packets);
	interval.group = flow->p4air.group;
	flow->interval = *now;
	flow->interval_at_ns = now_ns;
	flow->sojourn_interval_us = 0;
	tp_record(&interval, sizeof(interval));
}

static __always_inline void tp_fill_round(struct tp_round *r, struct tp_watch_flow *flow,
					  __u64 now_ns)
{
	struct tp_watch_counts *now = &flow->now, *then = &flow->round;

	__builtin_memset(r, 0, sizeof(*r));
	r->kind = TP_RECORD_ROUND;
	r->flow = flow->id;
	r->end_ns = now_ns;
	r->number = flow->rounds;
	r->duration_us = tp_us_since(now_ns, flow->round_at_ns);
	r->rtt_us = flow->rtt_us;
	r->min_rtt_us = flow->min_rtt_us;
	r->in_packets = now->in_packets - then->in_packets;
	r->in_bytes = now->in_bytes - then->in_bytes;
	r->out_packets = now->out_packets - then->out_packets;
	r->out_bytes = now->out_bytes - then->out_bytes;
	r->acks = now->acks - then->acks;
	r->acked_bytes = now->acked_bytes - then->acked_bytes;
	r->marked_acks = now->marked_acks - then->marked_acks;
	r->again_packets = now->again_packets - then->again_packets;
	r->dropped_packets = now->dropped_packets - then->dropped_packets;
	r->burst_packets = now->burst_packets - then->burst_packets;
	r->sojourn_samples = now->sojourn_samples - then->sojourn_samples;
	r->sojourn_min_us = flow->sojourn_min_us == ~0U ? 0 : flow->sojourn_min_us;
	r->sojourn_max_us = flow->sojourn_max_us;
	if (r->sojourn_samples)
		r->sojourn_mean_us =
		    (now->sojourn_sum_us - then->sojourn_sum_us) / r->sojourn_samples;
	r->flight_max_bytes = flow->flight_max_bytes;
	r->flight_end_bytes = flow->max_seq - flow->acked_seq;
	r->receiver_window_bytes = flow->receiver_window_bytes;
	r->segment_bytes = flow->segment_bytes;
	r->gap_max_us = flow->gap_max_us;
	r->link_queue_us = tp_max64(link.queue_us.current, link.queue_us.previous);
	r->link_rate = tp_min64(link.rate, ~0U);
	r->flags = flow->flags;
}

/* The acknowledgement has passed the mark. */
static __noinline int tp_round_ends(struct tp_watch_flow *flow, __u64 now_ns)
{
	struct tp_work *own = tp_my_work();

	if (!flow || !own)
		return 0;
	flow->rtt_us = tp_us_since(now_ns, flow->mark_ns) + flow->up_us;
	if (!flow->min_rtt_us || flow->rtt_us < flow->min_rtt_us)
		flow->min_rtt_us = flow->rtt_us;
	flow->rounds++;
	tp_fill_round(&own->round, flow, now_ns);
	flow->round = flow->now;
	flow->round_at_ns = now_ns;
	flow->sojourn_min_us = ~0U;
	flow->sojourn_max_us = 0;
	flow->flight_max_bytes = own->round.flight_end_bytes;
	flow->gap_max_us = 0;
	flow->flags &= ~TP_FLOW_MARK;
	flow->mark_after_ns = now_ns + (__u64)flow->up_us * TP_NS_PER_US;
	COUNT(rounds);
	tp_record(&own->round, sizeof(own->round));
	tp_judge(flow);
	return 0;
}

#endif
