/* SPDX-License-Identifier: GPL-2.0-or-later */
/* htcp.h - H-TCP's arithmetic; see htcp.bpf.c.  Gains are times 2^7. */
#ifndef TCPILOT_HTCP_H
#define TCPILOT_HTCP_H

#include "lib/cwnd.h"

#define HTCP_SHIFT 7
#define HTCP_ONE (1U << HTCP_SHIFT)
#define HTCP_BETA_MIN (HTCP_ONE / 2)
#define HTCP_BETA_MAX (HTCP_ONE * 8 / 10)
#define HTCP_DELTA_L_MS 1000
#define HTCP_RTT_REF_US 100000
#define HTCP_RTT_LEAST_US 10000 /* below, RTTs are too coarse to set the backoff by */
#define HTCP_JUMP_US 20000
#define HTCP_FADE_PERCENT 95
#define HTCP_SETTLED_RTTS 3

struct tp_htcp {
	__u32 alpha, beta;
	__u32 min_rtt_us, max_rtt_us;
	__u32 congested_ms;	 /* when congestion was last met */
	__u32 rate, rate_most;	 /* packets per second: smoothed, and highest since */
	__u32 rate_before;	 /* highest before that */
	__u32 packets, since_ms; /* acknowledged since */
	__u32 undo_congested_ms, undo_max_rtt_us, undo_rate;
	__u8 adaptive, may_undo;
	__u64 rest; /* growth short of a packet: times the window and 2^7 */
};

TP_INLINE void htcp_set_beta(struct tp_htcp *h)
{
	__u64 now = h->rate_most, before = h->rate_before;

	h->rate_before = h->rate_most;
	h->beta = HTCP_BETA_MIN;
	/* section 3.3: the rate changed by more than a fifth, so the path did */
	if (5 * now < 4 * before || 5 * now > 6 * before) {
		h->adaptive = 0;
		return;
	}
	if (h->adaptive && h->min_rtt_us > HTCP_RTT_LEAST_US && h->max_rtt_us)
		h->beta = tp_clamp((__u64)h->min_rtt_us * HTCP_ONE / h->max_rtt_us, HTCP_BETA_MIN,
				   HTCP_BETA_MAX);
	h->adaptive = 1;
}

/* 1 + 10 (D - DL) + ((D - DL) / 2)^2 with times in seconds, times 2^7; section 3.1. */
TP_INLINE __u32 htcp_increase(__u32 since_ms)
{
	__u64 over = since_ms > HTCP_DELTA_L_MS ? since_ms - HTCP_DELTA_L_MS : 0;

	over = tp_min64(over, 1000000);
	return HTCP_ONE + HTCP_ONE * (10000 * over + over * over / 4) / 1000000;
}

TP_INLINE void htcp_set_alpha(struct tp_htcp *h, __u32 now_ms)
{
	__u64 factor = htcp_increase(now_ms - h->congested_ms);

	/* section 3.4: with the RTT's share of 100 ms, within a tenth and twice */
	if (h->min_rtt_us)
		factor = factor *
			 tp_clamp(h->min_rtt_us, HTCP_RTT_REF_US / 10, HTCP_RTT_REF_US * 2) /
			 HTCP_RTT_REF_US;
	factor = tp_max64(factor, HTCP_ONE);
	/* also before growth rises: a flow with less backoff grows less, to be fair to reno */
	h->alpha = tp_max(2 * factor * (HTCP_ONE - h->beta) >> HTCP_SHIFT, 1);
}

TP_INLINE void htcp_begin(struct tp_htcp *h, const struct tp_ack *a)
{
	*h = (struct tp_htcp){};
	h->alpha = HTCP_ONE;
	h->beta = HTCP_BETA_MIN;
	h->congested_ms = h->since_ms = a->now_us / TP_USEC_PER_MSEC;
}

