/* SPDX-License-Identifier: GPL-2.0-or-later */
/* wvegas.h - wVegas' arithmetic; see wvegas.bpf.c.  A subflow's `extra` is its rate. */
#ifndef TCPILOT_WVEGAS_H
#define TCPILOT_WVEGAS_H

#include "lib/coupling.h"
#include "lib/rtt.h"

#define WVEGAS_TOTAL_ALPHA 10 /* packets in queues, of all subflows */
#define WVEGAS_ALPHA_MIN 2
#define WVEGAS_GAMMA 1

struct tp_wvegas {
	struct tp_rtt rtt;
	__u32 alpha;
	__u32 queue_us; /* the shortest queue since the last drain; 0: none yet */
	__u8 on;
};

TP_INLINE void wvegas_begin(struct tp_wvegas *v, const struct tp_ack *a)
{
	*v = (struct tp_wvegas){};
	tp_rtt_start(&v->rtt, a->nxt);
	v->alpha = WVEGAS_ALPHA_MIN;
	v->on = 1;
}

TP_INLINE void wvegas_enter(struct tp_wvegas *v, const struct tp_ack *a, __u8 state,
			    const struct tp_cwnd *w)
{
	v->on = state == 0;
	if (v->on)
		tp_rtt_round(&v->rtt, a->nxt);
}

TP_INLINE void wvegas_sample(struct tp_wvegas *v, __s32 rtt_us, __u32 acked, __u64 now_us)
{
	tp_rtt_sample(&v->rtt, rtt_us);
}

/* The subflow's share of the connection's rate is its share of the queue. */
TP_INLINE __u32 wvegas_alpha(const struct tp_coupled *c, const struct tp_subflow *own)
{
	__u64 sum = 0;

	TP_EACH_SUBFLOW(i)
	if (tp_counts(c, &c->sub[i]))
		sum += c->sub[i].extra;
	/* one without a place is not in the sum, and could be far above it */
	if (own->extra >= sum)
		return WVEGAS_TOTAL_ALPHA;
	return tp_max(own->extra * WVEGAS_TOTAL_ALPHA / sum, WVEGAS_ALPHA_MIN);
}

/*
 * A queue twice as long as the shortest is let run empty, so that base RTTs stay
 * true; but not what is about its own share, which grows from nothing, and so is
 * soon twice its size.
 */
TP_INLINE void wvegas_drain(struct tp_wvegas *v, struct tp_cwnd *w, __u32 queued)
{
	__u32 queue_us = v->rtt.min_us - v->rtt.base_us;

	if (!v->queue_us || v->queue_us > queue_us)
		v->queue_us = queue_us;
	if (queued > 2 * v->alpha && queue_us >= 2 * v->queue_us) {
		w->packets = (__u64)w->packets * v->rtt.base_us / (2 * (__u64)v->rtt.min_us + 1);
		v->queue_us = 0;
	}
}

TP_INLINE void wvegas_round(struct tp_wvegas *v, struct tp_cwnd *w, const struct tp_ack *a,
			    struct tp_subflow *own, const struct tp_coupled *c)
{
	__u32 queued =
	    (__u64)w->packets * (v->rtt.min_us - v->rtt.base_us) / tp_max(v->rtt.min_us, 1);

	own->extra = ((__u64)w->packets << TP_RATE_SHIFT) / tp_max(v->rtt.min_us, 1);
	if (tp_in_slow_start(w)) {
		if (queued > WVEGAS_GAMMA)
			w->ssthresh = w->packets = tp_max(w->packets - queued, TP_CWND_MIN);
		else
			tp_slow_start(w, a->acked);
		return;
	}
	if (queued >= v->alpha)
		v->alpha = wvegas_alpha(c, own);
	if (queued < v->alpha)
		w->packets++;
	else if (queued > v->alpha)
		w->packets--;
	wvegas_drain(v, w, queued);
	w->packets = tp_clamp(w->packets, TP_CWND_MIN, w->clamp);
	w->ssthresh = tp_min(w->ssthresh, w->packets);
}

TP_INLINE void wvegas_grow(struct tp_wvegas *v, struct tp_cwnd *w, const struct tp_ack *a,
			   struct tp_subflow *own, const struct tp_coupled *c)
{
	if (!v->on) {
		tp_reno_increase(w, a->acked);
		return;
	}
	if (!tp_rtt_round_over(&v->rtt, a->una)) {
		tp_slow_start(w, a->acked);
		return;
	}
	if (tp_rtt_known(&v->rtt))
		wvegas_round(v, w, a, own, c);
	else
		tp_reno_increase(w, a->acked);
	tp_rtt_round(&v->rtt, a->nxt);
}

#endif
