/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * clock.h - a flow's two clocks, and the work at the end of a round or an interval.
 *
 * A round begins when a packet is marked, by its sequence number, and ends when
 * an acknowledgement passes that number.  The next mark waits as long as the
 * sender takes to answer, which the handshake showed.  So a round is a round trip
 * of the whole path, though only a part of the path lies behind us.
 *
 * An interval is P4air's: the handshake's round-trip time, fixed, or the least
 * round if no handshake was seen.  It ends with the first packet after it.
 *
 * Counters run since a flow's start; only one direction of the flow writes each.
 * At the end of a round or an interval the difference to the last snapshot counts.
 *
 * In light tracking (bpf/core/watch/light_tracking.h) a flow has marks, for its round trip, but no
 * rounds.
 */
#ifndef TCPILOT_WATCH_CLOCK_H
#define TCPILOT_WATCH_CLOCK_H

#include "busy.h"
#include "judge.h"
#include "../core/watch/p4air.h"
#include "../core/watch/whole.h"

/* A capture has no queue: crates/capture/native/capture.c measures the path's instead. */
#ifndef TP_PATH_WAITED
#define TP_PATH_WAITED(flow, now_ns) ((void)0)
#endif

#define TP_NS_PER_US 1000
/* An interval if the round trip is not known: no handshake, no ACK. */
#define TP_BLIND_INTERVAL_US 100000

static __always_inline __u32 tp_us_since(__u64 now_ns, __u64 then_ns)
{
	__u64 us = now_ns > then_ns ? (now_ns - then_ns) / TP_NS_PER_US : 0;

	return us < ~0U ? us : ~0U;
}

/* The longest sojourn is kept for ten to twenty seconds. */
#define TP_LINK_EPOCH_NS 10000000000ULL

static __always_inline void tp_link_waited(__u32 ns, __u64 now_ns)
{
	__u32 us;

	/* The usual packet waited no longer than another one, and a division is spared. */
	if (now_ns < link.queue_epoch_ends_ns && ns < (__u64)link.queue_us.current * TP_NS_PER_US)
		return;
	us = ns / TP_NS_PER_US;
	if (now_ns >= link.queue_epoch_ends_ns) {
		int is_next = now_ns < link.queue_epoch_ends_ns + TP_LINK_EPOCH_NS;

		link.queue_us.previous = is_next ? link.queue_us.current : 0;
		link.queue_us.current = 0;
		link.queue_epoch_ends_ns = now_ns + TP_LINK_EPOCH_NS;
	}
	if (us > link.queue_us.current)
		link.queue_us.current = us;
}

/* Adds the times of its packets in the queue since the last round or interval. */
static __always_inline struct tp_sojourn *tp_take_sojourns(struct tp_watch_flow *flow)
{
	struct tp_sojourn *of = tp_sojourn_place(flow->id);

	if (!of || of->flow != flow->id)
		return NULL;
	flow->now.sojourn_sum_us += of->sum_ns / TP_NS_PER_US;
	flow->now.sojourn_samples += of->samples;
	of->sum_ns = 0;
	of->samples = 0;
	if ((__s32)(of->drops - flow->now.dropped_packets) > 0)
		flow->now.dropped_packets = of->drops;
	return of;
}

