/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * choice_dist.h - the keys of the learner's choice distributions, how they are hashed, and how a
 * distribution is found in its bucket.  Pure functions: the daemon, the writer of distributions,
 * and the programs, their readers, compile the same text.
 *
 * A distribution is identified by a hash of 64 bits alone.  Each half is the hash of core/hash.h
 * with secrets of its own, over the six words of a key:
 *
 *   h(x) = (a[6] + sum of (a[i] + x[i+1]) * (a[i+1] + x[i]), i = 0, 2, 4) >> 32
 *
 * Both are strongly universal, and independent: two keys share all 64 bits with probability
 * 2^-64, even if an attacker chose them without the secrets.
 */
#ifndef TCPILOT_CORE_CHOICE_DIST_H
#define TCPILOT_CORE_CHOICE_DIST_H

#include "../abi/config.h"
#include "../abi/choices.h"
#include "bits.h"
#include "num.h"
#include "prefix.h"

/* The low half of a node's last word is its class. */
TP_INLINE __u32 tp_node_word(const struct tp_node_key *key)
{
	return key->class | (__u32)key->level << 16 | (__u32)key->policy << 24;
}

TP_INLINE __u32 tp_node_half(const __u64 a[TP_NODE_SECRETS], const struct tp_node_key *key)
{
	__u64 sum = a[6];

	sum += (a[0] + key->prefix[1]) * (a[1] + key->prefix[0]);
	sum += (a[2] + key->prefix[3]) * (a[3] + key->prefix[2]);
	sum += (a[4] + tp_node_word(key)) * (a[5] + key->domain);
	return sum >> 32;
}

/* Never the tag of an empty choice distribution, or of one being written. */
TP_INLINE __u64 tp_node_tag(const __u64 secrets[2][TP_NODE_SECRETS], const struct tp_node_key *key)
{
	__u64 tag = (__u64)tp_node_half(secrets[1], key) << 32 | tp_node_half(secrets[0], key);

	return tag > TP_CHOICE_DIST_WRITTEN ? tag : TP_CHOICE_DIST_WRITTEN + 1;
}

/* The number of a tag's bucket, by a product instead of a division (Lemire, "Fast Random
 * Integer Generation in an Interval", 2019): the number of buckets need not be a power of
 * two. */
TP_INLINE __u32 tp_choice_dist_bucket_of(__u64 tag, __u32 buckets)
{
	return (__u64)(__u32)tag * buckets >> 32;
}

/* The part of a path's domain for its namespace; 0: the namespace does not separate paths. */
TP_INLINE __u32 tp_domain(__u32 separation, int is_private, __u64 netns_cookie)
{
	__u32 by = separation & 3;

	return by == TP_SEPARATE_ALL || (by == TP_SEPARATE_PRIVATE && is_private)
		   ? (__u32)netns_cookie
		   : 0;
}

/* The part for the interface by which its connections leave; 0: it does not separate paths. */
TP_INLINE __u32 tp_egress_domain(__u16 egress)
{
	return egress * 0x9e3779b1; /* 2^32 / golden ratio: far from small cookies */
}

/* Replaces the address of a host behind NAT64 by its own (RFC 6052, section 2.1:
 * 64:ff9b::/96). */
TP_INLINE void tp_unwrap(__u32 addr[4])
{
	if (addr[0] != TP_BE32(0x0064ff9b) || addr[1] || addr[2])
		return;
	addr[0] = 0;
	addr[2] = TP_MAPPED;
}

/* The length in bits of the prefix of a level (path, group or site): of an IPv4 address's 32,
 * or of an IPv6 address's 128. */
TP_INLINE __u32 tp_level_bits(__u32 level, int is_ipv4, int is_local)
{
	if (is_ipv4)
		return 32 - 8 * level;
	if (is_local)
		return level == TP_LEVEL_PATH ? 128 : 80 - 16 * level;
	return 64 - 16 * level;
}

/* The key of the node at this level above a path.  of: the path's key with its whole address. */
TP_INLINE void tp_node_key_at(const struct tp_node_key *of, __u32 level, struct tp_node_key *key)
{
	int is_ipv4 = tp_is_ipv4(of->prefix);
	__u32 bits;

	*key = (struct tp_node_key){.level = (__u8)level, .policy = of->policy};
	if (level < TP_LEVEL_GLOBAL)
		key->class = of->class;
	if (level >= TP_LEVEL_CLASS)
		return; /* at these levels domains learn from each other */
	key->domain = of->domain;
	bits = tp_level_bits(level, is_ipv4, tp_is_private_ipv6(of->prefix));
	if (is_ipv4) {
		key->prefix[2] = TP_MAPPED;
		key->prefix[3] = of->prefix[3] & tp_mask_word(bits, 0);
		return;
	}
#pragma unroll
	for (int i = 0; i < 4; i++)
		key->prefix[i] = of->prefix[i] & tp_mask_word(bits, i);
}

/* The hash of a path without its class; never 0.  Once a queue is full, new clients get other
 * classes than those before, but still share the path's assignment.  place: with the whole
 * address. */
