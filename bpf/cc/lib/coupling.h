/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * coupling.h - shared by the coupled multipath algorithms: the subflows of a
 * connection, and the sums over them.  Pure; mptcp.h finds the subflows.
 *
 * Rates x = w / rtt are packets per microsecond times 2^24, x / rtt is times 2^48.
 */
#ifndef TCPILOT_COUPLING_H
#define TCPILOT_COUPLING_H

#include "cwnd.h"

#define TP_SUBFLOWS 8
#define TP_RATE_SHIFT 24
#define TP_STEP_SHIFT 20 /* of steps: parts of a packet */
#define TP_STEP_ONE (1LL << TP_STEP_SHIFT)

/* The verifier follows a loop that is not unrolled once for each turn, not for each way through. */
#ifdef __clang__
#define TP_EACH_SUBFLOW(i)                                                                         \
	_Pragma("clang loop unroll(disable)") for (int i = 0; i < TP_SUBFLOWS; i++)
#else
#define TP_EACH_SUBFLOW(i) for (int i = 0; i < TP_SUBFLOWS; i++)
#endif

struct tp_subflow {
	__u64 id;    /* 0: none */
	__u64 extra; /* the algorithm's own */
	__u64 acked_us;
	__u32 cwnd, rtt_us;
};

struct tp_coupled {
	struct tp_subflow sub[TP_SUBFLOWS];
	struct tp_subflow guest; /* of those without a place: coupled, but not counted */
	__u64 now_us;
};

/*
 * Four retransmission time-outs without an acknowledgement: nothing is sent there, because
 * the path is dead or the scheduler avoids it.  RFC 6298's time-out with the kernel's
 * least variance of 200 ms.
 */
#define TP_GONE_RTOS 4
#define TP_RTO_LEAST_US 200000ULL

TP_INLINE int tp_counts(const struct tp_coupled *c, const struct tp_subflow *s)
{
	__s64 silent_us = c->now_us - s->acked_us; /* below 0: another CPU was later */

	return s->id && silent_us <= (__s64)(TP_GONE_RTOS * (TP_RTO_LEAST_US + s->rtt_us));
}

TP_INLINE void tp_refresh(struct tp_coupled *c, struct tp_subflow *own, __u64 now_us, __u32 cwnd,
			  __u32 rtt_us)
{
	c->now_us = own->acked_us = now_us;
	own->cwnd = cwnd;
	own->rtt_us = rtt_us;
}

/* Inputs of a step: the sum and the largest of the rates, and the largest rate per RTT. */
struct tp_rates {
	__u64 sum, most, most_per_rtt;
};

TP_INLINE __u64 tp_rate(const struct tp_subflow *s)
{
	return tp_min64(((__u64)s->cwnd << TP_RATE_SHIFT) / tp_max(s->rtt_us, 1), 0x7fffffff);
}

TP_INLINE __u64 tp_rate_per_rtt(const struct tp_subflow *s)
{
	return (tp_rate(s) << TP_RATE_SHIFT) / tp_max(s->rtt_us, 1);
}

TP_INLINE struct tp_rates tp_rates_of(const struct tp_coupled *c)
{
	struct tp_rates r = {};

	TP_EACH_SUBFLOW(i)
	{
		const struct tp_subflow *s = &c->sub[i];

		if (!tp_counts(c, s))
			continue;
		r.sum += tp_rate(s);
		r.most = tp_max64(r.most, tp_rate(s));
		r.most_per_rtt = tp_max64(r.most_per_rtt, tp_rate_per_rtt(s));
	}
	r.sum = tp_min64(r.sum, 0xffffffff);
	return r;
}

/* x / rtt / (sum x)^2 in parts of a packet; the squared value has up to 64 bits, or very few. */
TP_INLINE __s64 tp_coupled_step(const struct tp_rates *r, const struct tp_subflow *own)
{
	__u64 square = tp_max64(r->sum * r->sum, 1), per_rtt = tp_rate_per_rtt(own);

	if (per_rtt >> (63 - TP_STEP_SHIFT))
		return tp_min64(per_rtt / tp_max64(square >> TP_STEP_SHIFT, 1), TP_STEP_ONE);
	return tp_min64((per_rtt << TP_STEP_SHIFT) / square, TP_STEP_ONE);
}

/* Adds parts of a packet; whole ones, up or down, move the window. */
TP_INLINE void tp_add_step(struct tp_cwnd *w, __s32 *rest, __s64 step)
{
	__s64 all = *rest + step;

	if (all >= 0) {
		w->packets += all >> TP_STEP_SHIFT;
		*rest = all & (TP_STEP_ONE - 1);
	} else {
		__u64 less = -all >> TP_STEP_SHIFT;

		w->packets -= tp_min64(less, w->packets - tp_min(w->packets, TP_CWND_MIN));
		*rest = -(-all & (TP_STEP_ONE - 1));
	}
	w->packets = tp_min(w->packets, w->clamp);
}

#endif