static __always_inline void tp_interval_ends(struct tp_watch_flow *flow, __u64 now_ns)
{
	struct tp_watch_counts *now = &flow->now, *then = &flow->interval;
	__u32 rtt_us = flow->p4air.rtt_us, duration_us;
	struct tp_interval interval = {};
	struct tp_sojourn *of;

	if (!rtt_us)
		rtt_us = flow->min_rtt_us ? flow->min_rtt_us : TP_BLIND_INTERVAL_US;
	duration_us = tp_us_since(now_ns, flow->interval_at_ns);
	if (duration_us < rtt_us) {
		flow->interval_ends_ns = flow->interval_at_ns + (__u64)rtt_us * TP_NS_PER_US;
		return;
	}
	of = tp_take_sojourns(flow);
	interval.kind = TP_RECORD_INTERVAL;
	interval.flow = flow->id;
	interval.end_ns = now_ns;
	interval.duration_us = duration_us;
	interval.rtt_us = rtt_us;
	interval.packets = now->in_packets - then->in_packets;
	interval.acks = now->acks - then->acks;
	interval.max_queue_us = of ? of->interval_ns / TP_NS_PER_US : 0;
	interval.dropped_packets = now->dropped_packets - then->dropped_packets;
	interval.long_flows = link.long_flows;
	interval.link_rate = tp_min64(link.rate, ~0U);
	/* A switch knows its rate.  A rate that is only learned is too low at
	 * first, and would end every slow start early. */
	interval.bdp_packets =
	    tp_p4air_bdp_packets(cfg.link_rate, link.long_flows, rtt_us, flow->segment_bytes);
	if (flow->p4air.group != TP_GROUP_UDP)
		tp_p4air_interval(&flow->p4air, interval.packets, interval.dropped_packets,
				  interval.max_queue_us, interval.bdp_packets);
	interval.group = flow->p4air.group;
	flow->interval = *now;
	flow->interval_at_ns = now_ns;
	flow->interval_ends_ns = now_ns + (__u64)rtt_us * TP_NS_PER_US;
	if (of)
		of->interval_ns = 0;
	tp_record(&interval, sizeof(interval));
}

static __always_inline void tp_fill_round(struct tp_round *r, struct tp_watch_flow *flow,
					  __u64 now_ns)
{
	struct tp_watch_counts *now = &flow->now, *then = &flow->round;
	struct tp_sojourn *of = tp_take_sojourns(flow);

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
	r->acks = now->acks - then->acks;
	r->acked_bytes = now->acked_bytes - then->acked_bytes;
	r->marked_acks = now->marked_acks - then->marked_acks;
	r->again_packets = now->again_packets - then->again_packets;
	r->dropped_packets = now->dropped_packets - then->dropped_packets;
	r->burst_packets = now->burst_packets - then->burst_packets;
	r->sojourn_samples = now->sojourn_samples - then->sojourn_samples;
	if (of && r->sojourn_samples) {
		r->sojourn_min_us = of->min_ns / TP_NS_PER_US;
		r->sojourn_max_us = of->max_ns / TP_NS_PER_US;
		r->sojourn_mean_us =
		    (now->sojourn_sum_us - then->sojourn_sum_us) / r->sojourn_samples;
		of->min_ns = ~0U;
		of->max_ns = 0;
	}
	r->flight_max_bytes = flow->flight_max_bytes;
	r->flight_end_bytes = flow->max_seq - flow->acked_seq;
	if (flow->flags & TP_FLOW_WINDOW)
		r->receiver_window_bytes = flow->receiver_window << (flow->window_scale & 15);
	r->segment_bytes = flow->segment_bytes;
	r->gap_max_us = tp_us_since(flow->gap_max_ns, 0);
	r->link_queue_us = tp_max64(link.queue_us.current, link.queue_us.previous);
	r->link_rate = tp_min64(link.rate, ~0U);
	r->link_used = tp_link_used();
	r->flags = flow->flags;
	if (flow->quic.backlog_samples)
		r->backlog_bytes = flow->quic.backlog_sum / flow->quic.backlog_samples;
	flow->quic.backlog_sum = 0;
	flow->quic.backlog_samples = 0;
}

/* From here on a flow's counts belong to another round. */
static __always_inline void tp_round_begins(struct tp_watch_flow *flow, __u32 flight, __u64 now_ns)
{
	flow->round = flow->now;
	flow->round_at_ns = now_ns;
	flow->flight_max_bytes = flight;
	flow->gap_max_ns = 0;
}

