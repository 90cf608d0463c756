/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * rules.h - the policy of a connection: that of the first matching rule.
 *
 * Rules are scanned, not looked up: they match on five things at once and their
 * order decides.  That costs about ten instructions per rule, once at each end of a
 * connection.  No rules cost nothing, since cfg is constant for the verifier.
 */
#ifndef TCPILOT_PILOT_RULES_H
#define TCPILOT_PILOT_RULES_H

#include "../core/prefix.h"
#include "socket.h"
#include "state.h"

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

/* The properties matched by rules.  remote: as in the key of a path. */
struct subject {
	__u32 remote[4];
	__u64 cgroups[TP_CGROUP_DEPTH];
	__u32 netns_inum;
	__u16 local_port;
	__u16 remote_port;
};

/* A function of its own: the verifier checks the comparisons only once. */
__noinline int is_within(const struct subject *m, __u64 cgroup_id)
{
	return m ? is_among(m->cgroups, cgroup_id) : 0;
}

/* Whether it is in the rule's cgroup, or in an earlier cgroup of the same name. */
static __always_inline int is_in_cgroup(const struct tp_rule *r, const struct subject *m)
{
	if (is_within(m, r->cgroup_id))
		return 1;
	if (!r->former_cgroup_id)
		return 0;
	if (is_within(m, r->former_cgroup_id))
		return 1;
	for (int i = 0; i < TP_OLDER_CGROUPS && r->older_cgroup_ids[i]; i++)
		if (is_within(m, r->older_cgroup_ids[i]))
			return 1;
	return 0;
}

static __always_inline int rule_matches(const struct tp_rule *r, const struct subject *m)
{
	__u32 differs = 0;

	if (r->disabled)
		return 0;
#pragma unroll
	for (int i = 0; i < 4; i++)
		differs |= (m->remote[i] & r->mask[i]) ^ r->prefix[i];
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
	return !cfg.rules_use_cgroups || is_in_cgroup(r, m);
}

/* A function of its own, so that the verifier follows the branches of the rules only once. */
__noinline int first_match(const struct subject *m)
{
	if (!m)
		return 0;
	for (int i = 0; i < TP_MAX_RULES && i < cfg.rules; i++)
		if (rule_matches(&rules[i], m))
			return rules[i].policy & (TP_MAX_POLICIES - 1);
	return 0;
}

static __always_inline __u8 find_policy(const struct tcp_sock *tp, const __u32 remote[4])
{
	struct subject m = {};

	__builtin_memcpy(m.remote, remote, sizeof(m.remote));
	m.netns_inum = tp_common_of(tp)->skc_net.net->ns.inum;
	m.local_port = tp_local_port(tp);
	m.remote_port = tp_remote_port(tp);
	if (cfg.rules_use_cgroups)
		cgroup_line(tp, m.cgroups);
	return first_match(&m) & (TP_MAX_POLICIES - 1);
}

#endif
