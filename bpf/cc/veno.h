/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * veno.h - Veno's two rules: how to grow, and how much a loss takes.  Described in
 * veno.bpf.c.
 */
#ifndef TCPILOT_VENO_H
#define TCPILOT_VENO_H

#include "lib/rtt.h"

/* Packets in the queue from which on the path counts as congested. */
#define VENO_BETA 3

struct tp_veno {
	struct tp_rtt rtt;
	__u8 congested; /* by the last acknowledgement */
};

TP_INLINE void veno_begin(struct tp_veno *s, const struct tp_ack *a)
{
	tp_rtt_start(&s->rtt, a->nxt);
	s->congested = 0;
}

TP_INLINE void veno_sample(struct tp_veno *s, __s32 rtt_us, __u32 acked, __u64 now_us)
{
	tp_rtt_sample(&s->rtt, rtt_us);
}

/* Section II-C: a packet a round, or in every other round of a congested path. */
TP_INLINE void veno_grow(struct tp_veno *s, struct tp_cwnd *w, const struct tp_ack *a)
{
	__u32 acked = tp_slow_start(w, a->acked);

	/* section II-A: by the smoothed RTT */
	s->congested = tp_queued(w->packets, a->srtt_us, s->rtt.base_us) >= VENO_BETA;
	if (acked)
		tp_increase(w, s->congested ? 2 * w->packets : w->packets, acked);
}

/* Section II-B: a loss without congestion is taken for random, and costs a fifth. */
TP_INLINE __u32 veno_threshold(const struct tp_veno *s, const struct tp_cwnd *w)
{
	return s->congested ? tp_half(w->packets) : tp_scale(w->packets, 4, 5);
}

#endif
