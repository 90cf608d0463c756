/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * greedy.h - the learner epsilon-greedy, which works here: at a connection's end it charges
 * the connection's cost to its arm, and rewrites the row of its path.  So it needs no daemon
 * to learn.  core/learner/ has the arithmetic.
 *
 * A path is a host in private address space, and a group of neighbours elsewhere, without
 * classes.  Its costs stand at the place of its row.  A new path takes the place of the one
 * of its bucket that was unused for longest.  A row and its costs are written by the CPU that
 * has the costs' busy flag.
 */
#ifndef TCPILOT_PILOT_GREEDY_H
#define TCPILOT_PILOT_GREEDY_H

#include "../core/draw.h"
#include "../core/learner/epsilon_greedy.h"
#include "../core/rows.h"
#include "busy.h"
#include "choose.h"
#include "connection.h"
#include "openings.h"
#include "shares.h"
#include "state.h"
#include "visit.h"

#define NO_PLACE (~0U)

/* The place of a path's costs, or else of those to give up for them; NO_PLACE: the path has none.
 * A function of its own, so that the verifier does not follow each outcome separately. */
__noinline __u32 place_for(__u64 tag, int is_made)
{
	__u32 first = tp_row_bucket_of(tag, cfg.row_buckets) * TP_ROW_WAYS, oldest = first;
	__u64 oldest_ns = ~0ULL;

	for (__u32 i = 0; i < TP_ROW_WAYS; i++) {
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

static __always_inline struct tp_row *row_at(__u32 place)
{
	__u32 index = place / TP_ROW_WAYS;
	struct tp_row_bucket *bucket = bpf_map_lookup_elem(&rows, &index);

	return bucket ? &bucket->row[tp_within(place, TP_ROW_WAYS)] : 0;
}

/* As the daemon writes rows: the tag goes first, and comes back last.  Both exchanges order all
 * that is between them. */
static __always_inline void write_row(struct tp_row *row, union tp_row_words *to)
{
	volatile __u64 *word = ((union tp_row_words *)row)->word;
	int is_new = row->tag != to->row.tag;

	if (!is_new && word[1] == to->word[1] && word[2] == to->word[2])
		return;
	to->row.version = row->version + 1;
	__sync_lock_test_and_set(&row->tag, TP_ROW_WRITTEN);
	word[1] = to->word[1];
	word[2] = to->word[2];
	word[3] = to->word[3];
	__sync_lock_test_and_set(&row->tag, to->row.tag);
	if (!is_new)
		return;
	__sync_fetch_and_add(&pulse.rows, 1);
	__sync_fetch_and_or(&pulse.levels, 1ULL << to->row.level);
}

/* The row that follows from these costs; without one the default stays. */
static __always_inline void rewrite(struct tp_row *row, const struct tp_costs *c)
{
	union tp_row_words to = {
	    .row = {.tag = c->tag, .generation = c->instances, .level = c->key.level}};

	if (epsilon_greedy_row(&config()->learner, c, to.row.upto))
		write_row(row, &to);
	else if (row->tag)
		__sync_lock_test_and_set(&row->tag, 0);
}

/* The path takes the place of another, whose row goes with it. */
static __always_inline void begin_costs(struct tp_costs *c, struct tp_row *row, __u64 tag,
					const struct tp_row_key *key)
{
	__u32 busy = c->busy;

	if (row->tag)
		__sync_lock_test_and_set(&row->tag, 0);
	__builtin_memset(c, 0, sizeof(*c));
	c->busy = busy;
	c->key = *key;
	c->tag = tag;
}

/* Moments at which a connection teaches. */
enum moment {
	MOMENT_FIN, /* its rate and RTT alone: the last rate sample will not show it */
	MOMENT_END, /* or it leaves its arm */
};

/* Whether an end has changed the shares of its path: most connections are too small to. */
static __always_inline int has_changed(const struct tp_costs *c, const struct tp_end *end,
				       __u32 eligible_before)
{
	const struct tp_arm *arm = &c->arms[tp_within(end->arm, TP_MAX_ARMS)];

	return end->is_judged || c->eligible != eligible_before ||
	       (end->arm < TP_MAX_ARMS && arm->unpaid == cfg.learner.max_unpaid);
}

/* A function of its own, so that the verifier checks it once. */
__noinline int learn_here(const struct tp_row_key *key, const struct tp_end *end, __u32 moment)
{
	struct tp_costs *c;
	struct tp_row *row;
	__u32 place, eligible;
	__u64 tag;

	if (!key || !end)
		return 0;
	tag = tp_row_tag(config()->row_secrets, key);
	place = place_for(tag, end->is_judged && moment == MOMENT_END);
	c = bpf_map_lookup_elem(&costs, &place);
	row = row_at(place);
	if (!c || !row || !take(&c->busy))
		return 0;
	if (c->tag != tag)
		begin_costs(c, row, tag, key);
	eligible = c->eligible;
	if (moment == MOMENT_FIN)
		epsilon_greedy_measure(c, end);
	else
		epsilon_greedy_end(&config()->learner, c, end);
	if (moment == MOMENT_END && has_changed(c, end, eligible))
		rewrite(row, c);
	release(&c->busy);
	return 1;
}

static __always_inline void describe(const struct visit *v, const struct tp_opening *note,
				     struct tp_end *end)
{
	end->now_ns = bpf_ktime_get_coarse_ns();
	end->window_ns = cfg.window_ns;
	end->min_rtt_us = tp_valid_rtt_us(v->tp->rtt_min.s[0].v);
	end->eligible = eligible_arms(v, note);
	end->arm = is_foreign(v->tp, note) ? TP_NO_ARM : note->arm;
	end->favourite = note->level != TP_LEVEL_NONE && note->probability > TP_CERTAIN / 2;
}

/* A connection that was rescued or moved has left its first arm, which was charged then. */
static __always_inline int has_first_arm(const struct tp_opening *note)
{
	return note->tag && !(note->flags & (TP_CONN_RESCUED | TP_CONN_MOVED));
}

/* The rate of a connection; 0: none is known, or the application limited it. */
static __always_inline __u64 rate_now(const struct visit *v, const struct bpf_tcp_sock *ts,
				      __u32 moment)
{
	return tp_conn_rate(ts, v->tp, ticks_per_s, moment == MOMENT_FIN && tp_is_filled(v->tp));
}

/* What learn_here() takes.  Its caller has it, and neither of the functions that fill it in and
 * use it calls the other: together their stacks would be too large. */
struct charge {
	struct tp_row_key path;
	struct tp_end end;
};

/* The node of a connection's path, and its end but for the rate. */
static __always_inline void charge_of(const struct visit *v, struct tp_row_key *place,
				      const struct tp_opening *note, struct charge *to)
{
	part_by_egress(place, note->egress);
	tp_costs_key(place, &to->path);
	describe(v, note, &to->end);
}

/* Describes a connection that ends, or sends a FIN after enough data to be judged by; says
 * whether it teaches.  One too small to be judged says something only about a path that has
 * shares. */
static __noinline __u32 describe_end(struct bpf_sock_ops *ctx, __u32 moment, struct charge *to)
{
	struct tp_path_key unused = {};
	struct visit v = begin_visit(ctx, &unused);
	struct tp_row_key place = {};
	struct tp_opening note = {};
	struct bpf_tcp_sock *ts;

	if (!v.tp || !v.sk || (moment == MOMENT_FIN && !tp_is_idle(v.tp) && !tp_is_filled(v.tp)))
		return 0;
	ts = bpf_tcp_sock(v.sk);
	if (!ts)
		return 0;
	to->end.failed = tp_timed_out(v.tp);
	to->end.is_judged = to->end.failed || ts->bytes_acked >= cfg.learner.min_flow_bytes;
	if (!find_note(tag_of(v.tp), &note))
		note = (struct tp_opening){};
	else if (note.level == TP_LEVEL_NONE && !to->end.is_judged)
		return 0;
	locate(&v, &place);
	if (!v.policy)
		return 0;
	charge_of(&v, &place, &note, to);
	if (!has_first_arm(&note))
		to->end.arm = TP_NO_ARM;
	to->end.excused = !is_creditable(cfg.tunes ? remembered(v.sk) : 0, ts->data_segs_out);
	if (to->end.is_judged)
		to->end.rate = rate_now(&v, ts, moment);
	return 1;
}

/* Describes a connection that was rescued just now, which is a failure of its first arm: the rate
 * after the rescue is another algorithm's, and the rate before it was that of slow start. */
static __noinline __u32 describe_rescued(struct bpf_sock_ops *ctx, struct charge *to)
{
	struct tp_path_key unused = {};
	struct visit v = begin_visit(ctx, &unused);
	struct tp_row_key place = {};
	struct tp_opening note = {};

	if (!v.tp || !v.sk)
		return 0;
	locate(&v, &place);
	if (!v.policy || !find_note(tag_of(v.tp), &note) || !has_first_arm(&note))
		return 0;
	charge_of(&v, &place, &note, to);
	to->end.arm = note.arm; /* the rescue's is in force already */
	to->end.is_judged = to->end.failed = 1;
	return 1;
}

static __noinline int charge_end(struct bpf_sock_ops *ctx, __u32 moment)
{
	struct charge c = {};

	return describe_end(ctx, moment, &c) && learn_here(&c.path, &c.end, moment);
}

static __noinline int charge_rescued(struct bpf_sock_ops *ctx)
{
	struct charge c = {};

	return describe_rescued(ctx, &c) && learn_here(&c.path, &c.end, MOMENT_END);
}

#endif
