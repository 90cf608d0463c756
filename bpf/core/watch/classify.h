/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * classify.h - from a flow's shape to its group and its likely algorithm.
 *
 * First come the flows that need no vote, or cannot be judged: a flow in slow start, a
 * sparse one, one that its receiver or application limits, one on a path that never
 * had a queue.  For the others a forest of small trees votes, and its votes are
 * smoothed over rounds.  A flow enters a group when enough rounds in a row vote for
 * it.  It leaves it, for another or for "unknown", when the group's share of the votes
 * has fallen.  It may move in every direction, any number of times.
 *
 * Pure functions, also compiled for the host by tests and by the laboratory.
 */
#ifndef TCPILOT_CLASSIFY_H
#define TCPILOT_CLASSIFY_H

#include "features.h"

#define TP_TREE_DEPTH 16
#define TP_VOTES_SHIFT 4 /* least gain of the smoothing of votes */
#define TP_FEW_ROUNDS 4	 /* after slow start: too few to judge by */
#define TP_ENTER 130	 /* of 255: votes to enter a group */
#define TP_STAY 90	 /* and to stay in it */
#define TP_ENTER_ROUNDS 3
#define TP_SETTLED_ROUNDS 32
#define TP_SETTLED 192 /* of 255: votes from which on not every round votes */
#define TP_SETTLED_EVERY 8
#define TP_FULL_TRACKING_ROUNDS 40 /* see light_tracking.h */
#define TP_FULL_TRACKING_EVERY 2
#define TP_HALF (128U << 8) /* of shares x65536 */
#define TP_MOST (192U << 8)
#define TP_ANT_WINDOW (8 * 16)
#define TP_OUTSIDE_MOST 127 /* of 255: confidence beyond what the trees learned */
#define TP_LINK_FULL 215    /* of 256: from this use on, the link counts as full */
#define TP_GROWS 64	    /* packets x256 a round: from here on a window grows */

struct tp_scratch {
	__s32 feature[TP_FEATURES];
	__u32 vote[TP_MODEL_CLASSES];
	__u32 group[TP_GROUP_COUNT];
	__u32 lane[TP_MODEL_CLASSES / 2]; /* sums of the trees, see tp_add_tree() */
};

/* Four bytes of a leaf. */
typedef __u32 __attribute__((may_alias)) tp_leaf_part;
#define TP_EVEN_BYTES 0x00ff00ffU
_Static_assert(TP_MODEL_CLASSES % 4 == 0, "tp_add_tree() adds four classes at once");

/* The leaf where a tree ends. */
TP_INLINE __u32 tp_walk(const struct tp_model *m, __u32 at, const struct tp_scratch *s)
{
	for (__u32 depth = 0; depth < TP_TREE_DEPTH; depth++) {
		const struct tp_node *node = &m->node[at & (TP_MODEL_NODES - 1)];

		at = node->child;
		if (node->is_leaf)
			break;
		at += s->feature[node->feature & (TP_FEATURES - 1)] > node->threshold;
	}
	return at & (TP_MODEL_LEAVES - 1);
}

/* One tree's share of each class.  A leaf has a byte for each class, and a lane has room for
 * the sums of two: 16 bits each, since 32 trees give at most 32 * 255.  So the even classes of
 * four are added at once, and the odd ones. */
TP_APART int tp_add_tree(const struct tp_model *m, struct tp_scratch *s, __u32 tree)
{
	const tp_leaf_part *part;

	if (!m || !s)
		return 0;
	part = (const tp_leaf_part *)m->leaf[tp_walk(m, m->root[tree & (TP_MODEL_TREES - 1)], s)];
#pragma unroll
	for (__u32 i = 0; i < TP_MODEL_CLASSES / 4; i++) {
		s->lane[i * 2] += part[i] & TP_EVEN_BYTES;
		s->lane[i * 2 + 1] += (part[i] >> 8) & TP_EVEN_BYTES;
	}
	return 0;
}

TP_INLINE __u32 tp_count_trees(const struct tp_model *m)
{
	return tp_min64(m->trees, TP_MODEL_TREES);
}

/* Before the first tree is added. */
TP_INLINE void tp_forest_begins(struct tp_scratch *s)
{
	for (__u32 i = 0; i < TP_MODEL_CLASSES / 2; i++)
		s->lane[i] = 0;
}

