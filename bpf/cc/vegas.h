/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * vegas.h - Vegas's decision, once a round.  Described in vegas.bpf.c.
 */
#ifndef TCPILOT_VEGAS_H
#define TCPILOT_VEGAS_H

#include "lib/rtt.h"

/* Packets of its own in the queue: fewer than alpha, it adds one; more than beta, it takes one. */
#define VEGAS_ALPHA 2
#define VEGAS_BETA 4
/* In slow start: with more than these the pipe is full. */
#define VEGAS_GAMMA 1

struct tp_vegas {
	struct tp_rtt rtt;
	__u8 off;  /* loss is being repaired: Reno */
	__u8 hold; /* slow start: this round the window stays, to be measured */
};

TP_INLINE void vegas_begin(struct tp_vegas *s, const struct tp_ack *a)
{
	tp_rtt_start(&s->rtt, a->nxt);
	s->off = s->hold = 0;
}

TP_INLINE void vegas_enter(struct tp_vegas *s, const struct tp_ack *a, __u8 state,
			   const struct tp_cwnd *w)
{
	s->off = state != TP_STATE_OPEN;
	if (!s->off)
		tp_rtt_round(&s->rtt, a->nxt);
}

TP_INLINE void vegas_sample(struct tp_vegas *s, __s32 rtt_us, __u32 acked, __u64 now_us)
{
	tp_rtt_sample(&s->rtt, rtt_us);
}

/* The path is full: out of slow start, with the path's window and a packet. */
TP_INLINE void vegas_leave_slow_start(struct tp_cwnd *w, __u32 queued)
{
	w->packets = tp_max(w->packets - queued + 1, TP_CWND_MIN);
	w->ssthresh = tp_min(w->ssthresh, w->packets);
}

TP_INLINE void vegas_avoid_congestion(struct tp_cwnd *w, __u32 queued)
{
	if (queued > VEGAS_BETA) {
		w->packets = tp_max(w->packets - 1, TP_CWND_MIN);
		w->ssthresh = tp_min(w->ssthresh, w->packets);
	} else if (queued < VEGAS_ALPHA) {
		w->packets = tp_min(w->packets + 1, w->clamp);
	}
}

TP_INLINE void vegas_round(struct tp_vegas *s, struct tp_cwnd *w, const struct tp_ack *a)
{
	__u32 queued = tp_queued(w->packets, s->rtt.min_us, s->rtt.base_us);

	s->hold = !s->hold;
	if (!tp_rtt_known(&s->rtt))
		tp_reno_increase(w, a->acked);
	else if (!tp_in_slow_start(w))
		vegas_avoid_congestion(w, queued);
	else if (queued > VEGAS_GAMMA)
		vegas_leave_slow_start(w, queued);
	tp_rtt_round(&s->rtt, a->nxt);
}

TP_INLINE void vegas_grow(struct tp_vegas *s, struct tp_cwnd *w, const struct tp_ack *a)
{
	if (s->off)
		tp_reno_increase(w, a->acked);
	else if (tp_rtt_round_over(&s->rtt, a->una))
		vegas_round(s, w, a);
	else if (!s->hold)
		tp_slow_start(w, a->acked);
}

TP_INLINE __u32 vegas_threshold(const struct tp_vegas *s, const struct tp_cwnd *w)
{
	return tp_half(w->packets);
}

#endif
