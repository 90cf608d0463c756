/* SPDX-License-Identifier: GPL-2.0-only */
/* veno.h - Veno's arithmetic; see veno.bpf.c. */
#ifndef TCPILOT_VENO_H
#define TCPILOT_VENO_H

#include "../lib/rtt.h"

#define VENO_BETA 3 /* packets */

struct tp_veno {
	struct tp_rtt rtt;
	__u32 queued_x2;
	__u8 on, skip;
};

TP_INLINE void veno_begin(struct tp_veno *v, const struct tp_ack *a)
{
	*v = (struct tp_veno){};
	tp_rtt_start(&v->rtt, a->nxt);
	v->on = v->skip = 1;
}

TP_INLINE void veno_enter(struct tp_veno *v, const struct tp_ack *a, __u8 state,
			  const struct tp_cwnd *w)
{
	v->on = state == 0;
	if (v->on)
		tp_rtt_round(&v->rtt, a->nxt);
}

TP_INLINE void veno_sample(struct tp_veno *v, __s32 rtt_us, __u32 acked, __u64 now_us)
{
	tp_rtt_sample(&v->rtt, rtt_us);
}

/* One packet for two windows, where the path is congested (section II.B.1). */
TP_INLINE void veno_grow_slowly(struct tp_veno *v, struct tp_cwnd *w, __u32 acked)
{
	if (w->credit < w->packets) {
		w->credit += acked;
		return;
	}
	if (!v->skip)
		w->packets = tp_min(w->packets + 1, w->clamp);
	v->skip = !v->skip;
	w->credit = 0;
}

TP_INLINE void veno_grow(struct tp_veno *v, struct tp_cwnd *w, const struct tp_ack *a)
{
	__u32 acked = a->acked;

	if (!v->on || !tp_rtt_known(&v->rtt)) {
		tp_reno_increase(w, acked);
		return;
	}
	if (v->rtt.min_us != TP_NO_RTT)
		v->queued_x2 = tp_rtt_queued(&v->rtt, 2 * w->packets);
	acked = tp_slow_start(w, acked);
	if (acked && v->queued_x2 < 2 * VENO_BETA)
		tp_increase(w, w->packets, acked);
	else if (acked)
		veno_grow_slowly(v, w, acked);
	w->packets = tp_clamp(w->packets, TP_CWND_MIN, w->clamp);
	v->rtt.min_us = TP_NO_RTT; /* the next acknowledgement speaks for itself */
}

/* A loss without a queue is taken for random: a fifth instead of a half. */
TP_INLINE __u32 veno_threshold(const struct tp_veno *v, const struct tp_cwnd *w)
{
	return v->queued_x2 < 2 * VENO_BETA ? tp_scale(w->packets, 4, 5) : tp_half(w->packets);
}

#endif