TP_INLINE __u32 tp_assignment_tag(const __u64 secrets[TP_NODE_SECRETS],
				  const struct tp_node_key *place)
{
	struct tp_node_key key = {.policy = place->policy, .domain = place->domain};

	if (tp_is_ipv4(place->prefix)) { /* its zeros save half of the work */
		key.prefix[2] = TP_MAPPED;
		key.prefix[3] = place->prefix[3];
		return tp_node_half(secrets, &key) | 1;
	}
	tp_node_key_at(place, TP_LEVEL_PATH, &key);
	key.class = 0;
	return tp_node_half(secrets, &key) | 1;
}

/* The key of epsilon-greedy's node: a host in private address space, and a group
 * of neighbours elsewhere, whatever the class.  of: as above. */
TP_INLINE void tp_costs_key(const struct tp_node_key *of, struct tp_node_key *key)
{
	tp_node_key_at(of, tp_is_private(of->prefix) ? TP_LEVEL_PATH : TP_LEVEL_GROUP, key);
	key->class = 0;
}

/* The assignment bucket of an address, by its group alone: no host is held out on one port and
 * steered on another.  Neighbouring prefixes differ by little, so with one secret in a thousand
 * their hashes differ in the upper bits only, and all would share a few buckets.  The xor brings
 * these bits down, and the product (the first of MurmurHash3's finalizer) spreads them; both can be
 * undone, so the hash stays strongly universal. */
TP_INLINE __u32 tp_assignment_bucket(const __u64 secrets[TP_NODE_SECRETS], const __u32 addr[4])
{
	struct tp_node_key of = {.prefix = {addr[0], addr[1], addr[2], addr[3]}}, group;
	__u32 half;

	tp_unwrap(of.prefix);
	tp_node_key_at(&of, TP_LEVEL_GROUP, &group);
	half = tp_node_half(secrets, &group);
	half = (half ^ half >> 16) * 0x85ebca6b;
	return half >> 16 & (TP_ASSIGNMENT_BUCKETS - 1);
}

/* The tag of a connection's distribution, to be found again by the next one on its path.
 *  It holds for connections of the same class, and as long as there is no new distribution,
 *  perhaps a nearer one. So both are added to it: with another class or number of choice
 *  distributions the difference is no distribution's tag. */
TP_INLINE __u64 tp_hint(__u32 class, __u64 dists_version)
{
	return ((__u64) class << 48 ^ dists_version) * 0x9e3779b97f4a7c15ULL;
}

/* The shares of a choice distribution, as read. */
struct tp_shares {
	__u64 upto[2]; /* as tp_choice_dist.upto, four in each */
	__u64 tag;     /* the choice distribution's */
	__u32 level;   /* TP_LEVEL_NONE: there was no choice distribution */
	__u32 blurred; /* a perhaps nearer choice distribution was being written */
};

union tp_choice_dist_words {
	struct tp_choice_dist dist;
	__u64 word[4]; /* tag, upto, upto, the rest */
};

/* Reads a choice distribution if it has this tag and nobody writes it meanwhile; says whether it
 * did.  The writer of a distribution takes its tag away first, and raises its version before it
 * puts the tag back. */
TP_INLINE int tp_read_choice_dist(const struct tp_choice_dist *dist, __u64 tag,
				  struct tp_shares *to)
{
	const volatile __u64 *word = ((const union tp_choice_dist_words *)dist)->word;
	union tp_choice_dist_words now;

	now.word[0] = word[0];
	if (now.word[0] != tag) {
		to->blurred |= now.word[0] == TP_CHOICE_DIST_WRITTEN;
		return 0;
	}
	now.word[3] = word[3];
	to->upto[0] = word[1];
	to->upto[1] = word[2];
	if (word[0] != tag || word[3] != now.word[3]) {
		to->blurred = 1;
		return 0;
	}
	to->tag = tag;
	to->level = now.dist.level;
	return 1;
}

/* The shares of a path without a choice distribution, for a learner that tries all arms from the
 * first connection on. */
TP_INLINE void tp_even_shares(__u32 arms, struct tp_shares *to)
{
	__u32 count = tp_bits(arms), upto = 0;
	union tp_choice_dist_words even = {};

#pragma unroll
	for (int i = 0; i < TP_MAX_ARMS; i++) {
		upto += arms >> i & 1;
		even.dist.upto[i] = (__u16)(upto * 0xffff / (count | !count));
	}
	to->upto[0] = even.word[1];
	to->upto[1] = even.word[2];
	to->level = TP_LEVEL_GLOBAL;
	to->blurred = 1; /* no choice distribution's: it leaves no hint */
}

/* The choice distribution of this tag in its bucket; says whether it is there. */
TP_INLINE int tp_find_choice_dist(const struct tp_choice_dist_bucket *bucket, __u64 tag,
				  struct tp_shares *to)
{
	for (int i = 0; i < TP_CHOICE_DIST_WAYS; i++)
		if (tp_read_choice_dist(&bucket->dist[i], tag, to))
			return 1;
	return 0;
}

#endif
