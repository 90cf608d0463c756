/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * shares.h - the shares of a new connection: its place in the learner's tree, the nearest choice
 * distribution above it, and the assignment that it shares with the open connections of its path.
 */
#ifndef TCPILOT_PILOT_SHARES_H
#define TCPILOT_PILOT_SHARES_H

#include "../core/atomic.h"
#include "../core/class.h"
#include "../core/draw.h"
#include "../core/choice_dist.h"
#include "socket.h"
#include "state.h"
#include "visit.h"

/* If the end of a connection was not seen, its assignment's count of open connections stays too
 * high. So an assignment that is about ten minutes old no longer counts. */
#define STALE_ASSIGNMENT (600 << (30 - TP_OPENED_SHIFT))

/* The interface by which a connection leaves the host, if its policy separates paths by that, or
 * its namespace, if another link may have another host of its remote address; else 0.  Apart from
 * that, an interface of another namespace is no way out of the host. */
static __always_inline __u16 egress_of(const struct visit *v, const __u32 remote[4])
{
	const struct dst_entry *dst;

	if (!tp_is_link_local(remote) && (!(v->policy->separation & TP_SEPARATE_EGRESS) ||
					  tp_netns_cookie(v->tp) != cfg.host_netns))
		return 0;
	dst = tp_sock_of(v->tp)->sk_dst_cache;
	return dst && dst->dev ? (__u16)dst->dev->ifindex : 0;
}

/* egress: of egress_of(), or as the connection start has it. */
static __always_inline void part_by_egress(struct tp_node_key *place, __u16 egress)
{
	place->domain += tp_egress_domain(egress);
}

/* Finds the policy and the domain of a connection whose address place->prefix has. */
static __always_inline void settle(struct visit *v, struct tp_node_key *place, __u64 netns_cookie,
				   int is_private)
{
	if (cfg.rules)
		place->policy = find_policy(v->tp, place->prefix);
	v->policy = &config()->policy[place->policy & (TP_MAX_POLICIES - 1)];
	if (cfg.tunes && v->key) {
		v->key->netns_cookie = netns_cookie;
		v->key->policy = place->policy;
		v->key->egress = tp_link_of(v->tp, place->prefix);
		tp_path_prefix(v->policy, place->prefix, v->key);
	}
	place->domain = tp_domain(v->policy->separation, is_private, netns_cookie);
}

/* Finds a connection's policy, and the rest of its place except the interface: a route may
 * change, so that only the start of an open connection has it.  place->prefix has its remote
 * address. */
static __always_inline void locate_at(struct visit *v, struct tp_node_key *place,
				      __u64 netns_cookie)
{
	__u32 bare[4];

	if (!cfg.manage_loopback && tp_is_loopback(place->prefix))
		return;
	__builtin_memcpy(bare, place->prefix, sizeof(bare));
	tp_unwrap(bare);
	settle(v, place, netns_cookie, tp_is_private(bare));
	tp_unwrap(place->prefix);
}

/* Finds a connection's policy, and its place: the key of its path's choice distribution with the
 * whole address, without class and interface.  No policy: loopback, and that is not ours. */
static __always_inline void locate(struct visit *v, struct tp_node_key *place)
{
	__u64 netns_cookie = netns_cookie_of(v->hands);

	if (v->sk->family != AF_INET) {
		tp_remote(v->sk, place->prefix);
		locate_at(v, place, netns_cookie);
		return;
	}
	/* the usual case: three words are known */
	place->prefix[2] = TP_MAPPED;
	place->prefix[3] = v->sk->dst_ip4;
	asm volatile("" ::: "memory"); /* a socket is read at fixed offsets only */
	if (!cfg.manage_loopback && tp_is_loopback_ipv4(place->prefix))
		return;
	settle(v, place, netns_cookie, tp_is_private_ipv4(place->prefix));
}

/* A function of its own: the verifier goes on with one outcome only.  Says whether the connection
 * is ours. */
__noinline int find_place(hands_t *hands, struct tp_node_key *place)
{
	struct visit v = begin_visit(hands, 0);

	if (!v.tp || !v.sk || !place)
		return 0;
	locate(&v, place);
	return v.policy != 0;
}

