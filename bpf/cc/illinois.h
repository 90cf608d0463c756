/* SPDX-License-Identifier: GPL-2.0-only */
/* illinois.h - Illinois' arithmetic; see illinois.bpf.c.  alpha is times 2^7, beta times 2^6. */
#ifndef TCPILOT_ILLINOIS_H
#define TCPILOT_ILLINOIS_H

#include "../lib/rtt.h"

#define ILLINOIS_ALPHA_SHIFT 7
#define ILLINOIS_ALPHA_UNIT (1U << ILLINOIS_ALPHA_SHIFT)
#define ILLINOIS_ALPHA_MIN (3 * ILLINOIS_ALPHA_UNIT / 10)
#define ILLINOIS_ALPHA_MAX (10 * ILLINOIS_ALPHA_UNIT)
#define ILLINOIS_BETA_SHIFT 6
#define ILLINOIS_BETA_UNIT (1U << ILLINOIS_BETA_SHIFT)
#define ILLINOIS_BETA_MIN (ILLINOIS_BETA_UNIT / 8)
#define ILLINOIS_BETA_MAX (ILLINOIS_BETA_UNIT / 2)
#define ILLINOIS_WINDOW_LEAST 15 /* packets; below, reno's constants */
#define ILLINOIS_LOW_ROUNDS 5	 /* of low delay, before alpha becomes largest */

struct tp_illinois {
	__u64 sum_us;
	__u32 samples, end;
	__u32 base_us, max_us;
	__u32 alpha, beta;
	__u32 acked;
	__u8 above, low_rounds;
};

TP_INLINE void illinois_round(struct tp_illinois *s, __u32 nxt)
{
	s->end = nxt;
	s->samples = 0;
	s->sum_us = 0;
}

TP_INLINE void illinois_begin(struct tp_illinois *s, const struct tp_ack *a)
{
	*s = (struct tp_illinois){};
	s->alpha = ILLINOIS_ALPHA_MAX;
	s->beta = ILLINOIS_BETA_UNIT / 2;
	s->base_us = TP_NO_RTT;
	illinois_round(s, a->nxt);
}

TP_INLINE void illinois_sample(struct tp_illinois *s, __s32 rtt_us, __u32 acked, __u64 now_us)
{
	s->acked = acked;
	if (rtt_us < 0)
		return;
	s->base_us = tp_min(s->base_us, rtt_us);
	s->max_us = tp_max(s->max_us, rtt_us);
	s->samples++;
	s->sum_us += rtt_us;
}

/* Equation 7: kappa1 / (kappa2 + da) between the bounds, with d1 a hundredth of dm. */
TP_INLINE __u32 illinois_alpha(struct tp_illinois *s, __u32 da, __u32 dm)
{
	__u32 d1 = dm / 100;

	if (da <= d1) {
		if (!s->above)
			return ILLINOIS_ALPHA_MAX;
		/* the delay was high: several rounds must show that it is low again */
		if (++s->low_rounds < ILLINOIS_LOW_ROUNDS)
			return s->alpha;
		s->low_rounds = 0;
		s->above = 0;
		return ILLINOIS_ALPHA_MAX;
	}
	s->above = 1;
	dm -= d1;
	da -= d1;
	return (__u64)dm * ILLINOIS_ALPHA_MAX /
	       (dm + (__u64)da * (ILLINOIS_ALPHA_MAX - ILLINOIS_ALPHA_MIN) / ILLINOIS_ALPHA_MIN);
}

/* Equation 8: linear from a tenth to eight tenths of dm. */
TP_INLINE __u32 illinois_beta(__u32 da, __u32 dm)
{
	__u64 d2 = dm / 10, d3 = (__u64)dm * 8 / 10;

	if (da <= d2)
		return ILLINOIS_BETA_MIN;
	if (da >= d3 || d3 <= d2)
		return ILLINOIS_BETA_MAX;
	return (ILLINOIS_BETA_MIN * d3 - ILLINOIS_BETA_MAX * d2 +
		(__u64)(ILLINOIS_BETA_MAX - ILLINOIS_BETA_MIN) * da) /
	       (d3 - d2);
}

TP_INLINE void illinois_adapt(struct tp_illinois *s, __u32 cwnd, __u32 nxt)
{
	if (cwnd < ILLINOIS_WINDOW_LEAST) {
		s->alpha = ILLINOIS_ALPHA_UNIT;
		s->beta = ILLINOIS_BETA_UNIT / 2;
	} else if (s->samples) {
		__u32 mean_us = s->sum_us / s->samples;
		__u32 dm = s->max_us - s->base_us, da = mean_us - s->base_us;

		s->alpha = illinois_alpha(s, da, dm);
		s->beta = illinois_beta(da, dm);
	}
	illinois_round(s, nxt);
}

TP_INLINE void illinois_grow(struct tp_illinois *s, struct tp_cwnd *w, const struct tp_ack *a)
{
	__u32 step;

	if (tp_before(s->end, a->una))
		illinois_adapt(s, w->packets, a->nxt);
	if (tp_in_slow_start(w)) {
		tp_slow_start(w, a->acked);
		return;
	}
	w->credit += s->acked;
	s->acked = 1;
	step = ((__u64)w->credit * s->alpha) >> ILLINOIS_ALPHA_SHIFT;
	if (step >= w->packets) {
		w->packets = tp_min(w->packets + step / tp_max(w->packets, 1), w->clamp);
		w->credit = 0;
	}
}

TP_INLINE void illinois_enter(struct tp_illinois *s, const struct tp_ack *a, __u8 state,
			      const struct tp_cwnd *w)
{
	if (state != 4) /* TCP_CA_Loss */
		return;
	s->alpha = ILLINOIS_ALPHA_UNIT;
	s->beta = ILLINOIS_BETA_UNIT / 2;
	s->low_rounds = s->above = 0;
	illinois_round(s, a->nxt);
}

TP_INLINE __u32 illinois_threshold(const struct tp_illinois *s, const struct tp_cwnd *w)
{
	__u32 less = ((__u64)w->packets * s->beta) >> ILLINOIS_BETA_SHIFT;

	return tp_max(w->packets - less, TP_CWND_MIN);
}

#endif
