/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * learner.h - the learner's settings, and its state of a path.
 *
 * A learner sees these two and nothing else (bpf/core/learner.h).  A path's
 * measures, its lock and its last decisions are in path.h.
 */
#ifndef TCPILOT_ABI_LEARNER_H
#define TCPILOT_ABI_LEARNER_H

#include "base.h"

#define TP_COST_SCALE 1000000
#define TP_SHARE_SCALE 1000000000

enum tp_learner_kind {
	TP_LEARNER_NONE = 0, /* the loader forgot: nothing is chosen */
	TP_LEARNER_EPSILON_GREEDY = 1,
	TP_LEARNER_THOMPSON = 2, /* in the daemon: crates/learner, thompson.h */
};

/* Their names in the configuration, in the order of their numbers, with spaces between them. */
#define TP_LEARNER_NAMES "epsilon-greedy thompson"

struct tp_learner_config {
	__u32 kind;	      /* enum tp_learner_kind */
	__u32 epsilon;	      /* one connection in so many explores; 0: never */
	__u32 min_instances;  /* connections before the first learned choice */
	__u32 learning_shift; /* the learning rate is 1 / 2^shift */
	__u32 max_unpaid; /* an arm without a sample is no longer tried after so many connections */
	__u32 pad;
};

/* How a connection of an arm ended, for the learner. */
enum tp_outcome {
	TP_OUTCOME_COST = 0,	/* it has a cost */
	TP_OUTCOME_SILENT = 1,	/* it says nothing about its arm */
	TP_OUTCOME_EXCUSED = 2, /* it could not say anything: it does not count as unpaid */
};

struct tp_learner_arm {
	__u64 cost;    /* valid only if samples > 0 */
	__u32 samples; /* connections charged to this arm */
	__u32 unpaid;  /* chosen since the last sample, without giving one */
	__u32 chosen;  /* connections that got this arm, charged or not */
	__u32 greedy;  /* connections of those that chose it as the arm of least cost */
};

/* A greedy choice, and the eligible arms for which it was found.  CPUs read and write it whole. */
struct tp_greedy {
	__u8 arms; /* to draw among */
	__u8 why;  /* enum tp_why */
	__u8 eligible;
	__u8 pad;
} __attribute__((aligned(4)));

struct tp_learner {
	__u32 instances; /* connections that gave a measure of the path: see min_flow_bytes */
	struct tp_greedy greedy; /* as it was found last; eligible 0: find it anew */
	struct tp_learner_arm arms[TP_MAX_ARMS];
};

TP_ASSERT_SIZE(tp_learner_config, 24);
TP_ASSERT_SIZE(tp_learner_arm, 24);
TP_ASSERT_SIZE(tp_learner, 8 + 24 * TP_MAX_ARMS);

#endif
