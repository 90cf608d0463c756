/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * thompson.h - the moments of a connection when the learner works in the daemon.  When it
 * opens, the programs draw by the nearest row.  When it ends, they send a record.  Decision 18.
 *
 * Nothing is kept for a path, unless its policy has a tuning on.
 */
#ifndef TCPILOT_PILOT_THOMPSON_H
#define TCPILOT_PILOT_THOMPSON_H

#include "../core/atomic.h"
#include "../core/draw.h"
#include "../core/eligible.h"
#include "act.h"
#include "connection.h"
#include "end.h"
#include "open.h"
#include "openings.h"
#include "record.h"
#include "shares.h"
#include "trial.h"
#include "visit.h"

/* The arms that may be chosen here.  There is no path to ask: the handshake is the connection's
 * own evidence. */
static __always_inline __u32 eligible_arms(const struct visit *v, const struct tp_opening *note)
{
	if (!cfg.ecn_arms)
		return v->policy->arms;
	return tp_eligible(v->policy, cfg.ecn_arms, ecn_use(v, note->rtt_us));
}

/* Draws from a row. */
static __always_inline __u8 draw_arm(const struct visit *v, struct tp_draw *draw,
				     struct asking *asks, const struct tp_shares *shares,
				     struct tp_opening *note)
{
	struct drawn drawn = {};

	note->generation = shares->generation;
	note->level = shares->level;
	note->why = TP_WHY_DRAWN;
	if (cfg.dry_run)
		return TP_NO_ARM; /* it would keep its algorithm whatever is drawn */
	note->flags |= TP_CONN_DRAWN;
	asks->eligible = eligible_arms(v, note);
	if (cfg.ecn_arms && !asks->eligible)
		note->why = TP_WHY_NO_ARM;
	asks->in_force = v->in_force.arm;
	take_draw(draw, asks, shares, &drawn);
	note->probability = drawn.probability;
	return drawn.arm;
}

/* Sets an arm, and notes the arm that is in force then. */
static __always_inline void set_arm(const struct visit *v, struct tp_opening *note, __u8 arm)
{
	if (set_algorithm(v->hands, config()->arm[tp_within(arm, TP_MAX_ARMS)]))
		note->flags |= TP_CONN_STEERED;
	else
		note->why = TP_WHY_SET_FAILED;
	note->arm = arm_in_force_if(v->tp, arm);
}

/* Draws an arm, unless the connection is held out or there is no row.  now_ns makes its draw
 * unlike that of another connection with the same ports. */
static __always_inline __u8 arm_for(const struct visit *v, const struct tp_row_key *place,
				    struct tp_opening *note, __u64 now_ns)
{
	struct asking asks = {
	    .tag = note->path, .now = note->opened, .class = note->class, .rows = pulse.rows};
	struct tp_draw *draw = draw_at(asks.tag);
	struct tp_shares shares = {};

	if (!draw)
		return TP_NO_ARM;
	asks.seed = (__u64)note->tag << 32 ^ now_ns;
	asks.cell = cell_of(draw, asks.tag, place->prefix);
	if (!v->again) /* if it is set, the socket has our algorithm already */
		note->trial = trial_in(asks.cell);
	if (note->trial & TP_TRIAL_HELD_OUT) {
		note->why = TP_WHY_HELD_OUT;
		note->flags |= TP_CONN_HELD_OUT;
		return TP_NO_ARM;
	}
	if (!hinted_row(draw, &asks, &shares) && !nearest_row(place, &shares))
		return TP_NO_ARM;
	return draw_arm(v, draw, &asks, &shares, note);
}

static __always_inline void choose_arm(const struct visit *v, struct tp_row_key *place,
				       struct tp_opening *note, __u64 now_ns)
{
	__u8 arm;

