/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * move.h - moves an open connection to a better arm for its path.  The daemon
 * decides (decision 21).
 *
 * The iterator that reports long connections (sample.h) does it.  It holds the socket's lock,
 * and the kernel lets it set options.  So no callback at an ACK or a round trip is needed, and
 * other connections cost nothing.
 */
#ifndef TCPILOT_PILOT_MOVE_H
#define TCPILOT_PILOT_MOVE_H

#include "act.h"
#include "choose.h"
#include "conn_starts.h"
#include "rescue.h"
#include "state.h"
#include "trial.h"
#include "visit.h"

/* Whether the daemon's order still fits: the daemon may not know, or not yet, of the events
 * below. */
static __always_inline int may_move(const struct visit *v, const struct tp_node_key *place,
				    const struct tp_conn_start *start, const struct tp_move *move)
{
	if (cfg.dry_run || start->arm != move->from || v->policy->leave_alone)
		return 0;
	/* the guard may have stopped steering since its opening */
	if (start->flags & TP_CONN_HELD_OUT || trial_of(place->prefix) & TP_TRIAL_HELD_OUT)
		return 0;
	/* its application has since chosen the same algorithm as we */
	if (tp_cc_was_set(v->tp) && !(start->flags & TP_CONN_STEERED))
		return 0;
	return eligible_arms(v, start->rtt_us) >> (move->to & 31) & 1;
}

/* A new arm's losses are its own. */
static __always_inline void watch_anew(struct tcp_sock *tp, struct tp_rescue *r)
{
	struct tp_loss_now now = {};

	loss_now(tp, &now);
	tp_rescue_begin(r, &now);
	r->bout = now.bout;
	r->ssthresh = now.ssthresh;
	r->phase = TP_RESCUE_WATCHED;
	if (r->flags & TP_RESCUE_THIN)
		set_linear_timeouts(tp, 0);
	r->flags = 0;
}

/* Moves a connection; says whether it did. */
static __noinline __u32 move_to(struct tcp_sock *tp, __u32 arm)
{
	struct tp_rescue *r = bpf_sk_storage_get(&rescues, tp, 0, 0);
	struct tp_conn *conn;

	if (r && r->phase == TP_RESCUE_TRIED)
		return 0; /* the effect of the rescue is being measured */
	if (!set_algorithm(tp, config()->arm[tp_within(arm, TP_MAX_ARMS)]))
		return 0;
	COUNT(moves);
	if (r)
		watch_anew(tp, r);
	conn = bpf_sk_storage_get(&conns, tp, 0, 0);
	if (conn && conn->open) { /* otherwise the move would look like the application's choice */
		conn->cc_key = tp_cc_key(tp);
		conn->arm = (__u8)arm;
		conn->why = TP_WHY_MOVED;
	}
	return 1;
}

#endif
