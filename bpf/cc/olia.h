/* SPDX-License-Identifier: GPL-2.0-or-later */
/* olia.h - OLIA's arithmetic; see olia.bpf.c.  A subflow's `extra` is its l. */
#ifndef TCPILOT_OLIA_H
#define TCPILOT_OLIA_H

#include "lib/coupling.h"

struct tp_olia {
	__u32 now, before; /* packets acknowledged since the last loss, and between the last two */
	__s32 rest;
};

/* l^2 / rtt: how good a path is, by the packets between losses. */
TP_INLINE __u64 olia_quality(const struct tp_subflow *s)
{
	__u64 l = tp_min64(s->extra, 0xffffffff);

	return l * l / tp_max(s->rtt_us, 1);
}

/* The best quality of all paths. */
TP_GLOBAL __u64 olia_best(const struct tp_coupled *c)
{
	__u64 best = 0;

	if (!c)
		return 0;
	TP_EACH_SUBFLOW(i)
	if (tp_counts(c, &c->sub[i]))
		best = tp_max64(best, olia_quality(&c->sub[i]));
	return best;
}

/* The largest window of all paths. */
TP_GLOBAL __u32 olia_largest(const struct tp_coupled *c)
{
	__u32 most = 0;

	if (!c)
		return 0;
	TP_EACH_SUBFLOW(i)
	if (tp_counts(c, &c->sub[i]))
		most = tp_max(most, c->sub[i].cwnd);
	return most;
}

/* How many paths there are; have the largest window; are best and have not (a byte each). */
TP_GLOBAL __u32 olia_counts(const struct tp_coupled *c, __u32 most, __u64 best)
{
	__u32 counts = 0;

	if (!c)
		return 0;
	TP_EACH_SUBFLOW(i)
	{
		const struct tp_subflow *s = &c->sub[i];

		if (!tp_counts(c, s))
			continue;
		counts += 1;
		if (s->cwnd == most)
			counts += 1 << 8;
		else if (olia_quality(s) == best)
			counts += 1 << 16;
	}
	return counts;
}

/*
 * alpha, in parts of a packet: moves window from the paths with the largest
 * window to the best paths, if their window is smaller.
 */
TP_INLINE __s64 olia_alpha(const struct tp_coupled *c, const struct tp_subflow *own)
{
	__u64 best = olia_best(c);
	__u32 most = olia_largest(c);
	__u32 counts = olia_counts(c, most, best);
	__u32 paths = counts & 0xff, largest = counts >> 8 & 0xff, collected = counts >> 16;

	if (!collected || !paths)
		return 0;
	if (own->cwnd == most)
		return -(__s64)((__u64)TP_STEP_ONE / (paths * tp_max(largest, 1)));
	return olia_quality(own) == best ? (__u64)TP_STEP_ONE / (paths * collected) : 0;
}

/* For each packet: w / rtt^2 / (sum of w / rtt)^2 + alpha / w. */
TP_INLINE __s64 olia_step(const struct tp_coupled *c, const struct tp_subflow *own, __u32 cwnd)
{
	struct tp_rates r = tp_rates_of(c);
	__s64 coupled = tp_coupled_step(&r, own);
	__s64 alpha = olia_alpha(c, own);

	/* no signed division in BPF */
	if (alpha < 0)
		return coupled - (__s64)((__u64)-alpha / tp_max(cwnd, 1));
	return coupled + (__u64)alpha / tp_max(cwnd, 1);
}

TP_INLINE void olia_grow(struct tp_olia *o, struct tp_cwnd *w, const struct tp_ack *a,
			 struct tp_subflow *own, const struct tp_coupled *c)
{
	__u32 acked;
	__s32 rest = o->rest;

	o->now += a->acked;
	own->extra = tp_max(o->now, o->before);
	acked = tp_slow_start(w, a->acked);
	if (!acked)
		return;
	tp_add_step(w, &rest, olia_step(c, own, w->packets) * acked);
	o->rest = rest;
}

TP_INLINE __u32 olia_threshold(struct tp_olia *o, __u32 cwnd)
{
	o->before = o->now;
	o->now = 0;
	return tp_half(cwnd);
}

#endif
