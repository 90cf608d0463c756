/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * measures.h - the measures of bpf/watch for a simulated flow at the queue.
 *
 * The counts and clocks are those of bpf/watch/queued.h and clock.h.  Every burst is timed.
 */
#ifndef TCPLAB_MEASURES_H
#define TCPLAB_MEASURES_H

#include "abi/abi.h"
#include "core/watch/shape.h"
#include "core/watch/whole.h"
#include "laws.h"

#define SIM_FRAME 1514		       /* bytes of a packet on the link */
#define SIM_RECEIVER_WINDOW (1U << 30) /* the largest there is (RFC 7323, section 2.3) */
#define SIM_EPOCH_NS 10000000000ULL
#define SIM_USED_NS 1000000000ULL /* a second: the rate is per second, too */

/* The link, as the watch knows it. */
struct sim_link {
	__u64 rate; /* bytes per second */
	__u64 epoch_ends_ns, used_ends_ns, left_bytes;
	__u32 longest_us, longest_before_us; /* in the queue */
	__u32 used;			     /* x256; 0: not known */
};

struct sim_watch {
	__u8 is_open;
	__u32 flags, max_seq, acked_seq, mark_seq, base_seq; /* bytes */
	__u64 mark_ns, mark_after_ns, last_in_ns, gap_ns, gap_max_ns, round_at_ns;
	__u32 up_us, rtt_us, min_rtt_us, number, flight_max;
	struct tp_newest_notes notes;
	__u64 window_at_ns;
	struct tp_round now;		       /* the counts of this round */
	__u32 drops, drops_out, drops_counted; /* by the kernel; before what came out; in rounds */
	__u64 sojourn_sum_ns;
	struct tp_round *rounds; /* where the finished ones go */
	__u32 count, room;
};

static void sim_left(struct sim_link *link, __u64 waited_ns, __u32 packets, __u64 now_ns)
{
	__u32 us = waited_ns / 1000;

	if (now_ns >= link->epoch_ends_ns) {
		link->longest_before_us = link->longest_us;
		link->longest_us = 0;
		link->epoch_ends_ns = now_ns + SIM_EPOCH_NS;
	}
	link->longest_us = tp_max(link->longest_us, us);
	link->left_bytes += (__u64)packets * SIM_FRAME;
	if (now_ns < link->used_ends_ns)
		return;
	if (link->used_ends_ns)
		link->used = tp_min64(link->left_bytes * 256 / tp_max64(link->rate, 1), 256);
	link->left_bytes = 0;
	link->used_ends_ns = now_ns + SIM_USED_NS;
}

/* A burst is about to be queued. */
static void sim_went_in(struct sim_watch *w, struct sim_burst *b, __u64 now_ns)
{
	__u32 end = (b->first + b->count) * SIM_MSS, sent_seq = w->max_seq, flight;
	int again = (__s32)(end - sent_seq) <= 0;
	__u64 gap_ns = now_ns - w->last_in_ns;

	b->drops = w->drops;
	b->queued_ns = now_ns;
	if (!w->is_open) {
		w->max_seq = again ? w->max_seq : end;
		w->last_in_ns = now_ns;
		return;
	}
	w->now.burst_packets += b->count - 1 + (gap_ns * 4 < w->gap_ns);
	w->gap_max_ns = tp_max64(w->gap_max_ns, gap_ns);
	w->gap_ns = tp_mean_gap(w->gap_ns, tp_min64(gap_ns, 1U << 30), b->count);
	w->last_in_ns = now_ns;
	w->now.in_packets += b->count;
	w->now.in_bytes += b->count * SIM_FRAME;
	if (again)
		w->now.again_packets += b->count;
	else
		w->max_seq = end;
	if (now_ns >= w->window_at_ns) {
		w->flight_max = tp_max(w->flight_max, tp_noted_window(&w->notes, sent_seq, now_ns,
								      w->up_us, w->min_rtt_us));
		w->window_at_ns = tp_next_window(&w->notes, now_ns, w->up_us);
	}
	if (tp_note_newest(&w->notes, sent_seq, w->acked_seq, now_ns, w->min_rtt_us))
		w->window_at_ns =
		    tp_await_window(&w->notes, w->window_at_ns, now_ns, w->up_us, w->min_rtt_us);
	flight = w->max_seq - w->acked_seq;
	if ((__s32)flight > 0)
		w->flight_max = tp_max(w->flight_max, flight);
	if (!(w->flags & TP_FLOW_MARK) && !again && now_ns >= w->mark_after_ns) {
		w->mark_seq = end;
		w->mark_ns = now_ns;
		w->flags |= TP_FLOW_MARK;
		if (w->flags & TP_FLOW_BASE)
			w->flight_max =
			    tp_max(w->flight_max, tp_whole_window(sent_seq, w->base_seq));
	}
}

