/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * epsilon_greedy.h - the arm of least cost; only one connection in epsilon draws
 * among all.
 *
 * The learner is that of bpftune's tcp_conn tuner as its manual page and article
 * describe it, see docs/understand/algorithms.md.  This file departs from them if they
 * are known to go wrong, and says so.  bpf/pilot/greedy.h calls it at a connection's end:
 * first epsilon_greedy_end(), then epsilon_greedy_choice_dist() for the shares of the next ones.
 */
#ifndef TCPILOT_CORE_LEARNER_EPSILON_GREEDY_H
#define TCPILOT_CORE_LEARNER_EPSILON_GREEDY_H

#include "../../abi/learner.h"
#include "../bits.h"
#include "../window.h"
#include "cost.h"

/* The end of a connection, or of its time with an arm. */
struct tp_end {
	__u64 rate;	  /* bytes per second; 0: none is known */
	__u64 window_ns;  /* length of the windows */
	__u64 now_ns;	  /* coarse */
	__u32 min_rtt_us; /* 0: none */
	__u32 eligible;	  /* the arms it could have had, as bits */
	__u8 arm;	  /* TP_NO_ARM: it says nothing about any */
	__u8 is_judged;	  /* it is large enough, or failed */
	__u8 failed;	  /* it timed out, or was rescued from its arm */
	__u8 excused;	  /* its rate is not its arm's work */
	__u8 favourite;	  /* it got its arm by a share above one half */
	__u8 pad;
	__u16 weight; /* number of ends represented: 1 if it is judged */
};

/* cost += (sample - cost) / 2^shift; the first sample is taken whole.  The count shows
 * that it is the first: a cost of 0 means perfect, and not unseen. */
TP_INLINE __u64 tp_update(__u64 cost, __u64 sample, __u32 samples, __u32 shift)
{
	if (!samples)
		return sample;
	if (sample > cost)
		return cost + ((sample - cost) >> (shift & 63));
	return cost - ((cost - sample) >> (shift & 63));
}

/* The eligible arms without a sample, but still able to give one. */
TP_INLINE __u32 tp_untried(const struct tp_learner_config *cfg, const struct tp_costs *mem,
			   __u32 eligible)
{
	__u32 mask = 0;

#pragma unroll
	for (int i = 0; i < TP_MAX_ARMS && i < cfg->arms; i++) {
		const struct tp_arm *arm = &mem->arms[i];

		mask |= (tp_is_zero(arm->samples) & tp_is_less(arm->unpaid, cfg->max_unpaid)) << i;
	}
	return mask & eligible;
}

/* No cost is above it (cost.h), and the difference of two costs fits a signed number. */
#define TP_NO_COST (~0ULL >> 1)

TP_INLINE __u32 tp_has_sample(const struct tp_arm *arm)
{
	return tp_is_zero(arm->samples) ^ 1;
}

/* The cost to compare; TP_NO_COST if the arm does not take part. */
TP_INLINE __u64 tp_compared_cost(const struct tp_arm *arm, __u32 eligible)
{
	return tp_select(TP_NO_COST, arm->cost,
			 eligible & tp_has_sample(arm) & tp_is_less(arm->cost, 1ULL << 63));
}

/* The eligible arms of least cost. */
TP_INLINE __u32 tp_cheapest(const struct tp_learner_config *cfg, const struct tp_costs *mem,
			    __u32 eligible)
{
	__u64 least = TP_NO_COST;
	__u32 mask = 0;

#pragma unroll
	for (int i = 0; i < TP_MAX_ARMS && i < cfg->arms; i++) {
		__u64 cost = tp_compared_cost(&mem->arms[i], eligible >> i & 1);

		least = tp_select(least, cost, tp_is_less(cost, least));
	}
#pragma unroll
	for (int i = 0; i < TP_MAX_ARMS && i < cfg->arms; i++) {
		__u64 cost = tp_compared_cost(&mem->arms[i], eligible >> i & 1);

		mask |= (tp_is_zero(cost ^ least) & tp_has_sample(&mem->arms[i])) << i;
	}
	return mask & eligible;
}

/* The arms to choose among without exploration: the untried ones, else the cheapest;
 * 0: every arm was tried, and none gave a sample. */
TP_INLINE __u32 epsilon_greedy_best(const struct tp_learner_config *cfg, const struct tp_costs *mem)
{
	__u32 untried = tp_untried(cfg, mem, mem->eligible);

	return untried ? untried : tp_cheapest(cfg, mem, mem->eligible);
}

/*
 * Writes the entries of the path's choice distribution: epsilon over all eligible arms, the rest
 * over the best ones.  Says whether the path has a distribution: it has none while too few
 * connections were judged, or nothing is known.  An entry is the sum of all shares up to its arm,
 * in parts of 0xffff: those behind the last arm with a share are 0xffff.  Shares have a common
 * denominator, to round no entry twice.
 */