/* All trees are added: the share of each class, of 255. */
TP_INLINE void tp_forest_votes(const struct tp_model *m, struct tp_scratch *s)
{
	__u32 trees = tp_count_trees(m);

	for (__u32 c = 0; c < TP_MODEL_CLASSES; c++) {
		__u32 sum = s->lane[(c >> 2) * 2 + (c & 1)] >> (c & 2) * 8;

		s->vote[c] = trees ? (sum & 0xffff) / trees : 0;
	}
}

/* The votes of the forest.  The kernel's verifier follows this loop round by round, so the kernel's
 * program has its own: see tp_step_forest() in bpf/watch/judge.h. */
TP_INLINE void tp_forest(const struct tp_model *m, struct tp_scratch *s)
{
	__u32 trees = tp_count_trees(m);

	tp_forest_begins(s);
	for (__u32 tree = 0; tree < trees; tree++)
		tp_add_tree(m, s, tree);
	tp_forest_votes(m, s);
}

TP_APART __u32 tp_best_group(const struct tp_scratch *s)
{
	__u32 best = 0, found = TP_GROUP_UNKNOWN;

	if (!s)
		return found;
	/* From 0: a class without group stands for application-limited flows. */
	for (__u32 g = 0; g < TP_GROUP_COUNT; g++) {
		if (s->group[g] > best) {
			best = s->group[g];
			found = g;
		}
	}
	return found;
}

/* The gain of the smoothing after so many rounds of votes: the first ones weigh about alike, since
 * none of them says more than another, until the least gain is reached. */
TP_INLINE __u32 tp_vote_shift(__u32 rounds)
{
	return (rounds >= 1) + (rounds >= 3) + (rounds >= 7) + (rounds >= 15);
}

/* Whether the flow leaves room on the link. */
TP_INLINE int tp_leaves_room(const struct tp_shape *s, const struct tp_round *r)
{
	return r->link_used && r->link_used < TP_LINK_FULL &&
	       tp_mean_of(s, TP_GROWTH_ALL) < TP_GROWS;
}

/* A group's votes are for another limit. */
TP_INLINE void tp_move_votes(struct tp_scratch *s, __u32 group)
{
	s->group[TP_GROUP_UNKNOWN] += s->group[group];
	s->group[group] = 0;
}

/*
 * Smooths the votes, and sums them by group: 255 is everything.
 *
 * A flow with a constant rate, and nothing of its own in the queue, is a delay-based one at rest or
 * an application-limited one.  On a link that has room it is the latter, since the former
 * would take the room: by its law, it grows.  BBR would, too, unless a policer is its bottleneck.
 * In QUIC every sender may be paced, so that one with a small window looks like BBR: there a flow
 * that leaves room is not called so.
 */
TP_APART int tp_vote(struct tp_verdict *v, const struct tp_shape *shape, const struct tp_model *m,
		     const struct tp_round *r, struct tp_scratch *s)
{
	__u32 shift;

	if (!v || !shape || !m || !r || !s)
		return 0;
	shift = tp_vote_shift(v->voted_rounds);
	for (__u32 g = 0; g < TP_GROUP_COUNT; g++)
		s->group[g] = 0;
	for (__u32 c = 0; c < TP_MODEL_CLASSES; c++) {
		__s32 vote = s->vote[c] << 8, mean = v->votes[c];

		mean += (vote - mean) >> shift;
		v->votes[c] = mean;
		s->group[m->group[c] & (TP_GROUP_COUNT - 1)] += mean;
	}
	v->voted_rounds = tp_min(v->voted_rounds + 1, 1 << TP_VOTES_SHIFT);
	if (!tp_leaves_room(shape, r))
		return 0;
	tp_move_votes(s, TP_GROUP_DELAY);
	if (r->flags & TP_FLOW_QUIC)
		tp_move_votes(s, TP_GROUP_MODEL);
	return 0;
}

/*
 * The name: the best algorithm of the flow's group.  While the group is not known,
 * that of the group with the most votes, since the votes of a group with many
 * algorithms are split.  If the group is certain, only the group's own votes count.
 */
TP_APART int tp_name(struct tp_verdict *v, const struct tp_model *m,
		     const struct tp_scratch *scratch)
{
	__u32 group, all, best = 0;

	if (!v || !m || !scratch)
		return 0;
	group = v->group == TP_GROUP_UNKNOWN ? tp_best_group(scratch) : v->group;
	all = scratch->group[group & (TP_GROUP_COUNT - 1)];
	v->name = TP_NO_CLASS;
	v->confidence = 0;
	if (group == TP_GROUP_UNKNOWN)
		return 0;
	for (__u32 c = 0; c < TP_MODEL_CLASSES; c++) {
		if (m->group[c] == group && v->votes[c] > best) {
			best = v->votes[c];
			v->name = c;
		}
	}
	v->confidence = v->reason == TP_REASON_RULE && all ? best * 255 / all : best >> 8;
	return 0;
}

