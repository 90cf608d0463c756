/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * learner.h - the learner's interface.
 *
 * A learner decides which of a path's eligible arms a new connection gets, and
 * receives the cost of each connection.  It sees its own memory (struct tp_learner)
 * and settings (struct tp_learner_config) and nothing else: no path, no socket, no
 * clock.  The pilot calls it, and so does the daemon, which shows the shares.
 *
 * To add one: a file in learner/, a value in enum tp_learner_kind, and a case in
 * each function below.  The kind is a constant to the verifier, so that the cases
 * not taken cost nothing.  An unknown kind chooses nothing.
 */
#ifndef TCPILOT_CORE_LEARNER_H
#define TCPILOT_CORE_LEARNER_H

#include "../abi/conn.h"
#include "../abi/learner.h"
#include "learner/choice.h"
#include "learner/epsilon_greedy.h"

/* Whether enough is known about the path to choose at all; if not, learner_choose
 * says TP_WHY_FEW.  If the caller asks first, it need not find out which arms are eligible. */
TP_INLINE int learner_is_ready(const struct tp_learner_config *cfg, const struct tp_learner *mem)
{
	switch (cfg->kind) {
	case TP_LEARNER_EPSILON_GREEDY:
		return !epsilon_greedy_is_few(cfg, mem);
	}
	return 0;
}

/* The arm of a new connection.  eligible: bit i, arm i may be chosen.  random: 32
 * uniform bits; not used if only one arm is eligible and none is drawn. */
TP_INLINE struct tp_choice learner_choose(const struct tp_learner_config *cfg,
					  struct tp_learner *mem, __u32 eligible, __u32 random)
{
	switch (cfg->kind) {
	case TP_LEARNER_EPSILON_GREEDY:
		return epsilon_greedy_choose(cfg, mem, eligible, random);
	}
	return (struct tp_choice){.arm = TP_NO_ARM, .why = TP_WHY_NO_ARM};
}

/* A connection got an arm, chosen or not (then why is TP_WHY_FEW).  Several CPUs may
 * call this at once. */
TP_INLINE void learner_chosen(const struct tp_learner_config *cfg, struct tp_learner *mem,
			      __u32 arm, __u32 why)
{
	if (arm >= TP_MAX_ARMS)
		return;
	switch (cfg->kind) {
	case TP_LEARNER_EPSILON_GREEDY:
		epsilon_greedy_chosen(mem, arm, why);
	}
}

/* A connection with measures of its path has ended; says whether its arm was
 * charged.  arm: TP_NO_ARM if it had none.  Only one CPU may call this at a time. */
TP_INLINE int learner_charge(const struct tp_learner_config *cfg, struct tp_learner *mem, __u32 arm,
			     __u64 cost, enum tp_outcome outcome)
{
	mem->instances++;
	if (arm >= TP_MAX_ARMS)
		return 0;
	switch (cfg->kind) {
	case TP_LEARNER_EPSILON_GREEDY:
		return epsilon_greedy_charge(cfg, mem, arm, cost, outcome);
	}
	return 0;
}

/* The probability that the next connection gets each arm, in parts of
 * TP_SHARE_SCALE. All are 0 while the kernel's default stays. */
TP_INLINE void learner_shares(const struct tp_learner_config *cfg, const struct tp_learner *mem,
			      __u32 eligible, __u32 share[TP_MAX_ARMS])
{
	for (int i = 0; i < TP_MAX_ARMS; i++)
		share[i] = 0;
	switch (cfg->kind) {
	case TP_LEARNER_EPSILON_GREEDY:
		epsilon_greedy_shares(cfg, mem, eligible, share);
	}
}

#endif
