/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * judge.h - from a round to a verdict, in steps.  Each is a global function, so the
 * verifier checks it once, by itself.
 */
#ifndef TCPILOT_WATCH_JUDGE_H
#define TCPILOT_WATCH_JUDGE_H

#include "stamp.h"
#include "../core/watch/light_tracking.h"

enum tp_model_kind {
	TP_MODEL_TCP,
	TP_MODEL_EXTRAPOLATION,
	TP_MODEL_QUIC,
};

/* Too large for the stack.  Only the end of a round uses it, in the receiving softirq. */
struct tp_work {
	struct tp_round round;
	struct tp_scratch scratch;
	__u32 model; /* enum tp_model_kind */
	__u32 pad;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct tp_work);
} work SEC(".maps");

static __always_inline struct tp_work *tp_my_work(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&work, &zero);
}

/* QUIC has a model of its own, since some features need a TCP header, and so have paths beyond the
 * recorded ones. */
static __always_inline const struct tp_model *tp_chosen_model(const struct tp_work *own)
{
	switch (own->model) {
	case TP_MODEL_QUIC:
		return &quic_model;
	case TP_MODEL_EXTRAPOLATION:
		return &extrapolation_model;
	default:
		return &model;
	}
}

/* Four trees at once: a call costs as much as half a tree. */
static long tp_some_trees(__u32 four, void *context)
{
	struct tp_work *own = tp_my_work();
	const struct tp_model *m;

	if (!own)
		return 1;
	m = tp_chosen_model(own);
	for (__u32 tree = four * 4; tree < four * 4 + 4; tree++)
		if (tree < m->trees)
			tp_add_tree(m, &own->scratch, tree);
	return 0;
}

__noinline int tp_step_shape(struct tp_shape *shape)
{
	struct tp_work *own = tp_my_work();

	if (shape && own)
		tp_shape_round(shape, &own->round);
	return 0;
}

__noinline int tp_step_prepare(struct tp_verdict *verdict, struct tp_shape *shape)
{
	struct tp_work *own = tp_my_work();

	if (!verdict || !shape || !own)
		return 0;
	return tp_prepare(verdict, shape, &own->round, tp_chosen_model(own));
}

__noinline int tp_step_features(struct tp_shape *shape)
{
	struct tp_work *own = tp_my_work();

	if (shape && own)
		tp_features(shape, &own->round, own->scratch.feature);
	return 0;
}

__noinline int tp_step_forest(void)
{
	struct tp_work *own = tp_my_work();
	const struct tp_model *m;

	if (!own)
		return 0;
	m = tp_chosen_model(own);
	tp_forest_begins(&own->scratch);
	bpf_loop((tp_count_trees(m) + 3) / 4, tp_some_trees, 0, 0);
	tp_forest_votes(m, &own->scratch);
	return 0;
}

__noinline int tp_step_decide(struct tp_verdict *verdict, struct tp_shape *shape)
{
	struct tp_work *own = tp_my_work();

	if (verdict && shape && own)
		tp_decide(verdict, shape, &own->round, tp_chosen_model(own), &own->scratch);
	return 0;
}

/* own: it has the round that just ended. */
static __always_inline void tp_judge(struct tp_watch_flow *flow, struct tp_work *own)
{
	if (flow->flags & TP_FLOW_QUIC)
		own->model = TP_MODEL_QUIC;
	else
		own->model = tp_is_extrapolated(&model, &extrapolation_model, &own->round);
	tp_step_shape(&flow->shape);
	if (!tp_step_prepare(&flow->verdict, &flow->shape))
		return;
	tp_step_features(&flow->shape);
	tp_step_forest();
	tp_step_decide(&flow->verdict, &flow->shape);
}

#endif