TP_INLINE void tp_say(struct tp_verdict *v, __u8 group, __u8 reason, const struct tp_round *r)
{
	if (v->group != group)
		v->since_round = r->number;
	v->group = group;
	v->reason = reason;
	v->seen = 0;
}

/* Decides if no vote is needed; returns 0 if one is. */
TP_INLINE int tp_certain(struct tp_verdict *v, const struct tp_shape *s, const struct tp_round *r)
{
	__u32 before = s->window[(s->rounds - 2) & TP_ROUNDS_MASK];
	__u8 reason = TP_REASON_NEW, group = TP_GROUP_UNKNOWN;

	if (s->rounds > 4 && s->idle > TP_HALF && s->window_max < TP_ANT_WINDOW &&
	    before < TP_ANT_WINDOW) {
		group = TP_GROUP_ANT;
		reason = TP_REASON_SPARSE;
	} else if (!s->start_over) {
		group = TP_GROUP_MOUSE;
		reason = TP_REASON_SLOW_START;
	} else if (s->limited > TP_MOST) {
		reason = TP_REASON_RECEIVER;
	} else if ((s->idle > TP_MOST && s->own_queue < 16) || s->is_paced) {
		reason = TP_REASON_APPLICATION;
	} else if (!s->losses && (__u64)r->link_queue_us * 32 < r->min_rtt_us) {
		reason = TP_REASON_NO_QUEUE;
	} else if (s->rounds >= s->slow_start_rounds + TP_FEW_ROUNDS) {
		return 0;
	} else if (v->group != TP_GROUP_MOUSE) {
		return 0;
	} else {
		return 1; /* stays a mouse for a few rounds */
	}
	v->name = TP_NO_CLASS;
	v->confidence = 0;
	v->group_confidence = 0;
	v->voted_rounds = 0;
	tp_say(v, group, reason, r);
	return 1;
}

/*
 * The group that the published laws make certain; 0: none.
 *
 *  - BBR alone lets its window fall at its own period (probe_rtt.h).  Falls to a half are no sign
 *    in QUIC without the spin bit: the length of its rounds is reckoned, and the data of a round
 *    also falls while another flow's BBR drains the path.
 *  - Vegas and LoLa alone come to rest, with a few packets of their own in the
 *    queue, and no loss for long, and gave way when others filled it (queue_response.h).
 */
TP_INLINE __u32 tp_rule(const struct tp_shape *s, const struct tp_round *r)
{
	__u32 rest = s->rounds - s->slow_start_rounds;
	int is_reckoned = (r->flags & (TP_FLOW_QUIC | TP_FLOW_SPIN)) == TP_FLOW_QUIC;
	int probes_rtt = is_reckoned ? tp_probes_rtt_by_four(s) : tp_probes_rtt(s);

	if (probes_rtt && s->window_max > TP_ANT_WINDOW && s->idle < TP_HALF)
		return TP_GROUP_MODEL;
	if (s->since_loss >= 24 && rest >= 24 && s->flat > TP_MOST && s->own_queue >= 8 &&
	    s->own_queue < 24 * 16 && s->queue_responses >= TP_QUEUE_RESPONSES_ENOUGH)
		return TP_GROUP_DELAY;
	return 0;
}

/* Hysteresis over the groups' shares of the votes. */
TP_INLINE void tp_settle(struct tp_verdict *v, const struct tp_scratch *s, const struct tp_round *r)
{
	__u32 best_group = tp_best_group(s) & (TP_GROUP_COUNT - 1);
	__u32 best = s->group[best_group] >> 8;
	__u32 own = s->group[v->group & (TP_GROUP_COUNT - 1)] >> 8;
	__u8 reason = best_group == TP_GROUP_UNKNOWN ? TP_REASON_APPLICATION : TP_REASON_MODEL;

	v->seen = v->candidate == best_group && best >= TP_ENTER ? v->seen + (v->seen < 255) : 0;
	v->candidate = best_group;
	v->group_confidence = best_group == v->group ? best : own;
	if (v->group == best_group && best >= TP_STAY) {
		v->reason = reason;
		return;
	}
	if (v->seen >= TP_ENTER_ROUNDS) {
		tp_say(v, best_group, reason, r);
		v->group_confidence = best;
	} else if (own < TP_STAY) {
		__u8 seen = v->seen;

		tp_say(v, TP_GROUP_UNKNOWN, TP_REASON_UNSURE, r);
		v->seen = seen;
	}
}

