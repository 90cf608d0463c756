/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * identify.h - whose is a connection?  The policy it falls under (the first
 * rule that matches), its path, and whether it is to be left alone.
 *
 * Rules are scanned, not looked up: they match on five things at once and their
 * order decides.  That costs about ten instructions per rule, once at each end
 * of a connection; no rules cost nothing, since cfg is constant for the
 * verifier.
 */
#ifndef TCPILOT_PILOT_IDENTIFY_H
#define TCPILOT_PILOT_IDENTIFY_H

/* The socket's cgroup and its ancestors, nearest first. */
static __always_inline void cgroup_line(const struct tcp_sock *tp, __u64 ids[TP_CGROUP_DEPTH])
{
	const struct cgroup *cgrp = tp_sock_of(tp)->sk_cgrp_data.cgroup;

	for (int i = 0; i < TP_CGROUP_DEPTH; i++) {
		const struct cgroup_subsys_state *parent;

		if (!cgrp)
			return;
		ids[i] = cgrp->kn->id;
		parent = cgrp->self.parent;
		cgrp = parent ? parent->cgroup : 0;
	}
}

static __always_inline int is_among(const __u64 ids[TP_CGROUP_DEPTH], __u64 id)
{
	int found = !id;

#pragma unroll
	for (int i = 0; i < TP_CGROUP_DEPTH; i++)
		found |= ids[i] == id;
	return found;
}

struct match {
	__u64 cgroups[TP_CGROUP_DEPTH];
	__u32 netns_inum;
	__u16 local_port;
	__u16 remote_port;
};

static __always_inline int rule_matches(const struct tp_rule *r, const struct match *m,
					const __u32 remote[4])
{
	__u32 differs = 0;

	if (r->disabled)
		return 0;
#pragma unroll
	for (int i = 0; i < 4; i++)
		differs |= (remote[i] & r->mask[i]) ^ r->prefix[i];
	if (differs)
		return 0;
	if (r->netns_inum && r->netns_inum != m->netns_inum)
		return 0;
	if (r->local_port_first &&
	    (m->local_port < r->local_port_first || m->local_port > r->local_port_last))
		return 0;
	if (r->remote_port_first &&
	    (m->remote_port < r->remote_port_first || m->remote_port > r->remote_port_last))
		return 0;
	return !cfg.rules_use_cgroups || is_among(m->cgroups, r->cgroup_id);
}

static __always_inline __u8 first_match(const struct match *m, const __u32 remote[4])
{
	for (int i = 0; i < TP_MAX_RULES && i < cfg.rules; i++)
		if (rule_matches(&rules[i], m, remote))
			return rules[i].policy & (TP_MAX_POLICIES - 1);
	return 0;
}

static __always_inline __u8 find_policy(const struct tcp_sock *tp, const __u32 remote[4])
{
	struct match m = {};

	m.netns_inum = tp_common_of(tp)->skc_net.net->ns.inum;
	m.local_port = tp_local_port(tp);
	m.remote_port = tp_remote_port(tp);
	if (cfg.rules_use_cgroups)
		cgroup_line(tp, m.cgroups);
	return first_match(&m, remote);
}

/* Fills in the path's key; returns the policy, or 0 for loopback where that is
 * not ours. */
static __always_inline const struct tp_policy_config *
identify(const struct tcp_sock *tp, const __u32 remote[4], struct tp_path_key *key)
{
	const struct tp_policy_config *policy;
	__u8 p;

	if (!cfg.manage_loopback && tp_is_loopback(remote))
		return 0;
	p = cfg.rules ? find_policy(tp, remote) : 0;
	policy = &config()->policy[p];
	key->netns_cookie = tp_common_of(tp)->skc_net.net->net_cookie;
	key->policy = p;
	tp_path_prefix(policy, remote, key);
	return policy;
}

/*
 * Algorithms are told apart by the kernel's key; names are compared once, when
 * an algorithm is first seen in force.  What is known of a key: its arm in the
 * low byte (or TP_NO_ARM), and whether it is a default that may be replaced.
 */
#define KNOWN_DEFAULT 0x100

/* A function of its own, which the verifier checks once and not anew for each
 * way that leads to it. */
__noinline __u32 look_up_key(__u32 key)
{
	__u32 known = TP_NO_ARM;

#pragma unroll
	for (__u32 i = 0; i < TP_MAX_ARMS; i++)
		if (arm_key[i] == key)
			known = i;
#pragma unroll
	for (int i = 0; i < TP_MAX_DEFAULTS; i++)
		if (default_key[i] == key)
			known |= KNOWN_DEFAULT;
	return known;
}

/* Others may look a key up meanwhile.  So the order matters: who sees the arm sees
 * the default too, and who sees foreign_key sees both. */
static __always_inline void learn_key(const struct tcp_sock *tp, __u32 key)
{
	for (int i = 0; i < TP_MAX_DEFAULTS && i < cfg.defaults; i++)
		if (tp_cc_is(tp, config()->replace_defaults[i]))
			default_key[i] = key;
	asm volatile("" ::: "memory");
	for (int i = 0; i < TP_MAX_ARMS && i < cfg.arms; i++)
		if (tp_cc_is(tp, config()->arm[i]))
			arm_key[i] = key;
	__sync_lock_test_and_set(&foreign_key, key);
}

/* What is known of the algorithm in force. */
static __always_inline __u32 known_in_force(const struct tcp_sock *tp)
{
	__u32 key = tp_cc_key(tp);
	__u64 last = last_known;
	__u32 known, foreign;

	if ((__u32)(last >> 32) == key) /* mostly: it is the default */
		return (__u32)last;
	foreign = foreign_key;
	asm volatile("" ::: "memory");
	known = look_up_key(key);
	if ((__u8)known == TP_NO_ARM && foreign != key) {
		learn_key(tp, key);
		known = look_up_key(key);
	}
	last_known = (__u64)key << 32 | known;
	return known;
}

static __always_inline __u8 arm_in_force(const struct tcp_sock *tp)
{
	return (__u8)known_in_force(tp);
}

/* A reason to leave a connection alone, or TP_WHY_UNSEEN.  Only for one whose
 * algorithm the pilot has not changed; known: of that. */
static __always_inline __u8 hands_off(const struct tcp_sock *tp,
				      const struct tp_policy_config *policy, __u32 known)
{
	if (policy->leave_alone)
		return TP_WHY_EXCLUDED;
	if (tp_cc_was_set(tp))
		return TP_WHY_APPLICATION;
	if (tp_route_has_cc(tp))
		return TP_WHY_ROUTE;
	if (!(known & KNOWN_DEFAULT))
		return TP_WHY_ADMINISTRATOR;
	return TP_WHY_UNSEEN;
}

#endif
