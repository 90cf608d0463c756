/* SPDX-License-Identifier: GPL-2.0-only */
/* bic.h - BIC's arithmetic; see bic.bpf.c. */
#ifndef TCPILOT_BIC_H
#define TCPILOT_BIC_H

#include "../lib/cwnd.h"

#define BIC_LOW_WINDOW 14 /* packets; below, reno */
#define BIC_STEP_MAX 16	  /* packets for each RTT */
#define BIC_SMOOTH 20	  /* RTTs for the last packet to the maximum */
#define BIC_SEARCH 4	  /* a quarter of the distance for each RTT */
#define BIC_BETA_OF_1024 819
#define BIC_FIRST_PER 20 /* before the first loss, 5 % an RTT at least */

#define BIC_RATIO_SHIFT 4
#define BIC_RATIO_FIRST (2U << BIC_RATIO_SHIFT)

struct tp_bic {
	__u32 max;   /* the window at the last loss */
	__u32 ratio; /* packets for each acknowledgement, smoothed, times 2^4 */
};

TP_INLINE void bic_begin(struct tp_bic *b, const struct tp_ack *a)
{
	b->max = 0;
	b->ratio = BIC_RATIO_FIRST;
}

TP_INLINE void bic_sample(struct tp_bic *b, __s32 rtt_us, __u32 acked, __u64 now_us)
{
	b->ratio += acked - (b->ratio >> BIC_RATIO_SHIFT);
}

/* Packets to be acknowledged for one more. */
TP_INLINE __u32 bic_per(const struct tp_bic *b, __u32 cwnd)
{
	__u32 per;

	if (cwnd <= BIC_LOW_WINDOW)
		return cwnd;
	if (cwnd < b->max) { /* binary search towards the maximum */
		__u32 step = (b->max - cwnd) / BIC_SEARCH;

		if (step > BIC_STEP_MAX)
			per = cwnd / BIC_STEP_MAX;
		else
			per = step <= 1 ? cwnd * BIC_SMOOTH / BIC_SEARCH : cwnd / step;
	} else { /* past it: slowly, then linearly */
		__u32 past = cwnd - b->max;

		if (past < BIC_SEARCH)
			per = cwnd * BIC_SMOOTH / BIC_SEARCH;
		else if (past < BIC_STEP_MAX * (BIC_SEARCH - 1))
			per = cwnd * (BIC_SEARCH - 1) / past;
		else
			per = cwnd / BIC_STEP_MAX;
	}
	if (!b->max)
		per = tp_min(per, BIC_FIRST_PER);
	/* as deployed: delayed acknowledgements shall not slow the growth */
	return tp_max((per << BIC_RATIO_SHIFT) / tp_max(b->ratio, 1), 1);
}

TP_INLINE void bic_grow(const struct tp_bic *b, struct tp_cwnd *w, const struct tp_ack *a)
{
	__u32 acked = tp_slow_start(w, a->acked);

	if (acked)
		tp_increase(w, bic_per(b, w->packets), acked);
}

TP_INLINE __u32 bic_threshold(struct tp_bic *b, const struct tp_cwnd *w)
{
	/* fast convergence: below the last maximum, another flow has come */
	if (w->packets < b->max)
		b->max = (__u64)w->packets * (1024 + BIC_BETA_OF_1024) / 2048;
	else
		b->max = w->packets;
	if (w->packets <= BIC_LOW_WINDOW)
		return tp_half(w->packets);
	return tp_scale(w->packets, BIC_BETA_OF_1024, 1024);
}

TP_INLINE void bic_enter(struct tp_bic *b, const struct tp_ack *a, __u8 state,
			 const struct tp_cwnd *w)
{
	if (state == 4) /* TCP_CA_Loss: the search starts again */
		b->max = 0;
}

#endif