/* Whether a flow has been in its group for long, with most of the votes: then the
 * trees are asked only now and then, and in the rounds after a loss, which say most.  Between two
 * periods of light tracking they are asked more often, once enough rounds are known. */
TP_INLINE int tp_is_settled(const struct tp_verdict *v, const struct tp_shape *s,
			    const struct tp_round *r)
{
	__u8 enough = v->reason == TP_REASON_OUTSIDE ? TP_OUTSIDE_MOST : TP_SETTLED;
	__u32 every = s->resumed ? TP_FULL_TRACKING_EVERY : TP_SETTLED_EVERY;

	if (s->resumed && s->rounds - s->resumed <= TP_SHAPE_ROUNDS)
		return v->group != TP_GROUP_UNKNOWN;
	return v->voted_rounds && v->group != TP_GROUP_UNKNOWN && v->group_confidence >= enough &&
	       r->number - v->since_round >= TP_SETTLED_ROUNDS && s->since_loss > 3 &&
	       r->number % every;
}

/* A round has ended, and the shape includes it.  Returns 1 if the trees have to be
 * asked, and so the features are needed. */
TP_INLINE int tp_prepare(struct tp_verdict *v, const struct tp_shape *s, const struct tp_round *r,
			 const struct tp_model *m)
{
	__u32 rule;

	if (tp_certain(v, s, r))
		return 0;
	rule = tp_rule(s, r);
	if (rule) {
		tp_say(v, rule, TP_REASON_RULE, r);
		v->group_confidence = 255;
	} else if (!m->trees) {
		tp_say(v, TP_GROUP_UNKNOWN, TP_REASON_UNSURE, r);
		v->group_confidence = 0;
	}
	return m->trees && !tp_is_settled(v, s, r);
}

TP_INLINE int tp_is_beyond(const struct tp_range *range, __u64 value)
{
	return range->most && (value < range->least || value > range->most);
}

/* Whether the trees have learned from no path like this. */
TP_INLINE int tp_is_outside(const struct tp_model *m, const struct tp_round *r)
{
	return tp_is_beyond(&m->range[TP_RANGE_RTT], r->min_rtt_us) ||
	       tp_is_beyond(&m->range[TP_RANGE_RATE], r->link_rate) ||
	       tp_is_beyond(&m->range[TP_RANGE_QUEUE], tp_ratio(r->link_queue_us, r->min_rtt_us));
}

/* Whether the extrapolation model is asked, which also learned from simulated paths of all kinds.
 * It has the classes of `m`, and the same range, that of the recordings. */
TP_INLINE int tp_is_extrapolated(const struct tp_model *m, const struct tp_model *extrapolation,
				 const struct tp_round *r)
{
	return extrapolation->trees && tp_is_outside(m, r);
}

/* On unrecorded paths the trees are asked, but not trusted. */
TP_INLINE void tp_distrust(struct tp_verdict *v, const struct tp_model *m, const struct tp_round *r)
{
	if (v->reason == TP_REASON_RULE || !tp_is_outside(m, r))
		return;
	v->confidence = tp_min(v->confidence, TP_OUTSIDE_MOST);
	v->group_confidence = tp_min(v->group_confidence, TP_OUTSIDE_MOST);
	if (v->reason == TP_REASON_MODEL)
		v->reason = TP_REASON_OUTSIDE;
}

TP_INLINE void tp_decide(struct tp_verdict *v, const struct tp_shape *s, const struct tp_round *r,
			 const struct tp_model *m, struct tp_scratch *scratch)
{
	tp_vote(v, s, m, r, scratch);
	if (v->reason != TP_REASON_RULE || !tp_rule(s, r))
		tp_settle(v, scratch, r);
	tp_name(v, m, scratch);
	tp_distrust(v, m, r);
}

/* The four steps in one; the kernel's program calls them one by one. */
TP_INLINE void tp_classify(struct tp_verdict *v, const struct tp_shape *s, const struct tp_round *r,
			   const struct tp_model *m, struct tp_scratch *scratch)
{
	if (!tp_prepare(v, s, r, m))
		return;
	tp_features(s, r, scratch->feature);
	tp_forest(m, scratch);
	tp_decide(v, s, r, m, scratch);
}

#endif
