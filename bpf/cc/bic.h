/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * bic.h - BIC's search for the window that the path bears.  Described in bic.bpf.c.
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

/* Packets for each acknowledgement: an average over 16 of them, two at first; times 2^8,
 * since an average in sixteenths would never come down from two to one. */
#define BIC_RATIO_SHIFT 8
#define BIC_RATIO_GAIN 4
#define BIC_RATIO_FIRST (2U << BIC_RATIO_SHIFT)

struct tp_bic {
	__u32 max;   /* window at the last loss; 0: none known */
	__u32 ratio; /* packets for each acknowledgement, times 2^BIC_RATIO_SHIFT */
};

/* Packets to be acknowledged for one packet more, on the way up to the maximum ... */
TP_INLINE __u32 bic_per_below(__u32 packets, __u32 max)
{
	__u32 step = (max - packets) / BIC_SEARCH;

	if (step <= 1)
		return packets * BIC_SMOOTH / BIC_SEARCH;
	return packets / tp_min(step, BIC_STEP_MAX);
}

/* ... and beyond it, where the steps grow as they shrank: by BIC_SEARCH / (BIC_SEARCH - 1). */
TP_INLINE __u32 bic_per_above(__u32 packets, __u32 max)
{
	__u32 over = packets - max;

	if (over < BIC_SEARCH)
		return packets * BIC_SMOOTH / BIC_SEARCH;
	if (over < BIC_STEP_MAX * (BIC_SEARCH - 1))
		return packets * (BIC_SEARCH - 1) / over;
	return packets / BIC_STEP_MAX;
}

TP_INLINE __u32 bic_per(const struct tp_bic *s, __u32 packets)
{
	__u32 per;

	if (packets <= BIC_LOW_WINDOW)
		return packets;
	per = packets < s->max ? bic_per_below(packets, s->max) : bic_per_above(packets, s->max);
	per = s->max ? per : tp_min(per, BIC_FIRST_PER);
	return tp_max(((__u64)per << BIC_RATIO_SHIFT) / tp_max(s->ratio, 1), 1);
}

TP_INLINE void bic_begin(struct tp_bic *s, const struct tp_ack *a)
{
	*s = (struct tp_bic){.ratio = BIC_RATIO_FIRST};
}

TP_INLINE void bic_sample(struct tp_bic *s, __s32 rtt_us, __u32 acked, __u64 now_us)
{
	s->ratio -= s->ratio >> BIC_RATIO_GAIN;
	s->ratio += tp_min(acked, 0xffff) << (BIC_RATIO_SHIFT - BIC_RATIO_GAIN);
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
		tp_increase(w, bic_per(s, w->packets), acked);
}

/* Fast convergence: who lost before the last maximum makes room for another flow. */
TP_INLINE __u32 bic_threshold(struct tp_bic *s, const struct tp_cwnd *w)
{
	__u32 packets = w->packets;

	s->max = packets < s->max ? (__u64)packets * (1024 + BIC_KEPT) / 2048 : packets;
	if (packets <= BIC_LOW_WINDOW)
		return tp_half(packets);
	return tp_scale(packets, BIC_KEPT, 1024);
}

#endif
