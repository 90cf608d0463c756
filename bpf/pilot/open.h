/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * open.h - a connection is established: is it ours to touch, and which algorithm
 * does it get?
 *
 * The choice is made here and not before the SYN because only now it is known whether
 * ECN was negotiated; no data has been sent yet.
 */
#ifndef TCPILOT_PILOT_OPEN_H
#define TCPILOT_PILOT_OPEN_H

#include "../core/bits.h"
#include "../core/eligible.h"
#include "../core/learner.h"
#include "../core/window.h"
#include "act.h"
#include "connection.h"
#include "table.h"
#include "visit.h"

/* A function of its own, so that the verifier follows its branches only once. */
__noinline int draw(struct tp_learner *mem, __u32 eligible, struct tp_choice *to)
{
	__u32 random = 1; /* a single arm needs no draw */

	if (!mem || !to)
		return 0;
	if (eligible & (eligible - 1))
		random = bpf_get_prandom_u32();
	*to = learner_choose(&config()->learner, mem, eligible, random);
	return 0;
}

/* Whether arms that need ECN may be chosen.  The handshake is the connection's own evidence of a
 * steady path: its variation is half of its only round trip (RFC 6298, section 2.2). */
static __always_inline __u32 ecn_use(const struct visit *v, __u32 min_rtt_us)
{
	struct tp_net_measures m = {.min_rtt_us = min_rtt_us, .rttvar_us = v->tp->mdev_us >> 2};
	__u32 remote[4];

	if (!(v->tp->ecn_flags & TCP_ECN_ANY))
		return TP_ECN_NOT_NEGOTIATED;
	tp_remote_btf(v->tp, remote);
	m.wireless = tp_is_wireless(v->tp);
	return tp_ecn_use_of(v->policy, tp_is_private(remote), &m);
}

static __always_inline struct tp_choice choose(const struct visit *v)
{
	struct tp_choice choice = {.arm = TP_NO_ARM, .why = TP_WHY_NO_ARM};
	__u32 eligible = v->policy->arms;

	if (cfg.ecn_arms) {
		v->path->ecn = (__u8)ecn_use(v, tp_window_min(&v->path->min_rtt_us));
		eligible = tp_eligible(v->policy, cfg.ecn_arms, v->path->ecn);
	}
	draw(&v->path->learner, eligible, &choice);
	return choice;
}

/* Sets an arm, and returns the arm that is in force then, which will be charged. */
static __always_inline __u8 put_in_force(const struct visit *v, struct tp_conn *conn, __u8 wanted)
{
	if (!set_algorithm(v->hands, config()->arm[tp_within(wanted, TP_MAX_ARMS)]))
		conn->why = TP_WHY_SET_FAILED;
	conn->arm = arm_in_force(v->tp);
	conn->cc_key = tp_cc_key(v->tp);
	conn->open = 1;
	if (conn->why != TP_WHY_SET_FAILED)
		remember(v->sk, conn);
	return conn->arm;
}

/* Draws an arm, sets it if it is not in force already, and records that.  Returns the arm
 * in force and the reason. */
static __always_inline struct tp_choice steer(const struct visit *v)
{
	struct tp_choice choice = choose(v), result = {.arm = v->in_force.arm, .why = choice.why};
	__u64 now_ns = bpf_ktime_get_coarse_ns();

	if (choice.arm < TP_MAX_ARMS && choice.arm != result.arm && !cfg.dry_run) {
		struct tp_conn conn = {.path_born_ns = v->path->born_ns,
				       .opened_ns = now_ns,
				       .why = choice.why,
				       .flags = v->flags};

		result.arm = put_in_force(v, &conn, choice.arm);
		result.why = conn.why;
	}
	record_decision(v, now_ns, cfg.dry_run ? choice.arm : result.arm, result.why, v->flags);
	return result;
}

static __always_inline __u8 take_up(struct visit *v)
{
	struct tp_choice got = {.arm = v->in_force.arm, .why = TP_WHY_FEW};

	v->path = open_path(v->key, &v->slot);
	if (!v->path)
		return TP_WHY_NO_ARM;
	if (!v->path->born_ns)
		begin_path(v, bpf_ktime_get_coarse_ns());
	if (learner_is_ready(&config()->learner, &v->path->learner))
		got = steer(v);
	__sync_fetch_and_add(&v->path->live_flows, 1);
	__sync_fetch_and_add(&v->path->connections, 1);
	learner_chosen(&config()->learner, &v->path->learner, got.arm, got.why);
	if (subscribe(v->hands, OUR_CALLBACKS))
		COUNT(trouble[TP_TROUBLE_CB_FLAGS]);
	if (v->again)
		remember_kept(v, v->path->born_ns, v->flags); /* unless it was set anew */
	return got.why;
}

/* Leaves the path in the visit if the connection is ours. */
static __always_inline void established(struct visit *v)
{
	__u8 why = TP_WHY_LOOPBACK;

	identify(v);
	if (v->policy) {
		v->in_force = known_in_force(v->tp);
		why = hands_off(v);
		if (why == TP_WHY_APPLICATION && is_left_over(v)) {
			v->again = 1;
			why = tp_route_has_cc(v->tp) ? TP_WHY_ROUTE : TP_WHY_UNSEEN;
		}
		if (why == TP_WHY_UNSEEN)
			why = take_up(v);
	}
	COUNT(connections[tp_within(why, TP_WHY_SLOTS)]);
}

#endif
