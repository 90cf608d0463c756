/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * epsilon_greedy.h - the arm of least cost, except for one connection in epsilon,
 * which draws among all.
 *
 * The learner is that of bpftune's tcp_conn tuner as its manual page and article
 * describe it, see docs/understand/algorithms.md.  This file departs from them if they
 * are known to go wrong, and says so.  Called through ../learner.h only.
 */
#ifndef TCPILOT_CORE_LEARNER_EPSILON_GREEDY_H
#define TCPILOT_CORE_LEARNER_EPSILON_GREEDY_H

#include "../../abi/conn.h"
#include "../../abi/learner.h"
#include "../atomic.h"
#include "../bits.h"
#include "choice.h"

/* Arms to draw among, and the reason. */
struct tp_among {
	__u8 arms;
	__u8 why;
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

/* The eligible arms that have given no sample, but may still give one. */
TP_INLINE __u32 tp_untried(const struct tp_learner *mem, __u32 eligible, __u32 max_unpaid)
{
	__u32 mask = 0;

#pragma unroll
	for (int i = 0; i < TP_MAX_ARMS; i++) {
		const struct tp_learner_arm *arm = &mem->arms[i];

		mask |= (tp_is_zero(arm->samples) & tp_is_less(arm->unpaid, max_unpaid)) << i;
	}
	return mask & eligible;
}

/* No cost is above it (cost.h), and the difference of two costs fits a signed number. */
#define TP_NO_COST (~0ULL >> 1)

TP_INLINE __u32 tp_has_sample(const struct tp_learner_arm *arm)
{
	return tp_is_zero(arm->samples) ^ 1;
}

/* The cost to compare; TP_NO_COST if the arm does not take part. */
TP_INLINE __u64 tp_compared_cost(const struct tp_learner_arm *arm, __u32 eligible)
{
	return tp_select(TP_NO_COST, arm->cost,
			 eligible & tp_has_sample(arm) & tp_is_less(arm->cost, 1ULL << 63));
}

/* The eligible arms of least cost. */
TP_INLINE __u32 tp_cheapest(const struct tp_learner *mem, __u32 eligible)
{
	__u64 least = TP_NO_COST;
	__u32 mask = 0;

#pragma unroll
	for (int i = 0; i < TP_MAX_ARMS; i++) {
		__u64 cost = tp_compared_cost(&mem->arms[i], eligible >> i & 1);

		least = tp_select(least, cost, tp_is_less(cost, least));
	}
#pragma unroll
	for (int i = 0; i < TP_MAX_ARMS; i++) {
		__u64 cost = tp_compared_cost(&mem->arms[i], eligible >> i & 1);

		mask |= (tp_is_zero(cost ^ least) & tp_has_sample(&mem->arms[i])) << i;
	}
	return mask & eligible;
}

/* Whether too few connections have measured this path. */
TP_INLINE int epsilon_greedy_is_few(const struct tp_learner_config *cfg,
				    const struct tp_learner *mem)
{
	return mem->instances < cfg->min_instances;
}

/* The choice without exploration: the least cost.  An arm without a sample counts as the least. */
TP_INLINE struct tp_among epsilon_greedy_best(const struct tp_learner_config *cfg,
					      const struct tp_learner *mem, __u32 eligible)
{
	struct tp_among g = {.why = TP_WHY_NO_EVIDENCE};

	if ((g.arms = tp_untried(mem, eligible, cfg->max_unpaid)))
		g.why = TP_WHY_UNTRIED;
	else if ((g.arms = tp_cheapest(mem, eligible)))
		g.why = TP_WHY_GREEDY;
	return g;
}

/* A reader must not see halves of two choices, so they are read and written as one word. */
union tp_greedy_word {
	struct tp_greedy choice;
	__u32 word;
};

TP_INLINE struct tp_greedy epsilon_greedy_recall(const struct tp_learner *mem)
{
	union tp_greedy_word kept = {.word = tp_read_once((const __u32 *)&mem->greedy)};

	return kept.choice;
}

TP_INLINE void epsilon_greedy_keep(struct tp_learner *mem, struct tp_greedy choice)
{
	union tp_greedy_word kept = {.choice = choice};

	tp_write_once((__u32 *)&mem->greedy, kept.word);
}

TP_INLINE void epsilon_greedy_forget(struct tp_learner *mem)
{
	epsilon_greedy_keep(mem, (struct tp_greedy){});
}

/* The same from memory, since finding it looks at every arm.  It changes only when an
 * arm is charged, or an untried one is taken. */
TP_INLINE struct tp_among epsilon_greedy_kept(const struct tp_learner_config *cfg,
					      struct tp_learner *mem, __u32 eligible)
{
	struct tp_greedy kept = epsilon_greedy_recall(mem);
	struct tp_among g;