	note->class = place->class = class_of(v, note->rtt_us);
	note->egress = egress_of(v);
	part_by_egress(place, note->egress);
	note->path = draw_tag(place);
	note->why = TP_WHY_VOID;
	if (!rows_are_valid(now_ns))
		return;
	note->why = TP_WHY_NO_ROW;
	if (!pulse.levels && !pulse.trials)
		return;
	arm = arm_for(v, place, note, now_ns);
	if (arm < TP_MAX_ARMS)
		set_arm(v, note, arm);
}

/* The path, for a policy with a tuning on. */
static __always_inline void open_tuned_path(struct visit *v, __u64 now_ns)
{
	if (!cfg.tunes || !v->policy->tuned)
		return;
	v->path = open_path(v->key, &v->slot);
	if (!v->path)
		return;
	if (!v->path->born_ns)
		begin_path(v, now_ns);
	__sync_fetch_and_add(&v->path->live_flows, 1);
	__sync_fetch_and_add(&v->path->connections, 1);
}

static __always_inline __u8 take_up_drawn(struct visit *v, struct tp_row_key *place)
{
	__u64 now_ns = coarse_ns();
	struct tp_opening note = {
	    .tag = tag_of(v->tp),
	    .opened = now_ns >> TP_OPENED_SHIFT,
	    .rtt_us = srtt_us_of(v->hands),
	    .probability = TP_CERTAIN,
	    .arm = v->in_force.arm,
	    .level = TP_LEVEL_NONE,
	    .flags =
		v->flags | (cfg.dry_run ? TP_CONN_DRY_RUN : 0) | (v->again ? TP_CONN_STEERED : 0),
	    .policy = place->policy,
	};

	choose_arm(v, place, &note, now_ns);
	note_opening(&note);
	open_tuned_path(v, now_ns);
	if (note.flags & TP_CONN_HELD_OUT)
		v->path = 0; /* the path has counted it, but does not tune it */
	if (subscribe(v->hands, OUR_CALLBACKS))
		COUNT(trouble[TP_TROUBLE_CB_FLAGS]);
	return note.why;
}

/* Leaves the path in the visit if the connection is ours, and its policy has a tuning on. */
static __always_inline void established_drawn(struct visit *v)
{
	struct tp_row_key place = {};
	__u8 why = TP_WHY_LOOPBACK;

	locate(v, &place);
	if (v->policy) {
		v->in_force = known_in_force(v->tp);
		why = hands_off(v);
		if (why == TP_WHY_APPLICATION && is_left_over(v)) {
			v->again = 1;
			why = tp_route_has_cc(v->tp) ? TP_WHY_ROUTE : TP_WHY_UNSEEN;
		}
		if (why == TP_WHY_UNSEEN)
			why = take_up_drawn(v, &place);
	}
	COUNT(connections[tp_within(why, TP_WHY_SLOTS)]);
}

static __always_inline void fill_record(const struct visit *v, const struct bpf_tcp_sock *ts,
					const struct tp_row_key *place, struct tp_record *r)
{
	record_place(place, r);
	record_identity(v->tp, r);
	record_times(v->tp, r);
	record_counts(ts, v->tp, r);
}

/* The weight of a connection's record; 0: none is sent.  A connection that carried too little
 * to judge an algorithm shows only that it did not time out: one in sixteen of these sends a
 * record for all. */
#define TP_SMALL_WEIGHT_SHIFT 4

static __always_inline __u32 record_weight(const struct visit *v, __u64 bytes_acked, int timed_out)
{
	if (bytes_acked >= cfg.min_flow_bytes || timed_out || retransmitted_by(v->hands))
		return 1;
	return tp_is_one_of(TP_SMALL_WEIGHT_SHIFT, v->sk->src_port, v->sk->dst_port)
		   ? 1 << TP_SMALL_WEIGHT_SHIFT
		   : 0;
}

/* The application may connect this socket again.  Then our algorithm must not be taken for its
 * own choice (is_left_over), nor the old storage for that of the next connection. */
static __always_inline void leave_over(const struct visit *v, int is_ours)
{
	struct tp_conn left = {.cc_key = is_ours ? tp_cc_key(v->tp) : 0}, *conn;

	conn = bpf_sk_storage_get(&conns, v->sk, &left, is_ours ? BPF_SK_STORAGE_GET_F_CREATE : 0);
	if (!conn)
		return;
	conn->open = 0;
	conn->cc_key = left.cc_key;
}

