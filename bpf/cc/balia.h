/* SPDX-License-Identifier: GPL-2.0-or-later */
/* balia.h - BALIA's arithmetic; see balia.bpf.c. */
#ifndef TCPILOT_BALIA_H
#define TCPILOT_BALIA_H

#include "lib/coupling.h"

#define BALIA_ONE 1024 /* alpha is times 2^10 */
#define BALIA_ALPHA_MAX (1 << 20)

struct tp_balia {
	__s32 rest;
};

/* alpha = max(x) / x, at least 1. */
TP_INLINE __u64 balia_alpha(const struct tp_rates *r, const struct tp_subflow *own)
{
	__u64 x = tp_rate(own);

	if (!x)
		return BALIA_ONE;
	return tp_min64(tp_max64(r->most * BALIA_ONE / x, BALIA_ONE), BALIA_ALPHA_MAX);
}

/* For each packet: x / rtt / (sum x)^2 * (1 + alpha) / 2 * (4 + alpha) / 5. */
TP_INLINE __s64 balia_step(const struct tp_coupled *c, const struct tp_subflow *own)
{
	struct tp_rates r = tp_rates_of(c);
	__u64 alpha = balia_alpha(&r, own);
	__u64 step = tp_coupled_step(&r, own);

	step = step * (BALIA_ONE + alpha) / (2 * BALIA_ONE);
	step = step * (4 * BALIA_ONE + alpha) / (5 * BALIA_ONE);
	return tp_min64(step, TP_STEP_ONE);
}

TP_INLINE void balia_grow(struct tp_balia *b, struct tp_cwnd *w, const struct tp_ack *a,
			  struct tp_subflow *own, const struct tp_coupled *c)
{
	__u32 acked = tp_slow_start(w, a->acked);
	__s32 rest = b->rest;

	if (!acked)
		return;
	tp_add_step(w, &rest, balia_step(c, own) * acked);
	b->rest = rest;
}

/* A loss takes half of the window times alpha, 1.5 at most. */
TP_INLINE __u32 balia_kept(const struct tp_coupled *c, const struct tp_subflow *own, __u32 cwnd)
{
	struct tp_rates r = tp_rates_of(c);
	__u64 alpha = tp_min64(balia_alpha(&r, own), BALIA_ONE * 3 / 2);

	return tp_max(cwnd - cwnd * alpha / (2 * BALIA_ONE), TP_CWND_MIN);
}

#endif
