/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * loss.h - a retransmission: if loss is heavy the connection is rescued, once.
 *
 * The rescue stays an outcome of the arm first chosen, which is charged with it at
 * the end.  With the learner in the daemon other rules hold: rescue.h.
 */
#ifndef TCPILOT_PILOT_LOSS_H
#define TCPILOT_PILOT_LOSS_H

#include "../core/loss.h"
#include "act.h"
#include "connection.h"
#include "visit.h"

/* Storage of a connection that the loss rule may change, made if there was none; 0: not ours. */
static __always_inline struct tp_conn *rescuable(struct visit *v)
{
	struct tp_conn *conn;

	identify(v);
	if (!v->policy)
		return 0;
	conn = remembered(v->sk);
	if (conn)
		/* unless the application has chosen since */
		return tp_cc_key(v->tp) == conn->cc_key ? conn : 0;
	v->in_force = known_in_force(v->tp);
	if (hands_off(v) != TP_WHY_UNSEEN)
		return 0;
	return remember_kept(v, 0, TP_CONN_SIDE_UNKNOWN);
}

/* Switches a connection under heavy loss; says whether it was switched. */
static __always_inline int switch_to_rescue(const struct visit *v, struct tp_conn *conn)
{
	if (!v->policy->rescue || !config()->rescue_cc[0] || tp_cc_is(v->tp, config()->rescue_cc)) {
		COUNT(thin_only);
		return 0;
	}
	conn->rescue_min_rtt_us = tp_valid_rtt_us(v->tp->rtt_min.s[0].v);
	if (!cfg.dry_run) {
		if (!set_algorithm(v->hands, config()->rescue_cc))
			return 0;
		conn->flags |= TP_CONN_RESCUED;
	}
	COUNT(rescues);
	conn->cc_key = tp_cc_key(v->tp);
	return 1;
}

static __always_inline void retransmitted(struct visit *v)
{
	struct tp_conn *conn;

	if (!tp_loss_is_heavy(v->tp->total_retrans, v->tp->data_segs_out, cfg.loss_min_segments,
			      cfg.loss_shift))
		return;
	conn = rescuable(v);
	if (!conn || (conn->flags & TP_CONN_LOSS_SEEN))
		return;
	conn->flags |= TP_CONN_LOSS_SEEN;
	if (cfg.rescue_thin && !cfg.dry_run)
		set_linear_timeouts(v->hands, 1);
	if (!switch_to_rescue(v, conn))
		return;
	conn->why = TP_WHY_RESCUED;
	v->path = find_path(v->key, &v->slot);
	if (!v->path)
		return;
	record_decision(v, bpf_ktime_get_coarse_ns(), conn->arm, TP_WHY_RESCUED, conn->flags);
	if (conn->arm < TP_MAX_ARMS)
		__sync_fetch_and_add(&arm_at(v->path, conn->arm)->rescued, 1);
}

#endif
