/* SPDX-License-Identifier: GPL-2.0-or-later */
/* cubic.h - CUBIC's arithmetic; see cubic.bpf.c. */
#ifndef TCPILOT_CUBIC_H
#define TCPILOT_CUBIC_H

#include "lib/cubicroot.h"
#include "lib/hystart.h"

#define CUBIC_BETA_OF_1024 717	/* 0.7 */
#define CUBIC_ALPHA_OF_1024 542 /* 3 (1 - beta) / (1 + beta) */

/* State changed by a reduction, and restored by an undo. */
struct tp_cubic_epoch {
	__u64 start_us; /* 0: no epoch of congestion avoidance yet */
	__u32 max;	/* W_max, the window before the last reduction */
	__u32 origin, k_ms;
	__u32 reno;  /* W_est */
	__u32 prior; /* cwnd_prior */
};

struct tp_cubic {
	struct tp_hystart hystart;
	__u8 may_undo;
	struct tp_cubic_epoch now, before; /* the last reduction */
	/* the cubic's growth and W_est's, short of a packet: parts times the window */
	__u64 rest, reno_rest;
};

TP_INLINE void cubic_begin(struct tp_cubic *c, const struct tp_ack *a)
{
	*c = (struct tp_cubic){};
	tp_hystart_begin(&c->hystart, a->nxt);
}

TP_INLINE void cubic_sample(struct tp_cubic *c, __s32 rtt_us, __u32 acked, __u64 now_us)
{
	tp_hystart_sample(&c->hystart, rtt_us, acked);
}

/* Section 4.2: a new epoch starts at the first acknowledgement after a reduction. */
TP_INLINE void cubic_epoch(struct tp_cubic *c, __u32 cwnd, __u64 now_us)
{
	c->now.start_us = now_us ? now_us : 1;
	c->now.reno = cwnd;
	c->rest = c->reno_rest = 0;
	c->now.origin = tp_max(cwnd, c->now.max);
	c->now.k_ms = tp_cubic_ms(c->now.origin - cwnd);
}

/*
 * Section 4.3: W_est grows by alpha / cwnd for each packet acknowledged; alpha is 1
 * once it has passed the window before.
 */
TP_INLINE void cubic_friendly(struct tp_cubic *c, __u32 cwnd, __u32 acked)
{
	__u32 alpha = c->now.reno >= c->now.prior && c->now.prior ? TP_PARTS : CUBIC_ALPHA_OF_1024;
	__u64 unit = tp_max(cwnd, 1) * TP_PARTS;
	__u64 all = c->reno_rest + (__u64)acked * alpha;

	c->now.reno = tp_min64(c->now.reno + all / unit, TP_SSTHRESH_MAX);
	c->reno_rest = all % unit;
}

/* Sections 4.2 to 4.5. */
TP_INLINE void cubic_avoid_congestion(struct tp_cubic *c, struct tp_cwnd *w, const struct tp_ack *a,
				      __u32 acked)
{
	__u32 rtt_us = a->min_rtt_us == ~0U ? 0 : a->min_rtt_us;
	__u64 t_us = tp_max64(a->now_us, c->now.start_us) - c->now.start_us + rtt_us;
	__u32 t_ms = tp_min64(t_us / TP_USEC_PER_MSEC, TP_CUBIC_MS_MAX * 2);

	cubic_friendly(c, w->packets, acked);
	tp_approach(w, &c->rest, tp_cubic_parts(t_ms, c->now.k_ms, c->now.origin), acked);
	w->packets = tp_min(tp_max(w->packets, c->now.reno), w->clamp);
}

TP_INLINE void cubic_slow_start(struct tp_cubic *c, struct tp_cwnd *w, const struct tp_ack *a)
{
	/* HyStart++ is for the first slow start only (RFC 9406, section 4.3) */
	if (w->ssthresh < TP_SSTHRESH_MAX) {
		tp_slow_start(w, a->acked);
		return;
	}
	tp_hystart_check(&c->hystart, a->min_rtt_us);
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
		if (tp_in_slow_start(w) || w->packets <= before)
			return;
		acked -= tp_min(acked, w->packets - before);
		if (!acked)
			return;
	}
	if (!c->now.start_us)
		cubic_epoch(c, w->packets, a->now_us);
	cubic_avoid_congestion(c, w, a, acked);
}

/* Sections 4.6 and 4.7: beta, and less for the next epoch if the last maximum was not reached.
 */
TP_INLINE __u32 cubic_threshold(struct tp_cubic *c, const struct tp_cwnd *w)
{
	__u32 max = c->now.max;

	c->before = c->now;
	c->may_undo = 1;
	c->now.start_us = 0;
	c->now.prior = w->packets;
	if (w->packets < max)
		c->now.max = (__u64)w->packets * (1024 + CUBIC_BETA_OF_1024) / 2048;
	else
		c->now.max = w->packets;
	return tp_scale(w->packets, CUBIC_BETA_OF_1024, 1024);
}

/* Section 4.8: a time-out forgets the maximum; slow start follows. */
TP_INLINE void cubic_enter(struct tp_cubic *c, const struct tp_ack *a, __u8 state,
			   const struct tp_cwnd *w)
{
	if (state != 4)
		return;
	c->now.max = 0;
	c->now.start_us = 0;
	tp_hystart_begin(&c->hystart, a->nxt);
}

/* After idleness the epoch goes on from its old place (section 5.8). */
TP_INLINE void cubic_idle(struct tp_cubic *c, __u64 idle_us, __u64 now_us)
{
	if (c->now.start_us)
		c->now.start_us = tp_min64(c->now.start_us + idle_us, now_us);
}

/* Section 4.9: the loss was none, so the epoch goes on as if nothing had happened. */
TP_INLINE void cubic_restore(struct tp_cubic *c)
{
	if (c->may_undo)
		c->now = c->before;
	c->may_undo = 0;
}

#endif
