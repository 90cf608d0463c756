/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * native_choice_dist.c - the functions for the learner's choice distributions that programs and
 * daemon share, as symbols: keys, tags, classes, assignments.  Nothing is computed here.
 */
#include <linux/types.h>
#include "abi/abi.h"
#include "core/class.h"
#include "core/draw.h"
#include "core/choice_dist.h"

void native_node_key_at(const struct tp_node_key *of, __u32 level, struct tp_node_key *key)
{
	tp_node_key_at(of, level, key);
}

void native_costs_key(const struct tp_node_key *of, struct tp_node_key *key)
{
	tp_costs_key(of, key);
}

__u64 native_node_tag(const __u64 secrets[2][TP_NODE_SECRETS], const struct tp_node_key *key)
{
	return tp_node_tag(secrets, key);
}

__u32 native_choice_dist_bucket(__u64 tag, __u32 buckets)
{
	return tp_choice_dist_bucket_of(tag, buckets);
}

__u32 native_assignment_tag(const __u64 secrets[TP_NODE_SECRETS], const struct tp_node_key *place)
{
	return tp_assignment_tag(secrets, place);
}

__u32 native_assignment_bucket(const __u64 secrets[TP_NODE_SECRETS], const __u32 addr[4])
{
	return tp_assignment_bucket(secrets, addr);
}

__u32 native_domain(__u32 separation, const __u32 addr[4], __u64 netns_cookie, __u16 egress)
{
	return tp_domain(separation, tp_is_private(addr), netns_cookie) + tp_egress_domain(egress);
}

void native_unwrap(__u32 addr[4])
{
	tp_unwrap(addr);
}

__u32 native_log2(__u32 x)
{
	return tp_log2(x);
}

__u16 native_class(__u32 rtt_us, __u8 small_window, __u8 ecn, __u8 interface, __u8 accepted)
{
	struct tp_traits t = {rtt_us, small_window, ecn, interface, accepted};

	return tp_class_of(&t);
}

__u32 native_draw_of(__u32 random)
{
	return tp_draw_of(random);
}

__u32 native_random(__u64 secret, __u64 seed)
{
	return tp_random(secret, seed);
}

__u32 native_arm_at(const __u64 upto[2], __u32 r)
{
	return tp_arm_at(upto, r);
}

__u32 native_probability(const __u64 upto[2], __u32 arm)
{
	return tp_probability(upto, arm);
}

__u32 native_default_probability(const __u64 upto[2], __u32 eligible, __u32 default_arm)
{
	return tp_default_probability(upto, eligible, default_arm);
}

int native_assignment_holds(const struct tp_assignment *assignment, __u32 tag, __u32 now)
{
	return tp_assignment_holds(assignment, tag, now);
}

int native_find_choice_dist(const struct tp_choice_dist_bucket *bucket, __u64 tag,
			    struct tp_shares *to)
{
	return tp_find_choice_dist(bucket, tag, to);
}

void native_even_shares(__u32 arms, struct tp_shares *to)
{
	tp_even_shares(arms, to);
}
