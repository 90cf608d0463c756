/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * greedy.h - the learner epsilon-greedy, at work here: from the record of a connection's end it
 * charges a cost to its arm, and rewrites the choice distribution of its path.  So it needs no
 * daemon to learn. core/learner/ has the arithmetic.
 *
 * A path is a host in private address space, and a group of neighbours elsewhere, without
 * classes.  Its costs stand at the place of its distribution.  A new path takes the place of the
 * one of its bucket unused for longest.  A distribution and its costs are written by the
 * CPU that has the costs' busy flag.
 */
#ifndef TCPILOT_PILOT_GREEDY_H
#define TCPILOT_PILOT_GREEDY_H

#include "../core/draw.h"
#include "../core/learner/epsilon_greedy.h"
#include "../core/choice_dist.h"
#include "busy.h"
#include "conn_starts.h"
#include "socket.h"
#include "state.h"
#include "visit.h"

#define NO_PLACE (~0U)

/* The place of a path's costs, or else of those to give up for them; NO_PLACE: the path has none.
 * A function of its own, so that the verifier does not follow each outcome separately. */
__noinline __u32 place_for(__u64 tag, int is_made)
{
	__u32 first = tp_choice_dist_bucket_of(tag, cfg.choice_dist_buckets) * TP_CHOICE_DIST_WAYS,
	      oldest = first;
	__u64 oldest_ns = ~0ULL;

	for (__u32 i = 0; i < TP_CHOICE_DIST_WAYS; i++) {
		__u32 place = first + i;
		struct tp_costs *c = bpf_map_lookup_elem(&costs, &place);
		__u64 used_ns;

		if (!c)
			return NO_PLACE;
		if (c->tag == tag)
			return place;
		used_ns = c->tag ? c->updated_ns : 0;
		if (used_ns < oldest_ns) {
			oldest_ns = used_ns;
			oldest = place;
		}
	}
	return is_made ? oldest : NO_PLACE;
}

static __always_inline struct tp_choice_dist *choice_dist_at(__u32 place)
{
	__u32 index = place / TP_CHOICE_DIST_WAYS;
	struct tp_choice_dist_bucket *bucket = bpf_map_lookup_elem(&rows, &index);

	return bucket ? &bucket->dist[tp_within(place, TP_CHOICE_DIST_WAYS)] : 0;
}

/* As the daemon writes choice distributions: the tag goes first, and comes back last.  Both
 * exchanges order everything between them. */
static __always_inline void write_choice_dist(struct tp_choice_dist *dist,
					      union tp_choice_dist_words *to)
{
	volatile __u64 *word = ((union tp_choice_dist_words *)dist)->word;
	int is_new = dist->tag != to->dist.tag;

	if (!is_new && word[1] == to->word[1] && word[2] == to->word[2])
		return;
	to->dist.version = dist->version + 1;
	__sync_lock_test_and_set(&dist->tag, TP_CHOICE_DIST_WRITTEN);
	word[1] = to->word[1];
	word[2] = to->word[2];
	word[3] = to->word[3];
	__sync_lock_test_and_set(&dist->tag, to->dist.tag);
	if (!is_new)
		return;
	__sync_fetch_and_add(&learner_status.dists_version, 1);
	__sync_fetch_and_or(&learner_status.levels, 1ULL << to->dist.level);
}

/* The choice distribution from these costs; without one the default stays. */
static __always_inline void rewrite(struct tp_choice_dist *dist, const struct tp_costs *c)
{
	union tp_choice_dist_words to = {
	    .dist = {.tag = c->tag, .generation = c->instances, .level = c->key.level}};

	if (epsilon_greedy_choice_dist(&config()->learner, c, to.dist.upto))
		write_choice_dist(dist, &to);
	else if (dist->tag)
		__sync_lock_test_and_set(&dist->tag, 0);
}

/* The path takes the place of another, whose choice distribution goes with it. */
static __always_inline void begin_costs(struct tp_costs *c, struct tp_choice_dist *dist, __u64 tag,
					const struct tp_node_key *key)
{
	__u32 busy = c->busy;

	if (dist->tag)
		__sync_lock_test_and_set(&dist->tag, 0);
	__builtin_memset(c, 0, sizeof(*c));
	c->busy = busy;
	c->key = *key;
	c->tag = tag;
}

/* The connection of a record as the learner sees it.  If it was rescued or moved before, it has
 * left its first arm, which was charged then.  A rescue is a failure of that arm. */
