/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * shares.h - the shares of a new connection: its place in the learner's tree, the nearest row
 * above it, and the draw that it shares with the open connections of its path.
 */
#ifndef TCPILOT_PILOT_SHARES_H
#define TCPILOT_PILOT_SHARES_H

#include "../core/atomic.h"
#include "../core/class.h"
#include "../core/draw.h"
#include "../core/rows.h"
#include "socket.h"
#include "state.h"
#include "visit.h"

/* If the end of a connection was not seen, its draw's count of open connections stays too high.
 * So a draw that is about ten minutes old no longer counts. */
#define STALE_DRAW (600 << (30 - TP_OPENED_SHIFT))

/* The interface by which a connection leaves the host, if its policy separates paths by that;
 * else 0.  An interface of another namespace is no way out of the host. */
static __always_inline __u16 egress_of(const struct visit *v)
{
	const struct dst_entry *dst;

	if (!(v->policy->separation & TP_SEPARATE_EGRESS) ||
	    tp_netns_cookie(v->tp) != cfg.host_netns)
		return 0;
	dst = tp_sock_of(v->tp)->sk_dst_cache;
	return dst && dst->dev ? (__u16)dst->dev->ifindex : 0;
}

/* egress: of egress_of(), or as the note has it. */
static __always_inline void part_by_egress(struct tp_row_key *place, __u16 egress)
{
	place->domain += tp_egress_domain(egress);
}

/* Finds the policy and the domain of a connection whose address place->prefix has. */
static __always_inline void settle(struct visit *v, struct tp_row_key *place, __u64 netns_cookie,
				   int is_private)
{
	if (cfg.rules)
		place->policy = find_policy(v->tp, place->prefix);
	v->policy = &config()->policy[place->policy & (TP_MAX_POLICIES - 1)];
	if (cfg.tunes && v->key) {
		v->key->netns_cookie = netns_cookie;
		v->key->policy = place->policy;
		tp_path_prefix(v->policy, place->prefix, v->key);
	}
	place->domain = tp_domain(v->policy->separation, is_private, netns_cookie);
}

/* Finds a connection's policy, and the rest of its place except the interface: a route may
 * change, so that only the note of an open connection has it.  place->prefix has its remote
 * address. */
static __always_inline void locate_at(struct visit *v, struct tp_row_key *place, __u64 netns_cookie)
{
	__u32 bare[4];

	if (!cfg.manage_loopback && tp_is_loopback(place->prefix))
		return;
	__builtin_memcpy(bare, place->prefix, sizeof(bare));
	tp_unwrap(bare);
	settle(v, place, netns_cookie, tp_is_private(bare));
	tp_unwrap(place->prefix);
}

/* Finds a connection's policy, and its place: the key of its path's row with the whole address,
 * without class and interface.  No policy: loopback, and that is not ours. */
static __always_inline void locate(struct visit *v, struct tp_row_key *place)
{
	v->netns_cookie = netns_cookie_of(v->hands);
	if (v->sk->family != AF_INET) {
		tp_remote(v->sk, place->prefix);
		locate_at(v, place, v->netns_cookie);
		return;
	}
	/* the usual case, in which three words are known */
	place->prefix[2] = TP_MAPPED;
	place->prefix[3] = v->sk->dst_ip4;
	asm volatile("" ::: "memory"); /* a socket is read at fixed offsets only */
	if (!cfg.manage_loopback && tp_is_loopback_ipv4(place->prefix))
		return;
	settle(v, place, v->netns_cookie, tp_is_private_ipv4(place->prefix));
}

static __always_inline __u16 class_of(const struct visit *v, __u32 rtt_us)
{
	__u32 ecn = ecn_flags_of(v->hands);
	struct tp_traits t = {
	    .rtt_us = rtt_us,
	    .small_window = !BPF_CORE_READ_BITFIELD(v->tp, rx_opt.snd_wscale),
	    .ecn = (ecn & TCP_ECN_OK & ~(ecn >> 4)) | (ecn & TCP_ECN_ACCURATE) >> 3,
	    .interface = pulse.wireless && tp_is_wireless(v->tp),
	    .accepted = !(v->flags & TP_CONN_ACTIVE),
	};

	return tp_class_of(&t);
}

/* The class of a connection's rows.  epsilon-greedy does not distinguish classes. */
static __always_inline __u16 row_class(__u16 class)
{
	return learns_here() ? 0 : class;
}

static __always_inline int find_row(__u64 tag, struct tp_shares *to)
{
	__u32 index = tp_row_bucket_of(tag, cfg.row_buckets);
	struct tp_row_bucket *bucket = bpf_map_lookup_elem(&rows, &index);

	return bucket && tp_find_row(bucket, tag, to);
}

static __always_inline int find_row_at(const struct tp_row_key *of, __u32 level,
				       struct tp_shares *to)
{
	struct tp_row_key key;

	tp_row_key_at(of, level, &key);
	return find_row(tp_row_tag(config()->row_secrets, &key), to);
}

