/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * choose.h - a connection is established: is it ours to touch, and which algorithm
 * does it get?  It is drawn by the nearest choice distribution, of either learner (decision 27).
 *
 * The choice is made here and not before the SYN because only now it is known whether
 * ECN was negotiated; no data has been sent yet.  Nothing is kept for a path, unless its policy
 * has a tuning on.
 */
#ifndef TCPILOT_PILOT_CHOOSE_H
#define TCPILOT_PILOT_CHOOSE_H

#include "../core/atomic.h"
#include "../core/draw.h"
#include "../core/eligible.h"
#include "act.h"
#include "connection.h"
#include "conn_starts.h"
#include "shares.h"
#include "trial.h"
#include "tune/table.h"
#include "visit.h"

/* Whether arms that need ECN may be chosen.  The handshake is the connection's own evidence of a
 * steady path: its variation is half of its only round trip (RFC 6298, section 2.2).  So an arm
 * stays eligible until the connection's end, when delayed ACKs have been measured, too. */
static __always_inline __u32 ecn_use(const struct visit *v, __u32 handshake_us)
{
	struct tp_net_measures m = {.min_rtt_us = handshake_us, .rttvar_us = handshake_us / 2};
	__u32 remote[4];

	if (!(v->tp->ecn_flags & TCP_ECN_ANY))
		return TP_ECN_NOT_NEGOTIATED;
	tp_remote_btf(v->tp, remote);
	m.wireless = tp_is_wireless(v->tp);
	return tp_ecn_use_of(v->policy, tp_is_private(remote), &m);
}

/* The arms that may be chosen here. */
static __always_inline __u32 eligible_arms(const struct visit *v, __u32 handshake_us)
{
	if (!cfg.ecn_arms)
		return v->policy->arms;
	return tp_eligible(v->policy, cfg.ecn_arms, ecn_use(v, handshake_us));
}

/* Draws from a choice distribution. */
static __always_inline __u8 draw_arm(const struct visit *v, struct tp_assignment *assignment,
				     struct asking *asks, const struct tp_shares *shares,
				     struct tp_conn_start *start)
{
	struct assigned assigned = {};

	start->level = shares->level;
	start->why = TP_WHY_DRAWN;
	if (cfg.dry_run)
		return TP_NO_ARM; /* it would keep its algorithm whatever is drawn */
	start->flags |= TP_CONN_ASSIGNED;
	asks->eligible = eligible_arms(v, start->rtt_us);
	if (cfg.ecn_arms && !asks->eligible)
		start->why = TP_WHY_NO_ARM;
	asks->in_force = v->in_force.arm;
	take_assignment(assignment, asks, shares, &assigned);
	start->probability = assigned.probability;
	return assigned.arm;
}

/* Sets an arm, and keeps the arm in force then. */
static __always_inline void set_arm(const struct visit *v, struct tp_conn_start *start, __u8 arm)
{
	if (set_algorithm(v->hands, config()->arm[tp_within(arm, TP_MAX_ARMS)]))
		start->flags |= TP_CONN_STEERED;
	else
		start->why = TP_WHY_SET_FAILED;
	start->arm = arm_in_force_if(v->tp, arm);
}

/* Draws an arm, unless the connection is held out or there is no choice distribution.  now_ns makes
 * its draw unlike that of another connection with the same ports. */
static __always_inline __u8 arm_for(const struct visit *v, const struct tp_node_key *place,
				    struct tp_conn_start *start, __u64 now_ns)
{
	struct asking asks = {.tag = start->path,
			      .now = start->opened,
			      .class = place->class,
			      .dists_version = learner_status.dists_version};
	struct tp_assignment *assignment = assignment_at(asks.tag);
	struct tp_shares shares = {};

