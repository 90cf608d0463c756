/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * hybla.h - Hybla's steps, scaled by how much longer the RTT is than a terrestrial
 * one.  Described in hybla.bpf.c.
 */
#ifndef TCPILOT_HYBLA_H
#define TCPILOT_HYBLA_H

#include "../lib/cwnd.h"

#define HYBLA_RTT0_US 25000
/* rho, and steps of the window, are multiples of 1/128. */
#define HYBLA_SHIFT 7
#define HYBLA_UNIT (1U << HYBLA_SHIFT)
/* From here on 2^rho would double any window at once. */
#define HYBLA_RHO_MAX (16 * HYBLA_UNIT)

struct tp_hybla {
	__u32 rtt_us; /* least smoothed RTT; 0: none yet */
	__u32 rest;   /* of a step, less than a packet; in 1/128 */
	__u8 off;     /* loss is being repaired: Reno */
};

/* Section 3.1: rho = RTT / RTT0, but not less than 1. */
TP_INLINE __u32 hybla_rho(__u32 rtt_us)
{
	__u64 rho = ((__u64)rtt_us << HYBLA_SHIFT) / HYBLA_RTT0_US;

	return tp_min64(tp_max64(rho, HYBLA_UNIT), HYBLA_RHO_MAX);
}

/* 2^x: of the fraction a parabola through 0, 1/2 and 1, wrong by less than 0.2 %. */
TP_INLINE __u32 hybla_exp2(__u32 x)
{
	__u32 f = x & (HYBLA_UNIT - 1);
	/* 1 + 0.6568 f + 0.3432 f^2, in 1/65536 before the last shift */
	__u64 y = (1U << 16) + ((43044ULL * f) >> HYBLA_SHIFT) +
		  ((22492ULL * f * f) >> (2 * HYBLA_SHIFT));

	return y << ((x >> HYBLA_SHIFT) & 31) >> (16 - HYBLA_SHIFT);
}

/*
 * For each acknowledgement, section 3.2: 2^rho - 1 in slow start, rho^2 / w in
 * congestion avoidance; for rho = 1 that is Reno.
 */
TP_INLINE __u32 hybla_step(const struct tp_hybla *s, const struct tp_cwnd *w)
{
	__u32 rho = hybla_rho(s->rtt_us);

	if (tp_in_slow_start(w))
		return hybla_exp2(rho) - HYBLA_UNIT;
	/* at least 1/128: the window is never so large that it stands still */
	return tp_max((rho * rho >> HYBLA_SHIFT) / tp_max(w->packets, 1), 1);
}

TP_INLINE void hybla_begin(struct tp_hybla *s, const struct tp_ack *a)
{
	*s = (struct tp_hybla){.rtt_us = a->srtt_us};
}

TP_INLINE void hybla_enter(struct tp_hybla *s, const struct tp_ack *a, __u8 state,
			   const struct tp_cwnd *w)
{
	s->off = state != TP_STATE_OPEN;
}

TP_INLINE void hybla_grow(struct tp_hybla *s, struct tp_cwnd *w, const struct tp_ack *a)
{
	int starting = tp_in_slow_start(w);

	if (a->srtt_us && (!s->rtt_us || a->srtt_us < s->rtt_us))
		s->rtt_us = a->srtt_us;
	if (s->off || hybla_rho(s->rtt_us) == HYBLA_UNIT) {
		tp_reno_increase(w, a->acked);
		return;
	}
	s->rest += hybla_step(s, w);
	w->packets += s->rest >> HYBLA_SHIFT;
	s->rest &= HYBLA_UNIT - 1;
	if (starting)
		w->packets = tp_min(w->packets, w->ssthresh);
	w->packets = tp_min(w->packets, w->clamp);
}

TP_INLINE __u32 hybla_threshold(const struct tp_hybla *s, const struct tp_cwnd *w)
{
	return tp_half(w->packets);
}

#endif