/* The nearest row above a place, with its class; to->level says which.  It is a function of its
 * own, so that the verifier goes on with one outcome only. */
__noinline int nearest_row(const struct tp_row_key *place, struct tp_shares *to)
{
	__u64 levels = pulse.levels;

	if (!place || !to)
		return 0;
#pragma unroll
	for (__u32 level = 0; level < TP_LEVELS; level++)
		if (levels >> level & 1 && find_row_at(place, level, to))
			return 1;
	to->level = TP_LEVEL_NONE;
	return 0;
}

/* Whether their writer has shown lately that it is alive.  The clock that we read is a tick late.
 */
static __always_inline int rows_are_valid(__u64 now_ns)
{
	__u64 beat_ns;

	if (learns_here())
		return 1;
	beat_ns = pulse.beat_ns;
	return beat_ns && (__s64)(now_ns - beat_ns) <= (__s64)TP_ROWS_VOID_NS;
}

static __always_inline __u32 draw_tag(const struct tp_row_key *place)
{
	return tp_draw_tag(config()->row_secrets[0], place);
}

static __always_inline struct tp_draw *draw_at(__u32 tag)
{
	__u32 index = tag >> 16;

	return bpf_map_lookup_elem(&draws, &index);
}

/* A connection that asks for its path's draw. */
struct asking {
	__u64 seed;	/* of this connection alone */
	__u64 rows;	/* of pulse.rows, before it looked for its row */
	__u32 tag;	/* of its path */
	__u32 now;	/* ns >> TP_OPENED_SHIFT */
	__u32 eligible; /* arms, as bits */
	__u16 cell;	/* of its address */
	__u16 class;
	__u8 in_force; /* its arm; TP_NO_ARM: none */
	__u8 pad[7];
};

/* The result of a draw. */
struct drawn {
	__u32 probability;
	__u32 arm; /* TP_NO_ARM: the default stays */
};

/* Whether the hint of the path's last connection leads to the row of this one. */
static __always_inline int hinted_row(const struct tp_draw *draw, const struct asking *a,
				      struct tp_shares *to)
{
	return draw->tag == a->tag && draw->hint && a->rows &&
	       find_row(draw->hint - tp_hint(a->class, a->rows), to);
}

/* The path takes the slot, which was another's. */
static __always_inline void take_slot(struct tp_draw *draw, const struct asking *a)
{
	draw->tag = 0; /* nobody takes the old path's cell for that of the new one */
	asm volatile("" ::: "memory");
	draw->cell = a->cell;
	draw->hint = 0;
	draw->arm = 0;
	draw->live = 1;
	asm volatile("" ::: "memory");
	draw->tag = a->tag;
}

/* Joins the open connections of its path if they have a draw; says whether they do.  Else the
 * caller draws anew. */
static __always_inline int join(struct tp_draw *draw, const struct asking *a)
{
	if (draw->tag != a->tag) {
		take_slot(draw, a);
		return 0;
	}
	if (a->now - draw->since >= STALE_DRAW) {
		draw->live = 1;
		return 0;
	}
	__sync_fetch_and_add(&draw->live, 1);
	return draw->live > 1 && draw->arm && tp_draw_holds(draw, a->tag, a->now);
}

static __always_inline void draw_anew(struct tp_draw *draw, const struct asking *a,
				      const struct tp_shares *shares, struct drawn *to)
{
	__u32 random = tp_random(config()->row_secrets[1][TP_ROW_SECRETS - 1], a->seed);

	to->arm = tp_arm_at(shares->upto, tp_draw_of(random));
	to->probability = tp_probability(shares->upto, to->arm);
	draw->since = a->now;
	draw->probability = to->probability;
	draw->arm = to->arm + 1;
}

/* Draws from a row for a connection.  Those of its path that open while it is open get the same
 * arm: the learner may rewrite the row meanwhile.  If the arm is not eligible, the default stays.
 * It is a function of its own, so that the verifier goes on with one outcome only. */
__noinline int take_draw(struct tp_draw *draw, const struct asking *a,
			 const struct tp_shares *shares, struct drawn *to)
{
	__u64 hint;

	if (!draw || !a || !shares || !to)
		return 0;
	if (join(draw, a)) {
		to->arm = (draw->arm - 1) & (TP_MAX_ARMS - 1);
		to->probability = draw->probability;
	} else {
		draw_anew(draw, a, shares, to);
	}
	hint = shares->tag + tp_hint(a->class, a->rows);
	if (draw->hint != hint && !shares->blurred)
		draw->hint = hint;
	if (a->eligible >> to->arm & 1 && to->arm != a->in_force)
		return 0;
	if (to->arm != a->in_force || ~a->eligible & ((1U << cfg.arms) - 1))
		to->probability = tp_default_probability(shares->upto, a->eligible, a->in_force);
	to->arm = TP_NO_ARM;
	return 0;
}

static __always_inline void release_draw(__u32 tag)
{
	struct tp_draw *draw = draw_at(tag);

	if (draw && draw->tag == tag)
		tp_decrement(&draw->live);
}

#endif