static void sim_came_out(struct sim_watch *w, const struct sim_burst *b, __u64 now_ns)
{
	__u64 waited_ns = now_ns - b->queued_ns;
	__u32 us = waited_ns / 1000;

	if (!w->is_open)
		return;
	w->sojourn_sum_ns += waited_ns;
	if (!w->now.sojourn_samples++ || us < w->now.sojourn_min_us)
		w->now.sojourn_min_us = us;
	w->now.sojourn_max_us = tp_max(w->now.sojourn_max_us, us);
	w->drops_out = b->drops;
}

static void sim_round_ends(struct sim_watch *w, const struct sim_link *link, __s32 progress,
			   __u64 now_ns)
{
	struct tp_round *r = &w->now;

	w->base_seq = tp_round_base(w->acked_seq, progress, w->max_seq);
	w->rtt_us = (now_ns - w->mark_ns) / 1000 + w->up_us;
	w->min_rtt_us = tp_min(w->min_rtt_us, w->rtt_us);
	w->flags = (w->flags & ~TP_FLOW_MARK) | TP_FLOW_BASE;
	w->mark_after_ns = now_ns + (__u64)tp_answer_us(w->up_us) * 1000;
	r->kind = TP_RECORD_ROUND;
	r->end_ns = now_ns;
	r->number = ++w->number;
	r->duration_us = (now_ns - w->round_at_ns) / 1000;
	r->rtt_us = w->rtt_us;
	r->min_rtt_us = w->min_rtt_us;
	r->dropped_packets = w->drops_out - w->drops_counted;
	w->drops_counted = w->drops_out;
	r->sojourn_mean_us = r->sojourn_samples ? w->sojourn_sum_ns / r->sojourn_samples / 1000 : 0;
	r->flight_max_bytes = w->flight_max;
	r->flight_end_bytes = w->max_seq - w->acked_seq;
	r->receiver_window_bytes = SIM_RECEIVER_WINDOW;
	r->segment_bytes = SIM_MSS;
	r->gap_max_us = w->gap_max_ns / 1000;
	r->link_queue_us = tp_max(link->longest_us, link->longest_before_us);
	r->link_rate = tp_min64(link->rate, ~0U);
	r->link_used = link->used;
	r->flags = w->flags;
	if (w->count < w->room)
		w->rounds[w->count++] = *r;
	w->flight_max = r->flight_end_bytes;
	*r = (struct tp_round){};
	w->sojourn_sum_ns = w->gap_max_ns = 0;
	w->round_at_ns = now_ns;
}

/* An acknowledgement passes: of all packets before `next`. */
static void sim_came_back(struct sim_watch *w, const struct sim_link *link, __u32 next,
			  __u64 now_ns)
{
	__u32 seq = next * SIM_MSS;
	__s32 progress = seq - w->acked_seq;

	if (!w->is_open) {
		w->is_open = 1;
		w->acked_seq = w->max_seq;
		w->round_at_ns = now_ns;
		return;
	}
	w->now.acks++;
	if (progress > 0 && (__s32)(w->max_seq - seq) >= 0) {
		w->acked_seq = seq;
		w->now.acked_bytes += progress;
	}
	if (w->flags & TP_FLOW_MARK && (__s32)(seq - w->mark_seq) >= 0)
		sim_round_ends(w, link, progress, now_ns);
}

#endif