/* Light tracking ends: the next round begins now. */
__noinline int tp_resume(struct tp_watch_flow *flow, __u64 now_ns)
{
	__u32 light_us, lost_us, drops;
	struct tp_sojourn *of;

	if (!flow)
		return 0;
	drops = flow->now.dropped_packets;
	of = tp_take_sojourns(flow);
	if (of) {
		of->min_ns = ~0U;
		of->max_ns = 0;
	}
	if (!flow->lost_ns && flow->now.dropped_packets != drops)
		flow->lost_ns = now_ns;
	light_us = tp_us_since(now_ns, flow->round_at_ns);
	lost_us = tp_us_since(now_ns, flow->lost_ns);
	flow->rounds += light_us / tp_max(flow->rtt_us, 1);
	tp_shape_resumes(&flow->shape, light_us, flow->rtt_us, flow->lost_ns != 0, lost_us);
	tp_round_begins(flow, flow->max_seq - flow->acked_seq, now_ns);
	flow->last_in_ns = now_ns;
	flow->until_timed = 0;
	flow->window_at_ns = TP_NO_WINDOW; /* its notes are of light tracking */
	flow->flags &= ~TP_FLOW_LIGHT;
	return 0;
}

static __always_inline void tp_track_lightly(struct tp_watch_flow *flow, const struct tp_work *own,
					     __u64 now_ns)
{
	if (!cfg.light_tracking || flow->flags & TP_FLOW_QUIC ||
	    !tp_may_track_lightly(&flow->verdict, &flow->shape, &own->round))
		return;
	flow->light_ends_ns = now_ns + (__u64)tp_light_us(&flow->shape, &own->round) * TP_NS_PER_US;
	flow->lost_ns = 0;
	flow->flags |= TP_FLOW_LIGHT;
}

/* A round has ended, and its round trip and window are known. */
static __always_inline int tp_any_round_ends(struct tp_watch_flow *flow, __u64 now_ns)
{
	struct tp_work *own = tp_my_work();

	if (!own)
		return 0;
	TP_PATH_WAITED(flow, now_ns);
	flow->rounds++;
	tp_fill_round(&own->round, flow, now_ns);
	tp_round_begins(flow, own->round.flight_end_bytes, now_ns);
	COUNT(rounds);
	tp_record(&own->round, sizeof(own->round));
	if (!(flow->flags & (TP_FLOW_SHARE | TP_FLOW_QUIC))) {
		/* A part of the window and of the round trip is missing. */
		flow->verdict.reason = TP_REASON_SHARE;
		return 0;
	}
	tp_judge(flow, own);
	tp_track_lightly(flow, own, now_ns);
	return 0;
}

/* Each round's share of the sender is measured, if its packets show it: there may be a queue before
 * the place of a capture.  A live watch knows the share once a handshake or some rounds have shown
 * it. */
#ifndef TP_EACH_SHARE
#define TP_EACH_SHARE 0
#endif
/* So many rounds show the share. */
#define TP_ECHOES 8
/* This flow has no timestamps. */
#define TP_ECHOES_NONE 255

/* Whether a round's mark waits for the echo of a timestamp, and not for as long as the share. */
static __always_inline int tp_awaits_echo(const struct tp_watch_flow *flow)
{
	if (TP_EACH_SHARE && flow->echoes != TP_ECHOES_NONE)
		return 1;
	return !(flow->flags & TP_FLOW_SHARE) ||
	       (flow->echoes < TP_ECHOES && tp_hides_window(flow->up_us, flow->min_rtt_us));
}

/* An acknowledgement has passed the mark.  progress: bytes that it acknowledges for the first time.
 */
__noinline int tp_round_ends(struct tp_watch_flow *flow, __s32 progress, __u64 now_ns)
{
	if (!flow)
		return 0;
	flow->base_seq = tp_round_base(flow->acked_seq, progress, flow->max_seq);
	flow->rtt_us = tp_us_since(now_ns, flow->mark_ns) + flow->up_us;
	if (!flow->min_rtt_us || flow->rtt_us < flow->min_rtt_us)
		flow->min_rtt_us = flow->rtt_us;
	flow->flags = (flow->flags & ~TP_FLOW_MARK) | TP_FLOW_BASE;
	flow->mark_after_ns = now_ns;
	if (!tp_awaits_echo(flow))
		flow->mark_after_ns += (__u64)tp_answer_us(flow->up_us) * TP_NS_PER_US;
	if (!(flow->flags & TP_FLOW_LIGHT))
		return tp_any_round_ends(flow, now_ns);
	if (now_ns >= flow->light_ends_ns)
		return tp_resume(flow, now_ns);
	tp_take_sojourns(flow); /* for who looks at the flow */
	return 0;
}

#endif
