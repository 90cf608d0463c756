/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * illinois.h - Illinois's two curves over the queueing delay.  Described in
 * illinois.bpf.c.
 */
#ifndef TCPILOT_ILLINOIS_H
#define TCPILOT_ILLINOIS_H

#include "lib/rtt.h"

/* alpha in 1/128 packets a round, beta in 1/64 of the window. */
#define ILLINOIS_ALPHA_UNIT 128
#define ILLINOIS_ALPHA_MIN 38 /* 0.3 */
#define ILLINOIS_ALPHA_MAX (10 * ILLINOIS_ALPHA_UNIT)
#define ILLINOIS_BETA_UNIT 64
#define ILLINOIS_BETA_MIN (ILLINOIS_BETA_UNIT / 8)
#define ILLINOIS_BETA_MAX (ILLINOIS_BETA_UNIT / 2)
/* Below this window it is Reno. */
#define ILLINOIS_WINDOW 15
/* So many rounds without a queue, until alpha may be the greatest again. */
#define ILLINOIS_THETA 5

struct tp_illinois {
	struct tp_rtt rtt;
	__u64 sum_us; /* of the round's samples */
	__u32 max_us; /* greatest of the connection */
	__u32 alpha, beta;
	__u8 queued;   /* a queue was seen */
	__u8 unqueued; /* rounds without one since */
};

TP_INLINE void illinois_reno(struct tp_illinois *s)
{
	s->alpha = ILLINOIS_ALPHA_UNIT;
	s->beta = ILLINOIS_BETA_MAX;
	s->queued = s->unqueued = 0;
}

TP_INLINE void illinois_begin(struct tp_illinois *s, const struct tp_ack *a)
{
	tp_rtt_start(&s->rtt, a->nxt);
	s->sum_us = s->max_us = 0;
	illinois_reno(s);
}

TP_INLINE void illinois_enter(struct tp_illinois *s, const struct tp_ack *a, __u8 state,
			      const struct tp_cwnd *w)
{
	if (state != TP_STATE_LOSS)
		return;
	illinois_reno(s);
	tp_rtt_round(&s->rtt, a->nxt);
	s->sum_us = 0;
}

TP_INLINE void illinois_sample(struct tp_illinois *s, __s32 rtt_us, __u32 acked, __u64 now_us)
{
	tp_rtt_sample(&s->rtt, rtt_us);
	if (rtt_us < 0)
		return;
	s->max_us = tp_max(s->max_us, rtt_us + 1);
	s->sum_us += rtt_us + 1;
}

/*
 * Equation 3, for delays da above d1 = dm/100: alpha = k1 / (k2 + da), a
 * hyperbola from alpha_max at d1 to alpha_min at dm:
 *
 *   k1 = (dm - d1) min max / (max - min),  k2 = (dm - d1) min / (max - min) - d1
 *
 * Numerator and denominator are multiplied by (max - min) / min.
 */
TP_INLINE __u32 illinois_hyperbola(__u32 da, __u32 dm)
{
	__u64 range = dm - dm / 100, above = da - dm / 100;

	above = above * (ILLINOIS_ALPHA_MAX - ILLINOIS_ALPHA_MIN) / ILLINOIS_ALPHA_MIN;
	return range ? range * ILLINOIS_ALPHA_MAX / (range + above) : ILLINOIS_ALPHA_MAX;
}

/* Section 3.3: after a queue, its absence must last theta rounds to be believed. */
TP_INLINE __u32 illinois_alpha(struct tp_illinois *s, __u32 da, __u32 dm)
{
	if (da > dm / 100) {
		s->queued = 1;
		return illinois_hyperbola(da, dm);
	}
	if (s->queued && ++s->unqueued < ILLINOIS_THETA)
		return s->alpha;
	s->queued = s->unqueued = 0;
	return ILLINOIS_ALPHA_MAX;
}

/* Equation 4: beta_min up to d2 = dm/10, beta_max from d3 = 8 dm/10, a line between. */
TP_INLINE __u32 illinois_beta(__u32 da, __u32 dm)
{
	__u32 d2 = dm / 10, d3 = (__u64)dm * 8 / 10;

	if (da <= d2)
		return ILLINOIS_BETA_MIN;
	if (da >= d3)
		return ILLINOIS_BETA_MAX;
	return (ILLINOIS_BETA_MIN * (__u64)(d3 - da) + ILLINOIS_BETA_MAX * (__u64)(da - d2)) /
	       (d3 - d2);
}

TP_INLINE void illinois_adapt(struct tp_illinois *s, __u32 packets)
{
	__u32 da, dm;

	if (packets < ILLINOIS_WINDOW) {
		s->alpha = ILLINOIS_ALPHA_UNIT;
		s->beta = ILLINOIS_BETA_MAX;
		return;
	}
	if (!s->rtt.samples)
		return;
	da = s->sum_us / s->rtt.samples - s->rtt.base_us;
	dm = s->max_us - s->rtt.base_us;
	s->alpha = illinois_alpha(s, da, dm);
	s->beta = illinois_beta(da, dm);
}

/* A step of alpha packets a round. */
TP_INLINE void illinois_grow(struct tp_illinois *s, struct tp_cwnd *w, const struct tp_ack *a)
{
	__u32 acked;

	if (tp_rtt_round_over(&s->rtt, a->una)) {
		illinois_adapt(s, w->packets);
		tp_rtt_round(&s->rtt, a->nxt);
		s->sum_us = 0;
	}
	acked = tp_slow_start(w, a->acked);
	if (acked)
		tp_add_parts(w, (__u64)acked * s->alpha, (__u64)w->packets * ILLINOIS_ALPHA_UNIT);
}

TP_INLINE __u32 illinois_threshold(const struct tp_illinois *s, const struct tp_cwnd *w)
{
	__u32 less = (__u64)w->packets * s->beta / ILLINOIS_BETA_UNIT;

	return tp_max(w->packets - less, TP_CWND_MIN);
}

#endif
