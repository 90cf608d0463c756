/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * greedy.h - the learner epsilon-greedy, which works here: from the record of a connection's end
 * it charges a cost to its arm, and rewrites the row of its path.  So it needs no daemon to learn.
 * core/learner/ has the arithmetic.
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
#include "openings.h"
#include "socket.h"
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
static __always_inline void key_of(const struct tp_record *r, struct tp_row_key *key)
{
	struct tp_row_key place = {.domain = r->domain, .policy = r->policy};

	__builtin_memcpy(place.prefix, r->remote, sizeof(place.prefix));
	tp_costs_key(&place, key);
}

/* Charges, and rewrites the row if that may have changed the shares of its path: most connections
 * are too small to.  With the costs' busy flag held. */
static __always_inline void learn_exclusively_here(struct tp_costs *c, struct tp_row *row,
						   const struct tp_end *end)
{
	const struct tp_arm *arm = &c->arms[tp_within(end->arm, TP_MAX_ARMS)];
	__u32 eligible = c->eligible, unpaid = arm->unpaid;

	epsilon_greedy_end(&config()->learner, c, end);
	if (end->is_judged || c->eligible != eligible ||
	    (unpaid < cfg.learner.max_unpaid && arm->unpaid >= cfg.learner.max_unpaid))
		rewrite(row, c);
}

/* Learns from a connection that ends, or leaves its arm.  rate: bytes per second; 0: none is
 * known.  eligible: the arms that it could have had.  One too small to be judged says something
 * only about a path that has shares.  It is a function of its own, so that the verifier checks it
 * once. */
__noinline int learn_here(const struct tp_record *r, __u64 rate, __u32 eligible)
{
	struct tp_row_key key = {};
	struct tp_end end = {};
	struct tp_costs *c;
	struct tp_row *row;
	__u32 place;
	__u64 tag;

	if (!r)
		return 0;
	describe(r, rate, eligible, &end);
	if (!end.is_judged && r->level == TP_LEVEL_NONE)
		return 0;
	key_of(r, &key);
	tag = tp_row_tag(config()->row_secrets, &key);
	place = place_for(tag, end.is_judged);
	c = bpf_map_lookup_elem(&costs, &place);
	row = row_at(place);
	if (!c || !row || !take(&c->busy))
		return 0;
	if (c->tag != tag)
		begin_costs(c, row, tag, &key);
	learn_exclusively_here(c, row, &end);
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

/* A FIN is sent: notes the rate if the last rate sample will not show it.  If all data was
 * acknowledged, the FIN's own sample replaces the data's.  If the application filled the send
 * buffer, the kernel calls the sample application-limited. */
static __noinline __u32 note_rate(struct bpf_sock_ops *ctx)
{
	struct visit v = begin_visit(ctx, 0);
	struct tp_opening *note;
	struct bpf_tcp_sock *ts;
	int filled;

	if (!v.tp || !v.sk)
		return 0;
	filled = tp_is_filled(v.tp);
	ts = filled || tp_is_idle(v.tp) ? bpf_tcp_sock(v.sk) : 0;
	note = ts ? note_of(tag_of(v.tp)) : 0;
	if (!note || !ts)
		return 0;
	note->rate =
	    (__u32)tp_min64(tp_conn_rate(ts, v.tp, ticks_per_s, filled) >> TP_NOTE_RATE_SHIFT, ~0U);
	return 1;
}

#endif
