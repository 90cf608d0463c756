/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * yeah.h - YeAH's two modes, its emptying of queues, and its reduction after a loss.
 * Described in yeah.bpf.c.
 */
#ifndef TCPILOT_YEAH_H
#define TCPILOT_YEAH_H

#include "lib/rtt.h"

#define YEAH_QUEUE_MAX 80    /* Qmax: packets of its own in the queue */
#define YEAH_PHI 8	     /* a queue's delay of an eighth of the base RTT is congestion */
#define YEAH_SCALABLE 100    /* fast mode: a packet per so many acknowledged (Scalable TCP) */
#define YEAH_DECREASE 8	     /* a loss takes an eighth at least */
#define YEAH_RIVAL_ROUNDS 16 /* rho: slow so long, and somebody greedy is there */
#define YEAH_ALONE_ROUNDS 50 /* fast for so long altogether, and nobody is */

struct tp_yeah {
	struct tp_rtt rtt;
	__u32 queued;	   /* Q of the last round */
	__u32 reno;	   /* the window Reno would have */
	__u32 slow_rounds; /* in a row */
	__u32 fast_rounds; /* since the last loss */
	__u8 off;	   /* loss is being repaired: RTTs mean little */
};

TP_INLINE void yeah_begin(struct tp_yeah *s, const struct tp_ack *a)
{
	*s = (struct tp_yeah){.reno = TP_CWND_MIN};
	tp_rtt_start(&s->rtt, a->nxt);
}

TP_INLINE void yeah_enter(struct tp_yeah *s, const struct tp_ack *a, __u8 state,
			  const struct tp_cwnd *w)
{
	s->off = state != TP_STATE_OPEN;
	if (!s->off)
		tp_rtt_round(&s->rtt, a->nxt);
}

TP_INLINE void yeah_sample(struct tp_yeah *s, __s32 rtt_us, __u32 acked, __u64 now_us)
{
	tp_rtt_sample(&s->rtt, rtt_us);
}

TP_INLINE int yeah_is_congested(const struct tp_rtt *r, __u32 queued)
{
	__u32 delay_us = r->min_us - r->base_us;

	return queued > YEAH_QUEUE_MAX || delay_us > r->base_us / YEAH_PHI;
}

/* Precautionary decongestion: the queue is taken out of the window, but never
 * below Reno's window, nor more than half. */
TP_INLINE void yeah_empty_queue(const struct tp_yeah *s, struct tp_cwnd *w)
{
	__u32 less = w->packets - tp_min(s->queued, w->packets / 2);

	if (s->queued <= YEAH_QUEUE_MAX || w->packets <= s->reno)
		return;
	w->packets = tp_max(less, s->reno);
	w->ssthresh = tp_min(w->ssthresh, w->packets);
}

TP_INLINE void yeah_round(struct tp_yeah *s, struct tp_cwnd *w)
{
	if (!tp_rtt_known(&s->rtt))
		return;
	s->queued = tp_queued(w->packets, s->rtt.min_us, s->rtt.base_us);
	if (!yeah_is_congested(&s->rtt, s->queued)) {
		s->slow_rounds = 0;
		if (++s->fast_rounds > YEAH_ALONE_ROUNDS) {
			s->reno = TP_CWND_MIN;
			s->fast_rounds = 0;
		}
		return;
	}
	yeah_empty_queue(s, w);
	s->reno = s->reno <= TP_CWND_MIN ? tp_half(w->packets) : s->reno + 1;
	s->slow_rounds++;
}

TP_INLINE void yeah_grow(struct tp_yeah *s, struct tp_cwnd *w, const struct tp_ack *a)
{
	__u32 acked = tp_slow_start(w, a->acked), per = w->packets;

	if (!s->slow_rounds)
		per = tp_min(per, YEAH_SCALABLE);
	if (acked)
		tp_increase(w, per, acked);
	if (!s->off && tp_rtt_round_over(&s->rtt, a->una)) {
		yeah_round(s, w);
		tp_rtt_round(&s->rtt, a->nxt);
	}
}

/* A loss takes the queue, an eighth to a half; among rivals the half. */
TP_INLINE __u32 yeah_threshold(struct tp_yeah *s, const struct tp_cwnd *w)
{
	__u32 packets = w->packets;
	__u32 half = tp_half(packets), less = half;

	if (s->slow_rounds < YEAH_RIVAL_ROUNDS)
		less = tp_max(tp_min(s->queued, half), packets / YEAH_DECREASE);
	s->fast_rounds = 0;
	s->reno = tp_half(s->reno);
	return tp_max(packets - tp_min(less, packets), TP_CWND_MIN);
}

#endif