TP_INLINE int epsilon_greedy_choice_dist(const struct tp_learner_config *cfg,
					 const struct tp_costs *mem, __u16 upto[TP_MAX_ARMS])
{
	__u32 best = epsilon_greedy_best(cfg, mem);
	__u64 all = tp_bits(mem->eligible), among = tp_bits(best);
	__u64 of_all = cfg->epsilon ? among : 0;
	__u64 of_best = cfg->epsilon ? (cfg->epsilon - 1) * all : 1;
	__u64 whole = of_all * all + of_best * among, sum = 0;

	if (!whole || mem->instances < cfg->min_instances)
		return 0;
#pragma unroll
	for (int i = 0; i < TP_MAX_ARMS; i++)
		upto[i] = 0xffff;
#pragma unroll
	for (int i = 0; i < TP_MAX_ARMS && i < cfg->arms; i++) {
		sum += of_all * (mem->eligible >> i & 1) + of_best * (best >> i & 1);
		upto[i] = (__u16)((sum * 0xffff + whole / 2) / whole);
	}
	return 1;
}

/* Moves the windows of a path and of an arm on to now. */
TP_INLINE void epsilon_greedy_roll(struct tp_costs *mem, struct tp_arm *arm, const struct tp_end *e)
{
	__u32 epoch = tp_epoch(e->now_ns, e->window_ns);

	if (tp_epoch_moved(mem->epoch, epoch)) {
		tp_window64_roll(&mem->max_delivery_rate, mem->epoch, epoch);
		tp_window32_roll(&mem->min_rtt_us, mem->epoch, epoch);
		mem->epoch = epoch;
	}
	if (tp_epoch_moved(arm->epoch, epoch)) {
		tp_window64_roll(&arm->max_delivery_rate, arm->epoch, epoch);
		tp_window32_roll(&arm->min_rtt_us, arm->epoch, epoch);
		arm->epoch = epoch;
	}
}

/*
 * Takes the highest rate and the least RTT into those of the path and of the arm.  A rate
 * that is not the arm's work counts for neither.
 */
TP_INLINE void epsilon_greedy_measure(struct tp_costs *mem, const struct tp_end *e)
{
	struct tp_arm *arm = &mem->arms[tp_within(e->arm, TP_MAX_ARMS)];
	int is_arms = e->arm < TP_MAX_ARMS && !e->excused;

	epsilon_greedy_roll(mem, arm, e);
	mem->min_rtt_us.current = (__u32)tp_min_nonzero(mem->min_rtt_us.current, e->min_rtt_us);
	if (e->excused || !e->is_judged)
		return;
	mem->max_delivery_rate.current = tp_max64(mem->max_delivery_rate.current, e->rate);
	if (!is_arms)
		return;
	arm->max_delivery_rate.current = tp_max64(arm->max_delivery_rate.current, e->rate);
	arm->min_rtt_us.current = (__u32)tp_min_nonzero(arm->min_rtt_us.current, e->min_rtt_us);
}

/* Charges an arm with the cost of a large enough connection; says whether it did. */
TP_INLINE int epsilon_greedy_charge(const struct tp_learner_config *cfg, struct tp_costs *mem,
				    const struct tp_end *e)
{
	struct tp_arm *arm = &mem->arms[tp_within(e->arm, TP_MAX_ARMS)];
	struct tp_cost c = {.outcome = TP_OUTCOME_EXCUSED};

	if (!e->excused)
		c = tp_cost_of(mem, arm, e->rate, e->min_rtt_us, e->failed);
	if (c.outcome == TP_OUTCOME_COST) {
		arm->cost = tp_update(arm->cost, c.cost, arm->samples, cfg->learning_shift);
		arm->samples++;
		arm->unpaid = 0;
	} else if (c.outcome == TP_OUTCOME_EXCUSED) {
		arm->unpaid -= tp_is_zero(arm->unpaid) ^ 1;
	}
	return c.outcome == TP_OUTCOME_COST;
}

/* A connection has ended, or leaves its arm; says whether its arm was charged.  Only one CPU may
 * call this at a time for a path.  A connection without a round trip was never answered.  Before
 * the path's first choice distribution no arm is on trial, so none is unpaid. */
TP_INLINE int epsilon_greedy_end(const struct tp_learner_config *cfg, struct tp_costs *mem,
				 const struct tp_end *e)
{
	struct tp_arm *arm = &mem->arms[tp_within(e->arm, TP_MAX_ARMS)];
	int has_arm = e->arm < TP_MAX_ARMS;

	mem->updated_ns = e->now_ns;
	mem->eligible = e->eligible;
	epsilon_greedy_measure(mem, e);
	if (has_arm) {
		arm->chosen += e->weight;
		arm->unpaid += mem->instances >= cfg->min_instances ? e->weight : 0;
		arm->greedy += e->favourite ? e->weight : 0;
	}
	if (!e->is_judged || !e->min_rtt_us)
		return 0;
	mem->instances++;
	return has_arm && epsilon_greedy_charge(cfg, mem, e);
}

#endif
