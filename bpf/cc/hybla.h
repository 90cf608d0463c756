/* SPDX-License-Identifier: GPL-2.0-only */
/* hybla.h - Hybla's arithmetic; see hybla.bpf.c.  Steps are times 2^7. */
#ifndef TCPILOT_HYBLA_H
#define TCPILOT_HYBLA_H

#include "../lib/cwnd.h"

#define HYBLA_RTT0_US 25000 /* of the connection that this one keeps pace with */
#define HYBLA_SHIFT 7
#define HYBLA_ONE (1U << HYBLA_SHIFT)
#define HYBLA_RHO_MAX 16

struct tp_hybla {
	__u32 rho_x8; /* RTT / RTT0, one at least */
	__u32 min_rtt_us;
	__u32 part; /* of a packet */
};

/* 2^(k/8) times 2^7 */
TP_INLINE __u32 hybla_root(__u32 eighths)
{
	switch (eighths & 7) {
	case 0:
		return 128;
	case 1:
		return 139;
	case 2:
		return 152;
	case 3:
		return 165;
	case 4:
		return 181;
	case 5:
		return 197;
	case 6:
		return 215;
	}
	return 234;
}

TP_INLINE void hybla_set_rho(struct tp_hybla *h, __u32 rtt_us)
{
	h->rho_x8 = tp_clamp((__u64)rtt_us * 8 / HYBLA_RTT0_US, 8, HYBLA_RHO_MAX * 8);
	h->min_rtt_us = rtt_us;
}

TP_INLINE void hybla_begin(struct tp_hybla *h, const struct tp_ack *a)
{
	*h = (struct tp_hybla){};
	hybla_set_rho(h, a->srtt_us);
	if (!a->srtt_us)
		h->min_rtt_us = ~0U;
}

/* Equation 5 of the paper: 2^rho - 1 in slow start, rho^2 / W then, for each acknowledgement. */
TP_INLINE __u32 hybla_step(const struct tp_hybla *h, const struct tp_cwnd *w)
{
	if (tp_in_slow_start(w))
		return (hybla_root(h->rho_x8) << tp_min(h->rho_x8 >> 3, HYBLA_RHO_MAX)) - HYBLA_ONE;
	return 2 * h->rho_x8 * h->rho_x8 / tp_max(w->packets, 1);
}

TP_INLINE void hybla_grow(struct tp_hybla *h, struct tp_cwnd *w, const struct tp_ack *a)
{
	int slow_start = tp_in_slow_start(w);
	__u32 step;

	if (a->srtt_us && a->srtt_us < h->min_rtt_us)
		hybla_set_rho(h, a->srtt_us);
	if (h->rho_x8 == 8) { /* not slower than the reference: reno */
		tp_reno_increase(w, a->acked);
		return;
	}
	step = hybla_step(h, w);
	h->part += step;
	w->packets += h->part >> HYBLA_SHIFT;
	h->part &= HYBLA_ONE - 1;
	if (!step) { /* the window is too large for the fraction: one for each window */
		w->credit += a->acked;
		if (w->credit >= w->packets) {
			w->credit = 0;
			w->packets++;
		}
	}
	if (slow_start)
		w->packets = tp_min(w->packets, w->ssthresh);
	w->packets = tp_min(w->packets, w->clamp);
}

TP_INLINE __u32 hybla_threshold(const struct tp_hybla *h, const struct tp_cwnd *w)
{
	return tp_half(w->packets);
}

#endif