/* The rate achieved, a round at a time; recovery does not count. */
TP_INLINE void htcp_measure(struct tp_htcp *h, __u32 acked, __u32 cwnd, __u32 now_ms, __u8 state)
{
	__u32 elapsed_ms = now_ms - h->since_ms;
	__u32 rate;

	if (state >= 2) {
		h->packets = 0;
		h->since_ms = now_ms;
		return;
	}
	h->packets += acked;
	if (h->packets + tp_max(h->alpha >> HTCP_SHIFT, 1) < cwnd || !h->min_rtt_us ||
	    elapsed_ms < tp_max(h->min_rtt_us / 1000, 1))
		return;
	rate = (__u64)h->packets * 1000 / elapsed_ms;
	if ((__u64)(now_ms - h->congested_ms) * 1000 <= (__u64)HTCP_SETTLED_RTTS * h->min_rtt_us) {
		h->rate = h->rate_most = rate; /* just after the backoff */
	} else {
		h->rate = (3 * (__u64)h->rate + rate) / 4;
		h->rate_most = tp_max(h->rate_most, h->rate);
	}
	h->packets = 0;
	h->since_ms = now_ms;
}

/* State is enum tcp_ca_state: 0 open; 2 and above, congestion. */
TP_INLINE void htcp_sample(struct tp_htcp *h, __s32 rtt_us, __u32 acked, __u32 cwnd, __u64 now_us,
			   __u8 state)
{
	if (rtt_us > 0) {
		if (!h->min_rtt_us || h->min_rtt_us > (__u32)rtt_us)
			h->min_rtt_us = rtt_us;
		/* a jump of more than 20 ms is no growth of a queue, but an accident */
		h->max_rtt_us = tp_max(h->max_rtt_us, h->min_rtt_us);
		if (state == 0 && h->max_rtt_us < (__u32)rtt_us &&
		    (__u32)rtt_us <= h->max_rtt_us + HTCP_JUMP_US)
			h->max_rtt_us = rtt_us;
	}
	htcp_measure(h, acked, cwnd, now_us / TP_USEC_PER_MSEC, state);
}

TP_INLINE void htcp_grow(struct tp_htcp *h, struct tp_cwnd *w, const struct tp_ack *a)
{
	__u64 unit = (__u64)tp_max(w->packets, 1) << HTCP_SHIFT;
	__u32 acked = tp_slow_start(w, a->acked);

	if (!acked)
		return;
	htcp_set_alpha(h, a->now_us / TP_USEC_PER_MSEC);
	/* after a time-out a larger window's rest is worth one packet: the window never jumps */
	h->rest = tp_min64(h->rest, unit) + (__u64)acked * h->alpha;
	w->packets = tp_min64(w->packets + h->rest / unit, w->clamp);
	h->rest %= unit;
}

TP_INLINE __u32 htcp_threshold(struct tp_htcp *h, const struct tp_cwnd *w, __u32 now_ms)
{
	htcp_set_beta(h);
	htcp_set_alpha(h, now_ms);
	/* the longest RTT fades, since the route may change */
	if (h->max_rtt_us > h->min_rtt_us)
		h->max_rtt_us = h->min_rtt_us +
				(__u64)(h->max_rtt_us - h->min_rtt_us) * HTCP_FADE_PERCENT / 100;
	return tp_scale(w->packets, h->beta, HTCP_ONE);
}

TP_INLINE void htcp_enter(struct tp_htcp *h, const struct tp_ack *a, __u8 state,
			  const struct tp_cwnd *w)
{
	if (state == 0 && h->may_undo) {
		h->congested_ms = a->now_us / TP_USEC_PER_MSEC;
		h->may_undo = 0;
	} else if (state >= 2) {
		h->undo_congested_ms = h->congested_ms;
		h->undo_max_rtt_us = h->max_rtt_us;
		h->undo_rate = h->rate_before;
		h->congested_ms = a->now_us / TP_USEC_PER_MSEC;
		h->may_undo = 1;
	}
}

TP_INLINE void htcp_undo(struct tp_htcp *h)
{
	if (!h->may_undo)
		return;
	h->congested_ms = h->undo_congested_ms;
	h->max_rtt_us = h->undo_max_rtt_us;
	h->rate_before = h->undo_rate;
	h->may_undo = 0;
}

#endif
