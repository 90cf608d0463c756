/* SPDX-License-Identifier: GPL-2.0-only */
/* yeah.h - YeAH's arithmetic; see yeah.bpf.c. */
#ifndef TCPILOT_YEAH_H
#define TCPILOT_YEAH_H

#include "../lib/rtt.h"

#define YEAH_ALPHA 80	  /* packets in the queue that are too many */
#define YEAH_GAMMA 1	  /* share of the queue that is given up */
#define YEAH_DELTA 3	  /* a loss takes 1/8 at least */
#define YEAH_EPSILON 1	  /* half of the window at most is given up */
#define YEAH_PHI 8	  /* a queue of 1/8 of the base RTT is too long */
#define YEAH_RHO 16	  /* rounds of slow mode, after which others are about */
#define YEAH_ZETA 50	  /* rounds of fast mode, after which none is */
#define YEAH_FAST_PER 100 /* packets acknowledged for one more, as Scalable TCP */

struct tp_yeah {
	struct tp_rtt rtt;
	__u32 queued;	 /* packets, of the last round */
	__u32 slow;	 /* rounds of slow mode in a row */
	__u32 fast;	 /* rounds of fast mode */
	__u32 reno_cwnd; /* what reno would have */
	__u8 on;
};

TP_INLINE void yeah_begin(struct tp_yeah *y, const struct tp_ack *a)
{
	*y = (struct tp_yeah){};
	tp_rtt_start(&y->rtt, a->nxt);
	y->on = 1;
	y->reno_cwnd = 2;
}

TP_INLINE void yeah_enter(struct tp_yeah *y, const struct tp_ack *a, __u8 state,
			  const struct tp_cwnd *w)
{
	y->on = state == 0;
	if (y->on)
		tp_rtt_round(&y->rtt, a->nxt);
}

TP_INLINE void yeah_sample(struct tp_yeah *y, __s32 rtt_us, __u32 acked, __u64 now_us)
{
	tp_rtt_sample(&y->rtt, rtt_us);
}

/* Precautionary decongestion: gives the queue away, but not below reno's share. */
TP_INLINE void yeah_decongest(struct tp_yeah *y, struct tp_cwnd *w, __u32 queued)
{
	if (queued > YEAH_ALPHA && w->packets > y->reno_cwnd) {
		w->packets -= tp_min(queued / YEAH_GAMMA, w->packets >> YEAH_EPSILON);
		w->packets = tp_max(w->packets, y->reno_cwnd);
		w->ssthresh = w->packets;
	}
	y->reno_cwnd = y->reno_cwnd <= 2 ? tp_half(w->packets) : y->reno_cwnd + 1;
	y->slow = tp_min(y->slow + 1, 0xffffff);
}

TP_INLINE void yeah_round(struct tp_yeah *y, struct tp_cwnd *w)
{
	__u32 over_us = y->rtt.min_us - y->rtt.base_us;
	__u32 queued = (__u64)w->packets * over_us / tp_max(y->rtt.min_us, 1);

	if (queued > YEAH_ALPHA || over_us > y->rtt.base_us / YEAH_PHI) {
		yeah_decongest(y, w, queued);
	} else {
		if (++y->fast > YEAH_ZETA) {
			y->reno_cwnd = 2;
			y->fast = 0;
		}
		y->slow = 0;
	}
	y->queued = queued;
}

TP_INLINE void yeah_grow(struct tp_yeah *y, struct tp_cwnd *w, const struct tp_ack *a)
{
	__u32 acked = tp_slow_start(w, a->acked);

	if (acked)
		tp_increase(w, y->slow ? w->packets : tp_min(w->packets, YEAH_FAST_PER), acked);
	if (!tp_rtt_round_over(&y->rtt, a->una))
		return;
	if (tp_rtt_known(&y->rtt))
		yeah_round(y, w);
	tp_rtt_round(&y->rtt, a->nxt);
}

TP_INLINE __u32 yeah_threshold(struct tp_yeah *y, const struct tp_cwnd *w)
{
	__u32 less = tp_half(w->packets);

	/* alone on the path: only the queue, 1/8 at least */
	if (y->slow < YEAH_RHO)
		less = tp_max(tp_min(y->queued, less), w->packets >> YEAH_DELTA);
	y->fast = 0;
	y->reno_cwnd = tp_half(y->reno_cwnd);
	return w->packets > less ? tp_max(w->packets - less, TP_CWND_MIN) : TP_CWND_MIN;
}

#endif
