/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * learner.h - the kinds of learners, and the memory of the one in the kernel.
 *
 * A learner writes the choice distributions by which connections choose their arms (choices.h).
 * epsilon-greedy is a BPF program's: at a connection's end it charges a cost, and rewrites
 * the distribution of the connection's path.  The costs of a path stand at the place of its
 * distribution, in an array next to the distributions.
 */
#ifndef TCPILOT_ABI_LEARNER_H
#define TCPILOT_ABI_LEARNER_H

#include "base.h"
#include "measures.h"
#include "choices.h"

#define TP_COST_SCALE 1000000

enum tp_learner_kind {
	TP_LEARNER_NONE = 0, /* the loader forgot: nothing is chosen */
	TP_LEARNER_EPSILON_GREEDY = 1,
	TP_LEARNER_THOMPSON = 2, /* in the daemon: crates/learner */
};

/* Their names in the configuration, in the order of their numbers, with spaces between them. */
#define TP_LEARNER_NAMES "epsilon-greedy thompson"

/* epsilon-greedy's settings, but for the kind. */
struct tp_learner_config {
	__u32 kind;	      /* enum tp_learner_kind */
	__u32 epsilon;	      /* one connection in so many explores; 0: never */
	__u32 min_instances;  /* connections before the first learned choice */
	__u32 learning_shift; /* the learning rate is 1 / 2^shift */
	__u32 max_unpaid; /* an arm without a sample is no longer tried after so many connections */
	__u32 arms;	  /* their number; the verifier knows it, and drops the others' code */
	__u64 min_flow_bytes; /* acknowledged by a judged connection */
};

/* How a connection of an arm ended, for the learner. */
enum tp_outcome {
	TP_OUTCOME_COST = 0,	 /* it has a cost */
	TP_OUTCOME_REJECTED = 1, /* no information about its arm */
	TP_OUTCOME_EXCUSED = 2,	 /* its rate is not its arm's work: not counted as unpaid */
};

/* An algorithm of a path. */
struct tp_arm {
	__u64 cost;			      /* fixed point, TP_COST_SCALE; valid if samples > 0 */
	struct tp_window64 max_delivery_rate; /* of its connections */
	struct tp_window32 min_rtt_us;
	__u32 epoch;   /* of the two windows above */
	__u32 samples; /* connections charged to this arm */
	__u32 unpaid;  /* connections since the last sample, without giving one */
	__u32 chosen;  /* connections with this arm, charged or not */
	__u32 greedy;  /* those of them chosen while its share was above one half */
	__u32 pad;
};

/* The costs of a path, and the measures they are compared with. */
struct tp_costs {
	__u64 tag;	  /* its choice distribution's; 0: the place is empty */
	__u64 updated_ns; /* the last end */
	struct tp_node_key key;
	struct tp_window64 max_delivery_rate;
	struct tp_window32 min_rtt_us;
	__u32 epoch;	 /* of the two windows above */
	__u32 busy;	 /* 1 while a CPU writes here, or writes the choice distribution */
	__u32 instances; /* connections large enough to be judged */
	__u32 eligible;	 /* arms possible for the last connection (ECN), as bits */
	struct tp_arm arms[TP_MAX_ARMS];
};

TP_ASSERT_SIZE(tp_learner_config, 32);
TP_ASSERT_SIZE(tp_arm, 56);
TP_ASSERT_SIZE(tp_costs, 80 + 56 * TP_MAX_ARMS);

#endif