	if (!assignment)
		return TP_NO_ARM;
	asks.seed = (__u64)start->tag << 32 ^ now_ns;
	asks.bucket = bucket_of(assignment, asks.tag, place->prefix);
	if (!v->again) /* if it is set, the socket has our algorithm already */
		start->trial = trial_in(asks.bucket);
	if (start->trial & TP_TRIAL_HELD_OUT) {
		start->why = TP_WHY_HELD_OUT;
		start->flags |= TP_CONN_HELD_OUT | TP_CONN_ASSIGNED;
		if (!join(assignment, &asks))
			begin_epoch(assignment, asks.now, 0, 0);
		return TP_NO_ARM;
	}
	if (!hinted_choice_dist(assignment, &asks, &shares) &&
	    !nearest_choice_dist(place, &shares)) {
		if (!learns_here() || cfg.learner.min_instances)
			return TP_NO_ARM;
		tp_even_shares(v->policy->arms, &shares);
	}
	return draw_arm(v, assignment, &asks, &shares, start);
}

static __always_inline void choose_arm(const struct visit *v, struct tp_node_key *place,
				       struct tp_conn_start *start, __u64 now_ns)
{
	__u8 arm;

	start->class = class_of(v, start->rtt_us);
	place->class = choice_dist_class(start->class);
	start->egress = egress_of(v, place->prefix);
	part_by_egress(place, start->egress);
	start->path = assignment_tag(place);
	start->why = TP_WHY_STALE;
	if (!choice_dists_are_valid(now_ns))
		return;
	start->why = TP_WHY_NO_CHOICE_DIST;
	if (!learns_here() && !learner_status.levels && !learner_status.trials)
		return;
	arm = arm_for(v, place, start, now_ns);
	if (arm < TP_MAX_ARMS)
		set_arm(v, start, arm);
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

static __always_inline __u8 take_up(struct visit *v, struct tp_node_key *place)
{
	__u64 now_ns = coarse_ns();
	struct tp_conn_start start = {
	    .tag = tag_of(v->tp),
	    .opened = now_ns >> TP_OPENED_SHIFT,
	    .rtt_us = srtt_us_of(v->hands),
	    .probability = TP_CERTAIN,
	    .arm = v->in_force.arm,
	    .level = TP_LEVEL_NONE,
	    .flags = v->flags | (cfg.dry_run ? TP_CONN_DRY_RUN : 0) |
		     (v->again || v->synced ? TP_CONN_STEERED : 0),
	    .policy = place->policy,
	};

	choose_arm(v, place, &start, now_ns);
	keep_conn_start(&start);
	open_tuned_path(v, now_ns);
	if (start.flags & TP_CONN_HELD_OUT)
		v->path = 0; /* the path has counted it, but does not tune it */
	if (subscribe(v->hands, OUR_CALLBACKS))
		COUNT(trouble[TP_TROUBLE_CB_FLAGS]);
	return start.why;
}

/* Whether both ends are on this host.  Over loopback the answer to a SYN is there before connect()
 * has returned, and then the socket does not note its device: only the packet shows it.  Devices
 * that number their queues need no look at the packet. */
static __always_inline int stays_here(const struct visit *v)
{
	if (cfg.manage_loopback)
		return 0;
	if (tp_stays_on_host(v->tp))
		return 1;
	return v->flags & TP_CONN_ACTIVE && v->sk->rx_queue_mapping < 0 && !tp_came_by(v->tp) &&
	       came_by_loopback(v->hands);
}

/* Leaves the path in the visit if the connection is ours, and its policy has a tuning on. */
static __always_inline void established(struct visit *v)
{
	struct tp_node_key place = {};
	__u8 why = TP_WHY_LOOPBACK;

	locate(v, &place);
	if (v->policy && stays_here(v))
		v->policy = 0;
	if (v->policy) {
		v->in_force = known_in_force(v->tp);
		why = hands_off(v);
		if (why == TP_WHY_APPLICATION && is_left_over(v)) {
			v->again = 1;
			why = tp_route_has_cc(v->tp) ? TP_WHY_ROUTE : TP_WHY_UNSEEN;
		}
		if (why == TP_WHY_UNSEEN)
			why = take_up(v, &place);
	}
	COUNT(connections[tp_within(why, TP_WHY_SLOTS)]);
}

#endif
