/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * visit.h - the connection of an event: found once, and handed down from there.
 *
 * A visit is filled step by step, as far as an event needs it: the socket (begin_visit),
 * its policy and its path's key (identify), its path (find).  The key is separate
 * because its address is taken; the rest stays in registers.
 */
#ifndef TCPILOT_PILOT_VISIT_H
#define TCPILOT_PILOT_VISIT_H

#include "act.h"
#include "algorithm.h"
#include "rules.h"
#include "socket.h"
#include "state.h"
#include "tune/table.h"

struct visit {
	hands_t *hands; /* 0: the connection cannot be changed, only listed */
	struct bpf_sock *sk;
	const struct tcp_sock *tp;
	const struct tp_policy_config *policy; /* 0: it stays on this host, not ours */
	struct tp_path_key *key;	       /* 0: no tuning asks for it here */
	struct tp_path *path;		       /* 0: it has no path */
	__u32 slot;			       /* the path's number in the table */
	struct known in_force;
	__u8 flags;  /* enum tp_conn_flags */
	__u8 again;  /* its algorithm is our choice for the socket's connection before */
	__u8 synced; /* MPTCP has set its algorithm, to the default */
};

/* Begins a visit of a callback's socket; tp is 0 if there is none, or nothing is configured. */
static __always_inline struct visit begin_visit(hands_t *hands, struct tp_path_key *key)
{
	struct visit v = {.hands = hands, .key = key};

	v.sk = socket_in(hands);
	if (cfg.abi_version == TP_ABI_VERSION && v.sk)
		v.tp = bpf_skc_to_tcp_sock(v.sk);
	return v;
}

/* Finds the policy for a remote address, and fills in the path's key. */
static __always_inline void identify_at(struct visit *v, const __u32 remote[4], __u64 netns_cookie)
{
	__u8 p;

	if (!cfg.manage_loopback &&
	    (tp_is_loopback(remote) || tp_stays_on_host(v->tp) ||
	     tp_route_is_local(v->tp))) /* at a SYN only the route is known */
		return;
	p = cfg.rules ? find_policy(v->tp, remote) : 0;
	v->policy = &config()->policy[p];
	v->key->netns_cookie = netns_cookie;
	v->key->policy = p;
	v->key->egress = tp_link_of(v->tp, remote);
	tp_path_prefix(v->policy, remote, v->key);
}

static __always_inline void identify(struct visit *v)
{
	__u32 remote[4];

	tp_remote(v->sk, remote);
	identify_at(v, remote, netns_cookie_of(v->hands));
}

/* Finds the path of a connection that was opened before. */
static __always_inline void find(struct visit *v)
{
	identify(v);
	v->path = v->policy ? find_path(v->key, &v->slot) : 0;
}

/* A reason to leave a connection alone, or TP_WHY_UNSEEN.  Only for one whose
 * algorithm the pilot has not changed; in_force is known. */
static __always_inline __u8 hands_off(struct visit *v)
{
	if (v->policy->leave_alone)
		return TP_WHY_EXCLUDED;
	if (tp_cc_was_set(v->tp)) {
		if (!tp_is_default_of_mptcp(v->tp))
			return TP_WHY_APPLICATION;
		v->synced = 1;
	}
	if (tp_route_has_cc(v->tp))
		return TP_WHY_ROUTE;
	if (!v->in_force.is_default)
		return TP_WHY_ADMINISTRATOR;
	return TP_WHY_UNSEEN;
}

/* The first connection on a new path. */
static __always_inline void begin_path(const struct visit *v, __u64 now_ns)
{
	v->path->born_ns = v->path->updated_ns = now_ns;
	v->path->netns_inum = tp_common_of(v->tp)->skc_net.net->ns.inum;
}

#endif
