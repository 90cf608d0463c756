/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * sample.h - records of long connections while they live: an iterator over the connections of
 * the reader's network namespace, which the learner in the daemon runs now and then.  It also
 * moves connections at the daemon's request.
 *
 * Sums are since the connection's beginning.  The daemon keeps the last record of each
 * connection, by the socket's cookie, and learns from the difference: nothing is kept here.
 */
#ifndef TCPILOT_PILOT_SAMPLE_H
#define TCPILOT_PILOT_SAMPLE_H

#include "act.h"
#include "list.h"
#include "move.h"
#include "conn_starts.h"
#include "report.h"
#include "shares.h"
#include "visit.h"

/* A connection without new data for so long is idle: it has no new measures. */
#define IDLE_S 10

static __always_inline int is_busy(const struct tcp_sock *tp)
{
	return tp->bytes_acked >= cfg.sample_bytes &&
	       (__u32)bpf_jiffies64() - tp->lsndtime <= IDLE_S * ticks_per_s;
}

/* Adds the start of a connection that still has the arm we gave it last; says whether it
 * has. */
static __always_inline int sample_conn_start(const struct tcp_sock *tp, struct tp_record *r,
					     struct tp_conn_start *start)
{
	if (!find_conn_start(tag_of(tp), start) || is_foreign(tp, start))
		return 0;
	record_conn_start(start, r);
	r->beside = (__u8)beside_of(start->tag);
	return 1;
}

/* Sends a record.  If the connection is moved now, it separates the old arm's measures from
 * those of the new one. */
static __always_inline void emit_and_move(const struct visit *v, struct tcp_sock *tp,
					  const struct tp_node_key *place,
					  const struct tp_conn_start *start, struct tp_record *r)
{
	struct tp_move *move = bpf_map_lookup_elem(&moves, &r->cookie);

	if (move && may_move(v, place, start, move) && move_to(tp, move->to)) {
		r->flags |= TP_RECORD_MOVED;
		change_conn_start(start->tag, arm_in_force(tp), TP_WHY_MOVED,
				  TP_CONN_MOVED | TP_CONN_STEERED);
	}
	send_record(r);
}

SEC("iter/tcp")
int sample(struct bpf_iter__tcp *ctx)
{
	struct tp_record r = {.flags = TP_RECORD_SAMPLE, .weight = 1};
	struct sock_common *common = ctx->sk_common;
	struct tp_node_key place = {};
	struct tp_path_key key = {};
	struct visit v = {.key = &key};
	struct tp_conn_start start = {};
	struct tcp_sock *tp;

	if (!common || common->skc_state != BPF_TCP_ESTABLISHED)
		return 0;
	tp = bpf_skc_to_tcp_sock(common);
	if (!tp || !is_busy(tp) || !is_steered_cgroup(tp) ||
	    (tp->bpf_sock_ops_cb_flags & OUR_CALLBACKS) != OUR_CALLBACKS)
		return 0;
	v.tp = tp;
	tp_remote_btf(tp, place.prefix);
	locate_at(&v, &place, tp_netns_cookie(tp));
	r.at_ns = bpf_ktime_get_ns();
	if (!v.policy || !sample_conn_start(tp, &r, &start))
		return 0;
	part_by_egress(&place, start.egress);
	record_place(&place, &r);
	r.netns_cookie = tp_netns_cookie(tp);
	r.cookie = bpf_get_socket_cookie(tp); /* the record of its end has it, too */
	record_times(tp, &r);
	record_live_counts(tp, &r);
	record_bouts(bpf_sk_storage_get(&rescues, tp, 0, 0), &r);
	emit_and_move(&v, tp, &place, &start, &r);
	return 0;
}

#endif
