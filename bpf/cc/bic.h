/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * bic.h - BIC's search for the path's largest window.  Described in bic.bpf.c.
 */
#ifndef TCPILOT_BIC_H
#define TCPILOT_BIC_H

#include "lib/cwnd.h"

#define BIC_LOW_WINDOW 14 /* up to here it is Reno */
#define BIC_STEP_MAX 16	  /* Smax, packets a round */
#define BIC_SEARCH 4	  /* a round goes a quarter of the way to the last maximum */
#define BIC_SMOOTH 20	  /* rounds for the last BIC_SEARCH packets before it, and after */
#define BIC_KEPT 819	  /* of 1024, after a loss */
#define BIC_FIRST_PER 20  /* no maximum known: 5 % a round at least */
#define BIC_PARTS 1024	  /* of a packet */

struct tp_bic {
	__u32 max; /* window at the last loss; 0: none known */
};

/* Packets a round, in parts: on the way up to the maximum ... */
TP_INLINE __u64 bic_step_below(__u32 packets, __u32 max)
{
	__u64 step = (__u64)(max - packets) * BIC_PARTS / BIC_SEARCH;

	if (step <= BIC_PARTS)
		return BIC_PARTS * BIC_SEARCH / BIC_SMOOTH;
	return tp_min64(step, BIC_STEP_MAX * BIC_PARTS);
}

/* ... and beyond it, with steps growing as they shrank: by BIC_SEARCH / (BIC_SEARCH - 1). */
TP_INLINE __u64 bic_step_above(__u32 packets, __u32 max)
{
	__u64 over = packets - max;

	if (over < BIC_SEARCH)
		return BIC_PARTS * BIC_SEARCH / BIC_SMOOTH;
	return tp_min64(over * BIC_PARTS / (BIC_SEARCH - 1), BIC_STEP_MAX * BIC_PARTS);
}

TP_INLINE __u64 bic_step(const struct tp_bic *s, __u32 packets)
{
	__u64 step;

	if (packets <= BIC_LOW_WINDOW)
		return BIC_PARTS;
	if (packets < s->max)
		return bic_step_below(packets, s->max);
	step = bic_step_above(packets, s->max);
	return s->max ? step : tp_max64(step, (__u64)packets * BIC_PARTS / BIC_FIRST_PER);
}

TP_INLINE void bic_begin(struct tp_bic *s, const struct tp_ack *a)
{
	*s = (struct tp_bic){};
}

/* After a time-out the search starts again. */
TP_INLINE void bic_enter(struct tp_bic *s, const struct tp_ack *a, __u8 state,
			 const struct tp_cwnd *w)
{
	if (state == TP_STATE_LOSS)
		s->max = 0;
}

TP_INLINE void bic_grow(const struct tp_bic *s, struct tp_cwnd *w, const struct tp_ack *a)
{
	__u32 acked = tp_slow_start(w, a->acked);

	if (acked)
		tp_add_parts(w, acked * bic_step(s, w->packets), (__u64)w->packets * BIC_PARTS);
}

/* What Linux's module makes of an acknowledgement in congestion avoidance: n packets, n times. */
TP_INLINE __u32 bic_module_counts(const struct tp_cwnd *w, __u32 acked)
{
	return tp_in_slow_start(w) ? acked : acked * tp_min(acked, 0xffff);
}

/* Fast convergence: a flow with a loss before its last maximum makes room for another flow. */
TP_INLINE __u32 bic_threshold(struct tp_bic *s, const struct tp_cwnd *w)
{
	__u32 packets = w->packets;

	s->max = packets < s->max ? (__u64)packets * (1024 + BIC_KEPT) / 2048 : packets;
	if (packets <= BIC_LOW_WINDOW)
		return tp_half(packets);
	return tp_scale(packets, BIC_KEPT, 1024);
}

#endif