static __always_inline void describe(const struct tp_record *r, __u64 rate, __u32 eligible,
				     struct tp_end *end)
{
	end->now_ns = r->at_ns;
	end->window_ns = cfg.window_ns;
	end->rate = rate;
	end->min_rtt_us = r->min_rtt_us;
	end->eligible = eligible;
	end->weight = r->weight;
	end->arm = r->conn_flags & (TP_CONN_RESCUED | TP_CONN_MOVED) ? TP_NO_ARM : r->arm;
	end->failed = !!(r->flags & (TP_RECORD_TIMED_OUT | TP_RECORD_RESCUED));
	end->is_judged = end->failed || r->bytes_acked >= cfg.learner.min_flow_bytes;
	end->excused = !!(r->flags & TP_RECORD_TUNED);
	end->favourite = r->level != TP_LEVEL_NONE && r->probability > TP_CERTAIN / 2;
}

/* The key of its path's costs. */
static __always_inline void key_of(const struct tp_record *r, struct tp_node_key *key)
{
	struct tp_node_key place = {.domain = r->domain, .policy = r->policy};

	__builtin_memcpy(place.prefix, r->remote, sizeof(place.prefix));
	tp_costs_key(&place, key);
}

/* Charges, and rewrites the choice distribution if that may have changed the shares of its path:
 * most connections are too small to.  With the costs' busy flag held. */
static __always_inline void learn_exclusively_here(struct tp_costs *c, struct tp_choice_dist *dist,
						   const struct tp_end *end)
{
	const struct tp_arm *arm = &c->arms[tp_within(end->arm, TP_MAX_ARMS)];
	__u32 eligible = c->eligible, unpaid = arm->unpaid;

	epsilon_greedy_end(&config()->learner, c, end);
	if (end->is_judged || c->eligible != eligible ||
	    (unpaid < cfg.learner.max_unpaid && arm->unpaid >= cfg.learner.max_unpaid))
		rewrite(dist, c);
}

/* Learns from a connection that ends, or leaves its arm.  rate: bytes per second; 0: none is
 * known.  eligible: its possible arms.  One too small to be judged says something only about a
 * path with shares.  A function of its own: the verifier checks it
 * once. */
__noinline int learn_here(const struct tp_record *r, __u64 rate, __u32 eligible)
{
	struct tp_node_key key = {};
	struct tp_end end = {};
	struct tp_costs *c;
	struct tp_choice_dist *dist;
	__u32 place;
	__u64 tag;

	if (!r)
		return 0;
	describe(r, rate, eligible, &end);
	if (!end.is_judged && r->level == TP_LEVEL_NONE)
		return 0;
	key_of(r, &key);
	tag = tp_node_tag(config()->node_secrets, &key);
	place = place_for(tag, end.is_judged);
	c = bpf_map_lookup_elem(&costs, &place);
	dist = choice_dist_at(place);
	if (!c || !dist || !take(&c->busy))
		return 0;
	if (c->tag != tag)
		begin_costs(c, dist, tag, &key);
	learn_exclusively_here(c, dist, &end);
	release(&c->busy);
	return 1;
}

/* The rate that a connection is judged by at its end: that of now, or that before its FIN. */
static __always_inline __u64 rate_at_end(const struct visit *v, const struct bpf_tcp_sock *ts,
					 __u64 before_fin)
{
	if (ts->bytes_acked < cfg.learner.min_flow_bytes)
		return 0;
	return tp_max64(tp_conn_rate(ts, v->tp, ticks_per_s, 0), before_fin);
}

/* A FIN is sent: keeps the rate if the last rate sample will not show it.  If all data was
 * acknowledged, the FIN's own sample replaces the data's.  If the application filled the send
 * buffer, the kernel calls the sample application-limited. */
static __noinline __u32 keep_fin_rate(struct bpf_sock_ops *ctx)
{
	struct visit v = begin_visit(ctx, 0);
	struct tp_conn_start *start;
	struct bpf_tcp_sock *ts;
	int filled;

	if (!v.tp || !v.sk)
		return 0;
	filled = tp_is_filled(v.tp);
	ts = filled || tp_is_idle(v.tp) ? bpf_tcp_sock(v.sk) : 0;
	start = ts ? conn_start_of(tag_of(v.tp)) : 0;
	if (!start || !ts)
		return 0;
	start->rate = (__u32)tp_min64(
	    tp_conn_rate(ts, v.tp, ticks_per_s, filled) >> TP_START_RATE_SHIFT, ~0U);
	return 1;
}

#endif
