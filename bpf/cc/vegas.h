/* SPDX-License-Identifier: GPL-2.0-only */
/* vegas.h - Vegas' arithmetic; see vegas.bpf.c. */
#ifndef TCPILOT_VEGAS_H
#define TCPILOT_VEGAS_H

#include "../lib/rtt.h"

#define VEGAS_ALPHA 2 /* packets */
#define VEGAS_BETA 4
#define VEGAS_GAMMA 1

struct tp_vegas {
	struct tp_rtt rtt;
	__u8 on; /* off while the network recovers */
};

TP_INLINE void vegas_begin(struct tp_vegas *v, const struct tp_ack *a)
{
	tp_rtt_start(&v->rtt, a->nxt);
	v->on = 1;
}

TP_INLINE void vegas_enter(struct tp_vegas *v, const struct tp_ack *a, __u8 state,
			   const struct tp_cwnd *w)
{
	v->on = state == 0;
	if (v->on)
		tp_rtt_round(&v->rtt, a->nxt);
}

TP_INLINE void vegas_sample(struct tp_vegas *v, __s32 rtt_us, __u32 acked, __u64 now_us)
{
	tp_rtt_sample(&v->rtt, rtt_us);
}

TP_INLINE void vegas_round(struct tp_vegas *v, struct tp_cwnd *w, const struct tp_ack *a)
{
	__u32 queued = tp_rtt_queued(&v->rtt, w->packets);
	__u32 fits = (__u64)w->packets * v->rtt.base_us / tp_max(v->rtt.min_us, 1);

	if (tp_in_slow_start(w)) {
		if (queued > VEGAS_GAMMA) {
			w->packets = tp_min(w->packets, fits + 1);
			w->ssthresh = tp_min(w->ssthresh, w->packets);
		} else {
			tp_slow_start(w, a->acked);
		}
	} else if (queued > VEGAS_BETA) {
		w->packets--;
		w->ssthresh = tp_min(w->ssthresh, w->packets);
	} else if (queued < VEGAS_ALPHA) {
		w->packets++;
	}
	w->packets = tp_clamp(w->packets, TP_CWND_MIN, w->clamp);
	w->ssthresh = tp_max(w->ssthresh, w->packets / 2 + w->packets / 4);
}

TP_INLINE void vegas_grow(struct tp_vegas *v, struct tp_cwnd *w, const struct tp_ack *a)
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
		vegas_round(v, w, a);
	else
		tp_reno_increase(w, a->acked);
	tp_rtt_round(&v->rtt, a->nxt);
}

TP_INLINE __u32 vegas_threshold(const struct tp_vegas *v, const struct tp_cwnd *w)
{
	return tp_half(w->packets);
}

#endif