/* locate() for events after the start, which are few. */
static __always_inline void locate_again(struct visit *v, struct tp_node_key *place)
{
	if (find_place(v->hands, place))
		v->policy = &config()->policy[place->policy & (TP_MAX_POLICIES - 1)];
}

static __always_inline __u16 class_of(const struct visit *v, __u32 rtt_us)
{
	__u32 ecn = ecn_flags_of(v->hands);
	struct tp_traits t = {
	    .rtt_us = rtt_us,
	    .small_window = !BPF_CORE_READ_BITFIELD(v->tp, rx_opt.snd_wscale),
	    .ecn = (ecn & TCP_ECN_OK & ~(ecn >> 4)) | (ecn & TCP_ECN_ACCURATE) >> 3,
	    .interface = learner_status.wireless && tp_is_wireless(v->tp),
	    .accepted = !(v->flags & TP_CONN_ACTIVE),
	};

	return tp_class_of(&t);
}

/* The class of a connection's choice distributions.  epsilon-greedy does not distinguish
 * classes. */
static __always_inline __u16 choice_dist_class(__u16 class)
{
	return learns_here() ? 0 : class;
}

static __always_inline int find_choice_dist(__u64 tag, struct tp_shares *to)
{
	__u32 index = tp_choice_dist_bucket_of(tag, cfg.choice_dist_buckets);
	struct tp_choice_dist_bucket *bucket = bpf_map_lookup_elem(&rows, &index);

	return bucket && tp_find_choice_dist(bucket, tag, to);
}

static __always_inline int find_choice_dist_at(const struct tp_node_key *of, __u32 level,
					       struct tp_shares *to)
{
	struct tp_node_key key;

	tp_node_key_at(of, level, &key);
	return find_choice_dist(tp_node_tag(config()->node_secrets, &key), to);
}

/* The nearest choice distribution above a place, with its class; to->level says which.  A
 * function of its own: the verifier goes on with one outcome only. */
__noinline int nearest_choice_dist(const struct tp_node_key *place, struct tp_shares *to)
{
	__u64 levels = learner_status.levels;

	if (!place || !to)
		return 0;
#pragma unroll
	for (__u32 level = 0; level < TP_LEVELS; level++)
		if (levels >> level & 1 && find_choice_dist_at(place, level, to))
			return 1;
	to->level = TP_LEVEL_NONE;
	return 0;
}

/* Whether their writer's heartbeat is recent.  Our clock is a tick late.
 */
static __always_inline int choice_dists_are_valid(__u64 now_ns)
{
	__u64 heartbeat_ns;

	if (learns_here())
		return 1;
	heartbeat_ns = learner_status.heartbeat_ns;
	return heartbeat_ns && (__s64)(now_ns - heartbeat_ns) <= (__s64)TP_CHOICE_DISTS_STALE_NS;
}

static __always_inline __u32 assignment_tag(const struct tp_node_key *place)
{
	return tp_assignment_tag(config()->node_secrets[0], place);
}

static __always_inline struct tp_assignment *assignment_at(__u32 tag)
{
	__u32 index = tag >> 16;

	return bpf_map_lookup_elem(&draws, &index);
}

/* A connection asking for its path's assignment. */
struct asking {
	__u64 seed;	     /* of this connection alone */
	__u64 dists_version; /* of learner_status.dists_version, before it looked for its choice
			      * distribution
			      */
	__u32 tag;	     /* of its path */
	__u32 now;	     /* ns >> TP_OPENED_SHIFT */
	__u32 eligible;	     /* arms, as bits */
	__u16 bucket;	     /* of its address */
	__u16 class;
	__u8 in_force; /* its arm; TP_NO_ARM: none */
	__u8 pad[7];
};

/* What a connection was assigned. */
struct assigned {
	__u32 probability;
	__u32 arm; /* TP_NO_ARM: the default stays */
};

/* Whether the hint of the path's last connection leads to the choice distribution of this one. */
static __always_inline int hinted_choice_dist(const struct tp_assignment *assignment,
					      const struct asking *a, struct tp_shares *to)
{
	return assignment->tag == a->tag && assignment->hint && a->dists_version &&
	       find_choice_dist(assignment->hint - tp_hint(a->class, a->dists_version), to);
}

