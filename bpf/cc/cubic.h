/* SPDX-License-Identifier: GPL-2.0-only */
/* cubic.h - CUBIC's arithmetic; see cubic.bpf.c. */
#ifndef TCPILOT_CUBIC_H
#define TCPILOT_CUBIC_H

#include "lib/cubicroot.h"
#include "lib/hystart.h"

#define CUBIC_BETA_OF_1024 717	/* 0.7 */
#define CUBIC_ALPHA_OF_1024 542 /* 3 (1 - beta) / (1 + beta) */

struct tp_cubic {
	struct tp_hystart hystart;
	__u64 epoch_us; /* 0: no epoch of congestion avoidance yet */
	__u32 max;	/* W_max, the window before the last reduction */
	__u32 origin, k_ms;
	__u32 reno;	 /* W_est */
	__u32 reno_rest; /* times 2^10 */
	__u32 prior;	 /* cwnd_prior */
};

TP_INLINE void cubic_begin(struct tp_cubic *c, const struct tp_ack *a)
{
	*c = (struct tp_cubic){};
	tp_hystart_begin(&c->hystart, a->nxt);
}

TP_INLINE void cubic_sample(struct tp_cubic *c, __s32 rtt_us, __u32 acked, __u64 now_us)
{
	tp_hystart_sample(&c->hystart, rtt_us);
}

/* Section 4.2: a new epoch starts at the first acknowledgement after a reduction. */
TP_INLINE void cubic_epoch(struct tp_cubic *c, __u32 cwnd, __u64 now_us)
{
	c->epoch_us = now_us ? now_us : 1;
	c->reno = cwnd;
	c->reno_rest = 0;
	if (cwnd < c->max) {
		c->origin = c->max;
		c->k_ms = tp_cubic_ms(c->max - cwnd);
	} else {
		c->origin = cwnd;
		c->k_ms = 0;
	}
}

/* Section 4.3: what reno would have; with alpha 1 once it has passed the window before. */
TP_INLINE void cubic_friendly(struct tp_cubic *c, __u32 cwnd, __u32 acked)
{
	__u32 alpha = c->reno >= c->prior && c->prior ? 1024 : CUBIC_ALPHA_OF_1024;
	__u64 gained = (__u64)acked * alpha / tp_max(cwnd, 1);

	/* the remainder of the division counts too, or large windows would not grow */
	c->reno_rest += tp_max64(gained, 1);
	c->reno += c->reno_rest >> 10;
	c->reno_rest &= 1023;
}

/* Sections 4.2 to 4.5: packets to be acknowledged for one more. */
TP_INLINE __u32 cubic_per(struct tp_cubic *c, __u32 cwnd, const struct tp_ack *a, __u32 acked)
{
	__u32 rtt_us = a->min_rtt_us == ~0U ? 0 : a->min_rtt_us;
	__u64 t_us = a->now_us - c->epoch_us + rtt_us;
	__u32 t_ms = tp_min64(t_us / TP_USEC_PER_MSEC, TP_CUBIC_MS_MAX * 2);
	__u32 target = tp_cubic_window(t_ms, c->k_ms, c->origin);
	__u32 per;

	target = tp_clamp(target, cwnd, cwnd + cwnd / 2);
	per = target > cwnd ? cwnd / (target - cwnd) : 100 * cwnd;
	cubic_friendly(c, cwnd, acked);
	if (c->reno > cwnd)
		per = tp_min(per, cwnd / (c->reno - cwnd));
	return tp_max(per, 2); /* half as much again in an RTT at most */
}

TP_INLINE void cubic_slow_start(struct tp_cubic *c, struct tp_cwnd *w, const struct tp_ack *a)
{
	/* HyStart++ is for the first slow start only (RFC 9406, section 4.3) */
	if (w->ssthresh < TP_SSTHRESH_MAX) {
		tp_slow_start(w, a->acked);
		return;
	}
	tp_hystart_check(&c->hystart);
	w->packets = tp_min(w->packets + tp_hystart_step(&c->hystart, a->acked), w->clamp);
	if (tp_hystart_round(&c->hystart, a->una, a->nxt))
		w->ssthresh = w->packets;
}

TP_INLINE void cubic_grow(struct tp_cubic *c, struct tp_cwnd *w, const struct tp_ack *a)
{
	__u32 acked = a->acked;

	if (tp_in_slow_start(w)) {
		__u32 before = w->packets;

		cubic_slow_start(c, w, a);
		if (tp_in_slow_start(w) || w->packets == before)
			return;
		acked -= tp_min(acked, w->packets - before);
		if (!acked)
			return;
	}
	if (!c->epoch_us)
		cubic_epoch(c, w->packets, a->now_us);
	tp_increase(w, cubic_per(c, w->packets, a, acked), acked);
}

/* Sections 4.6 and 4.7: beta, and less for the next epoch where the last maximum was not reached.
 */
TP_INLINE __u32 cubic_threshold(struct tp_cubic *c, const struct tp_cwnd *w)
{
	c->epoch_us = 0;
	c->prior = w->packets;
	if (w->packets < c->max)
		c->max = (__u64)w->packets * (1024 + CUBIC_BETA_OF_1024) / 2048;
	else
		c->max = w->packets;
	return tp_scale(w->packets, CUBIC_BETA_OF_1024, 1024);
}

/* Section 4.8: a time-out forgets the maximum; slow start follows. */
TP_INLINE void cubic_enter(struct tp_cubic *c, const struct tp_ack *a, __u8 state,
			   const struct tp_cwnd *w)
{
	if (state != 4)
		return;
	c->max = 0;
	c->epoch_us = 0;
	tp_hystart_begin(&c->hystart, a->nxt);
}

/* After idleness the epoch goes on from where it was (section 5.8). */
TP_INLINE void cubic_idle(struct tp_cubic *c, __u64 idle_us, __u64 now_us)
{
	if (c->epoch_us)
		c->epoch_us = tp_min64(c->epoch_us + idle_us, now_us);
}

#endif
