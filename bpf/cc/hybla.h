/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * hybla.h - Hybla's steps, scaled by how much longer the RTT is than a terrestrial
 * one.  Described in hybla.bpf.c.
 */
#ifndef TCPILOT_HYBLA_H
#define TCPILOT_HYBLA_H

#include "lib/cwnd.h"

#define HYBLA_RTT0_US 25000
/* rho, and steps of the window, count 1/128. */
#define HYBLA_SHIFT 7
#define HYBLA_UNIT (1U << HYBLA_SHIFT)
/* From here on 2^rho would double any window at once. */
#define HYBLA_RHO_MAX (16 * HYBLA_UNIT)

struct tp_hybla {
	__u32 rtt_us; /* least smoothed RTT; 0: none yet */
	__u32 rest;   /* slow start: of a step, less than a packet; in 1/128 */
	__u64 saved;  /* then: rho^2 for each packet, until it makes one more; in 1/128^2 */
	__u8 off;     /* loss is being repaired: Reno */
};

/* Section 3.1: rho = RTT / RTT0, but not less than 1. */
TP_INLINE __u32 hybla_rho(__u32 rtt_us)
{
	__u64 rho = (__u64)rtt_us * HYBLA_UNIT / HYBLA_RTT0_US;

	return tp_clamp(tp_min64(rho, HYBLA_RHO_MAX), HYBLA_UNIT, HYBLA_RHO_MAX);
}

/* 2^x: a line between eighths, by which it is 0.1 % too large at most. */
TP_INLINE __u32 hybla_exp2(__u32 x)
{
	/* 2^(n/8), times 2^16.  Eight of them would land in a section of mergeable
	 * constants, which libbpf does not load. */
	static const __u32 root[9] = {65536,  71468,  77936,  84990, 92682,
				      101070, 110218, 120194, 131072};
	__u32 eighth = (x >> (HYBLA_SHIFT - 3)) & 7, off = x & (HYBLA_UNIT / 8 - 1);
	__u64 y = root[eighth] + (root[eighth + 1] - root[eighth]) * off / (HYBLA_UNIT / 8);

	return y << ((x >> HYBLA_SHIFT) & 31) >> (16 - HYBLA_SHIFT);
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

/*
 * For each packet acknowledged, section 3.2: 2^rho - 1 in slow start, rho^2 / w in
 * congestion avoidance; rho = 1 is Reno.
 */
TP_INLINE void hybla_step(struct tp_hybla *s, struct tp_cwnd *w, __u32 rho, __u32 acked)
{
	__u64 unit = (__u64)tp_max(w->packets, 1) << (2 * HYBLA_SHIFT);

	if (tp_in_slow_start(w)) {
		__u64 grown = s->rest + (__u64)acked * (hybla_exp2(rho) - HYBLA_UNIT);

		w->packets = tp_min64(w->packets + (grown >> HYBLA_SHIFT), w->ssthresh);
		s->rest = grown & (HYBLA_UNIT - 1);
		s->saved = 0;
		return;
	}
	/* after a time-out a larger window's rest is worth one packet: the window never jumps */
	s->saved = tp_min64(s->saved, unit) + (__u64)acked * rho * rho;
	w->packets += s->saved / unit;
	s->saved %= unit;
}

/* What Linux's module counts of an acknowledgement: one. */
TP_INLINE __u32 hybla_module_counts(const struct tp_cwnd *w, __u32 acked)
{
	return tp_min(acked, 1);
}

TP_INLINE void hybla_grow(struct tp_hybla *s, struct tp_cwnd *w, const struct tp_ack *a)
{
	if (a->srtt_us && (!s->rtt_us || a->srtt_us < s->rtt_us))
		s->rtt_us = a->srtt_us;
	if (s->off || hybla_rho(s->rtt_us) == HYBLA_UNIT) {
		tp_reno_increase(w, a->acked);
		return;
	}
	hybla_step(s, w, hybla_rho(s->rtt_us), a->acked);
	w->packets = tp_min(w->packets, w->clamp);
}

TP_INLINE __u32 hybla_threshold(const struct tp_hybla *s, const struct tp_cwnd *w)
{
	return tp_half(w->packets);
}

#endif