/* The flags that note and socket give: enum tp_record_flags. */
static __always_inline __u8 end_flags(const struct visit *v, const struct tp_opening *note)
{
	if (!note->tag)
		return TP_RECORD_FORGOTTEN;
	return is_foreign(v->tp, note) ? TP_RECORD_FOREIGN : 0;
}

/* Removes the note, and releases its draw. */
static __always_inline void give_back(const struct visit *v)
{
	struct tp_opening *note = note_of(tag_of(v->tp));

	if (!note) { /* it was lost */
		if (tp_sock_of(v->tp)->sk_socket)
			leave_over(v, 0);
		return;
	}
	if (note->flags & TP_CONN_STEERED && tp_sock_of(v->tp)->sk_socket)
		leave_over(v, note->arm == arm_in_force(v->tp));
	note->tag = 0;
	if (note->flags & TP_CONN_DRAWN)
		release_draw(note->path);
}

/* A tuned window is not the congestion control's work. */
static __always_inline __u8 tuned_flag(const struct visit *v, const struct bpf_tcp_sock *ts)
{
	struct tp_conn *conn = cfg.tunes && v->policy->tuned ? remembered(v->sk) : 0;

	return is_creditable(conn, ts->data_segs_out) ? 0 : TP_RECORD_TUNED;
}

static __always_inline void send_end(struct visit *v, int timed_out, __u32 weight)
{
	struct tp_record r = {.level = TP_LEVEL_NONE, .arm = TP_NO_ARM};
	struct bpf_tcp_sock *ts = bpf_tcp_sock(v->sk);
	struct tp_opening note = {};
	struct tp_row_key place = {};

	locate(v, &place);
	if (!ts || !v->policy)
		return;
	if (!find_note(tag_of(v->tp), &note))
		note = (struct tp_opening){};
	r.at_ns = coarse_ns();
	r.weight = (__u16)weight;
	r.flags = end_flags(v, &note);
	if (note.tag)
		record_note(&note, &r);
	if (r.flags)
		r.arm = TP_NO_ARM;
	r.flags |= (timed_out ? TP_RECORD_TIMED_OUT : 0) | tuned_flag(v, ts);
	part_by_egress(&place, note.egress);
	fill_record(v, ts, &place, &r);
	send_record(&r);
}

/* The end of a connection that was taken up.  Most ends are not worth a record: they only give
 * back their note and their draw. */
static __always_inline void tell_end(struct visit *v)
{
	__u64 bytes_acked = bytes_acked_of(v->hands);
	int timed_out = tp_timed_out(v->tp);
	__u32 weight = record_weight(v, bytes_acked, timed_out);

	count_closed(bytes_acked);
	if (weight)
		send_end(v, timed_out, weight);
	give_back(v);
}

/* A connection goes on with another algorithm: sends its measures until now.  flags: enum
 * tp_record_flags. */
static __always_inline void tell_part(struct visit *v, __u32 flags)
{
	struct tp_record r = {.arm = TP_NO_ARM, .level = TP_LEVEL_NONE, .weight = 1};
	struct bpf_tcp_sock *ts = bpf_tcp_sock(v->sk);
	struct tp_row_key place = {};
	struct tp_opening note = {};

	locate(v, &place);
	if (!ts || !v->policy)
		return;
	r.at_ns = bpf_ktime_get_coarse_ns();
	r.flags = TP_RECORD_SAMPLE | flags;
	if (find_note(tag_of(v->tp), &note))
		record_note(&note, &r);
	else
		r.flags |= TP_RECORD_FORGOTTEN;
	part_by_egress(&place, note.egress);
	fill_record(v, ts, &place, &r);
	r.cookie = bpf_get_socket_cookie(v->hands); /* the record of the next part has it, too */
	send_record(&r);
}

#endif
