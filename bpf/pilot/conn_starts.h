/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * conn_starts.h - starts of open connections, for the parts of their records unknown to the
 * socket at its end.  Only with the learner in the daemon (decision 18).
 *
 * The key of a connection is the kernel's own hash of its addresses and ports.  The hash has
 * a secret, so that nobody can aim at a bucket.  One pair of open connections in 2^32 shares it.
 */
#ifndef TCPILOT_PILOT_CONN_STARTS_H
#define TCPILOT_PILOT_CONN_STARTS_H

#include "../core/bits.h"
#include "algorithm.h"
#include "socket.h"
#include "state.h"

static __always_inline __u32 tag_of(const struct tcp_sock *tp)
{
	__u32 hash = tp_common_of(tp)->skc_hash;

	return hash | !hash;
}

static __always_inline struct tp_conn_start_bucket *conn_starts_at(__u32 tag)
{
	__u32 index = tag & (cfg.conn_start_buckets - 1);

	return bpf_map_lookup_elem(&openings, &index);
}

/* The position of the connection start with this tag; TP_CONN_START_WAYS: there is none. */
static __always_inline __u32 way_of(const struct tp_conn_start_bucket *bucket, __u32 tag)
{
	for (__u32 i = 0; i < TP_CONN_START_WAYS; i++)
		if (bucket->way[i].tag == tag)
			return i;
	return TP_CONN_START_WAYS;
}

/* The position for a new connection start: that of its own tag, left by a connection that ended
 * unseen, or an empty one, or else that of the oldest. */
static __always_inline __u32 way_for(const struct tp_conn_start_bucket *bucket, __u32 tag,
				     __u32 now)
{
	__u32 best = 0, best_age = 0;

	for (__u32 i = 0; i < TP_CONN_START_WAYS; i++) {
		const struct tp_conn_start *start = &bucket->way[i];
		__u32 age = now - start->opened;

		if (!start->tag || start->tag == tag)
			return i;
		if (age > best_age) {
			best = i;
			best_age = age;
		}
	}
	return best;
}

/* The connection start with this tag, in place; 0: there is none. */
static __always_inline struct tp_conn_start *conn_start_of(__u32 tag)
{
	struct tp_conn_start_bucket *bucket = conn_starts_at(tag);
	__u32 way = bucket ? way_of(bucket, tag) : TP_CONN_START_WAYS;

	return bucket && way < TP_CONN_START_WAYS ? &bucket->way[tp_within(way, TP_CONN_START_WAYS)]
						  : 0;
}

static __always_inline void keep_conn_start(const struct tp_conn_start *start)
{
	struct tp_conn_start_bucket *bucket = conn_starts_at(start->tag);

	/* It was filled in the stack's memory: kept in registers, its fields would be spilled one
	 * by one. */
	asm volatile("" : : "r"(start) : "memory");
	if (bucket)
		bucket->way[tp_within(way_for(bucket, start->tag, start->opened),
				      TP_CONN_START_WAYS)] = *start;
}

/* The next two are functions of their own: the verifier follows their branches only once. */

/* Reads a connection start; says whether it was there. */
__noinline int find_conn_start(__u32 tag, struct tp_conn_start *to)
{
	struct tp_conn_start *start = conn_start_of(tag);

	if (!start || !to)
		return 0;
	*to = *start;
	return to->tag == tag; /* another connection may have taken the place meanwhile */
}

/* When the connection was opened. */
static __always_inline __u64 opened_ns_of(const struct tp_conn_start *start, __u64 now_ns)
{
	__u32 age = (__u32)(now_ns >> TP_OPENED_SHIFT) - start->opened;

	return now_ns - ((__u64)age << TP_OPENED_SHIFT);
}

/* The connection was moved to another algorithm while it was open: from here on that is its
 * arm.  flags: enum tp_conn_flags to add. */
__noinline int change_conn_start(__u32 tag, __u32 arm, __u32 why, __u32 flags)
{
	struct tp_conn_start *start = conn_start_of(tag);

	if (!start)
		return 0;
	start->arm = (__u8)arm;
	start->why = (__u8)why;
	start->flags |= (__u8)flags;
	return 0;
}

/* Whether the application has chosen since the connection start was written. */
static __always_inline int is_foreign_with(const struct tcp_sock *tp,
					   const struct tp_conn_start *start, __u8 in_force)
{
	if (in_force != start->arm)
		return 1;
	return in_force >= TP_MAX_ARMS && tp_cc_was_set(tp) && !(start->flags & TP_CONN_STEERED);
}

static __always_inline int is_foreign(const struct tcp_sock *tp, const struct tp_conn_start *start)
{
	return is_foreign_with(tp, start, arm_in_force(tp));
}

#endif