/* The path takes another one's slot. */
static __always_inline void take_slot(struct tp_assignment *assignment, const struct asking *a)
{
	assignment->tag =
	    0; /* nobody takes the old path's assignment bucket for that of the new one */
	asm volatile("" ::: "memory");
	assignment->bucket = a->bucket;
	assignment->hint = 0;
	assignment->arm = 0;
	assignment->live = 1;
	assignment->most = 1;
	asm volatile("" ::: "memory");
	assignment->tag = a->tag;
}

static __always_inline __u8 to_u8(__u32 count)
{
	return (__u8)tp_min(count, 255);
}

/* Counts a connection among the open ones of its path; says whether these are of the same epoch.
 * Else the caller begins a new one.  They overlap, so that their records together are one sample
 * for the learner. */
static __always_inline int join(struct tp_assignment *assignment, const struct asking *a)
{
	if (assignment->tag != a->tag) {
		take_slot(assignment, a);
		return 0;
	}
	if (a->now - assignment->since >= STALE_ASSIGNMENT) {
		assignment->live = 1;
		return 0;
	}
	__sync_fetch_and_add(&assignment->live, 1);
	if (assignment->live > assignment->most)
		assignment->most = to_u8(assignment->live);
	return assignment->live > 1 && tp_assignment_holds(assignment, a->tag, a->now);
}

/* A new epoch begins.  arm_plus_one: 0: none is drawn, since the path is held out. */
static __always_inline void begin_epoch(struct tp_assignment *assignment, __u32 now,
					__u32 arm_plus_one, __u32 probability)
{
	assignment->since = now;
	assignment->most = to_u8(assignment->live);
	assignment->probability = (__u16)probability;
	assignment->arm = (__u8)arm_plus_one;
}

static __always_inline void assign(struct tp_assignment *assignment, const struct asking *a,
				   const struct tp_shares *shares, struct assigned *to)
{
	__u32 random = tp_random(config()->node_secrets[1][TP_NODE_SECRETS - 1], a->seed);

	to->arm = tp_arm_at(shares->upto, tp_draw_of(random));
	to->probability = tp_probability(shares->upto, to->arm);
	begin_epoch(assignment, a->now, to->arm + 1, to->probability);
}

/* Draws from a choice distribution for a connection.  Those opened on its path meanwhile get the
 * same arm: the learner may rewrite the distribution meanwhile.  If the arm is not
 * eligible, the default stays. A function of its own: the verifier goes on with one outcome
 * only. */
__noinline int take_assignment(struct tp_assignment *assignment, const struct asking *a,
			       const struct tp_shares *shares, struct assigned *to)
{
	__u64 hint;

	if (!assignment || !a || !shares || !to)
		return 0;
	if (join(assignment, a) && assignment->arm) {
		to->arm = (assignment->arm - 1) & (TP_MAX_ARMS - 1);
		to->probability = assignment->probability;
	} else {
		assign(assignment, a, shares, to);
	}
	hint = shares->tag + tp_hint(a->class, a->dists_version);
	if (assignment->hint != hint && !shares->blurred)
		assignment->hint = hint;
	if (a->eligible >> to->arm & 1 && to->arm != a->in_force)
		return 0;
	if (to->arm != a->in_force || ~a->eligible & ((1U << cfg.arms) - 1))
		to->probability = tp_default_probability(shares->upto, a->eligible, a->in_force);
	to->arm = TP_NO_ARM;
	return 0;
}

/* How many connections of a path were open at a time; 0: it has lost its place. */
static __always_inline __u8 open_beside(__u32 tag)
{
	struct tp_assignment *assignment = assignment_at(tag);

	return assignment && assignment->tag == tag ? assignment->most : 0;
}

/* Says the same, and counts a connection as ended.  A function of its own, as above. */
__noinline int release_assignment(__u32 tag)
{
	struct tp_assignment *assignment = assignment_at(tag);

	if (!assignment || assignment->tag != tag)
		return 0;
	tp_decrement(&assignment->live);
	return assignment->most;
}

#endif
