/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ecn.h - the fraction of packets marked, a round at a time, smoothed:
 * alpha of DCTCP (RFC 8257, section 3.3), and of those built upon it.
 */
#ifndef TCPILOT_ECN_H
#define TCPILOT_ECN_H

#include "cwnd.h"

/* 1.  In equilibrium two packets a round are marked: of 10,000 that is 0.02 %. */
#define TP_ALPHA_SHIFT 24
#define TP_ALPHA_MAX (1U << TP_ALPHA_SHIFT)

struct tp_ecn {
	__u32 alpha;		 /* times 2^24 */
	__u32 cut_rest;		 /* reduction short of a packet: times 2^25 */
	__u32 delivered, marked; /* packets, at the start of the round */
	__u32 end;		 /* sequence number at which the round is over */
};

TP_INLINE void tp_ecn_round(struct tp_ecn *e, __u32 delivered, __u32 marked, __u32 nxt)
{
	e->delivered = delivered;
	e->marked = marked;
	e->end = nxt;
}

/* alpha = (1 - g) alpha + g F with g = 2^-shift.  1: a round is over. */
TP_INLINE int tp_ecn_update(struct tp_ecn *e, __u32 delivered, __u32 marked, __u32 una, __u32 nxt,
			    __u32 shift)
{
	__u32 packets = delivered - e->delivered, ce = marked - e->marked;

	if (tp_before(una, e->end))
		return 0;
	/* rounded up, or the last parts would never go */
	e->alpha -= (e->alpha + (1U << shift) - 1) >> shift;
	e->alpha += ((__u64)ce * (TP_ALPHA_MAX >> shift)) / tp_max(packets, 1);
	e->alpha = tp_min(e->alpha, TP_ALPHA_MAX);
	tp_ecn_round(e, delivered, marked, nxt);
	return 1;
}

/* Equation 2 of RFC 8257: cwnd (1 - alpha / 2). */
TP_INLINE __u32 tp_ecn_threshold(struct tp_ecn *e, __u32 cwnd)
{
	__u64 cut = (__u64)cwnd * e->alpha + e->cut_rest;

	e->cut_rest = cut & (2 * TP_ALPHA_MAX - 1);
	cut = tp_min64(cut >> (TP_ALPHA_SHIFT + 1), cwnd / 2);
	return tp_max(cwnd - (__u32)cut, TP_CWND_MIN);
}

#endif