	if (kept.eligible == eligible)
		return (struct tp_among){.arms = kept.arms, .why = kept.why};
	g = epsilon_greedy_best(cfg, mem, eligible);
	kept = (struct tp_greedy){.arms = g.arms, .why = g.why, .eligible = (__u8)eligible};
	epsilon_greedy_keep(mem, kept);
	return g;
}

/* random: 32 uniform bits, halves used independently.  Ties are drawn. */
TP_INLINE struct tp_choice epsilon_greedy_choose(const struct tp_learner_config *cfg,
						 struct tp_learner *mem, __u32 eligible,
						 __u32 random)
{
	struct tp_among among;

	if (!eligible)
		return (struct tp_choice){.arm = TP_NO_ARM, .why = TP_WHY_NO_ARM};
	if (epsilon_greedy_is_few(cfg, mem))
		return (struct tp_choice){.arm = TP_NO_ARM, .why = TP_WHY_FEW};
	among = epsilon_greedy_kept(cfg, mem, eligible);
	if (cfg->epsilon && (random & 0xffff) % cfg->epsilon == 0)
		among = (struct tp_among){.arms = (__u8)eligible, .why = TP_WHY_EXPLORE};
	return (struct tp_choice){.arm = tp_draw(among.arms, random >> 16), .why = among.why};
}

TP_INLINE void epsilon_greedy_chosen(struct tp_learner *mem, __u32 arm, __u32 why)
{
	struct tp_learner_arm *a = &mem->arms[tp_within(arm, TP_MAX_ARMS)];

	__sync_fetch_and_add(&a->chosen, 1);
	if (why == TP_WHY_FEW)
		return;
	__sync_fetch_and_add(&a->unpaid, 1);
	if (why == TP_WHY_GREEDY)
		__sync_fetch_and_add(&a->greedy, 1);
	else
		epsilon_greedy_forget(mem); /* one more connection may give no sample */
}

TP_INLINE int epsilon_greedy_charge(const struct tp_learner_config *cfg, struct tp_learner *mem,
				    __u32 arm, __u64 cost, enum tp_outcome outcome)
{
	struct tp_learner_arm *a = &mem->arms[tp_within(arm, TP_MAX_ARMS)];

	if (outcome == TP_OUTCOME_COST) {
		a->cost = tp_update(a->cost, cost, a->samples, cfg->learning_shift);
		a->samples++;
		a->unpaid = 0;
		epsilon_greedy_forget(mem);
	} else if (outcome == TP_OUTCOME_EXCUSED) {
		tp_decrement(&a->unpaid);
		if (!a->samples) /* the arm may count as untried again */
			epsilon_greedy_forget(mem);
	}
	return outcome == TP_OUTCOME_COST;
}

/* Adds probability, in parts of TP_SHARE_SCALE, spread evenly over the mask's arms. */
TP_INLINE void epsilon_greedy_spread(__u32 share[TP_MAX_ARMS], __u32 mask, __u32 probability)
{
	__u32 arms = tp_bits(mask);

	for (int i = 0; i < TP_MAX_ARMS; i++)
		if (mask >> i & 1)
			share[i] += probability / arms;
}

TP_INLINE void epsilon_greedy_shares(const struct tp_learner_config *cfg,
				     const struct tp_learner *mem, __u32 eligible,
				     __u32 share[TP_MAX_ARMS])
{
	__u32 explore = cfg->epsilon ? TP_SHARE_SCALE / cfg->epsilon : 0;

	if (!eligible || epsilon_greedy_is_few(cfg, mem))
		return;
	epsilon_greedy_spread(share, eligible, explore);
	epsilon_greedy_spread(share, epsilon_greedy_best(cfg, mem, eligible).arms,
			      TP_SHARE_SCALE - explore);
}

#endif
