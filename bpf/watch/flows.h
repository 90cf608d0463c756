/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * flows.h - the table of flows: bounded; the least recently seen flow gives way.
 *
 * Two arrays, and not the kernel's LRU hash, because each packet is looked up twice, and that
 * was the largest part of its cost: a call, Jenkins' hash, and a list each time.
 *
 *  - `flows` has a place for each flow, with everything known of it.  User space maps it.
 *  - `flow_buckets` finds the place by the flow's key.  A bucket has eight ways, and there are
 *    three ways or more for each place, so a bucket is rarely full.
 *
 * A new flow takes the next free place in turn.  If none of the next sixteen is free, the
 * least recently seen flow gives way.
 *
 * Nothing is locked.  A place is taken by a compare-and-swap of its id.  A flow may be replaced
 * under a running program's hands, and catch a stray write, as with the kernel's LRU hash.
 */
#ifndef TCPILOT_WATCH_FLOWS_H
#define TCPILOT_WATCH_FLOWS_H

#include "parse.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 16384); /* the loader sets it */
	__type(key, __u32);
	__type(value, struct tp_watch_flow);
} flows SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE); /* for whole cache lines */
	__uint(max_entries, 8192);	   /* the loader sets it */
	__type(key, __u32);
	__type(value, struct tp_flow_bucket);
} flow_buckets SEC(".maps");

/* For the verifier it is constant.  For a host's compiler it would be, too, before it is known. */
#ifdef __bpf__
const volatile struct tp_watch_config cfg;
#else
struct tp_watch_config cfg;
#endif
struct tp_watch_link link;
__u32 last_id;

/* So many places are looked at for a new flow. */
#define TP_PLACES_TRIED 16
#define TP_NO_PLACE (~0U)

/* The hash of bpf/core/hash.h over the words of a key.  IPv4 has few of them: the others are
 * the same in each address. */
static __always_inline __u32 tp_hash_flow(const struct tp_watch_key *key)
{
	const __u32 *from = key->source, *to = key->destination;
	const tp_word *words = (const tp_word *)key;
	const volatile __u64 *s = cfg.secrets;
	__u64 sum = s[10];

	sum += (s[0] + to[3]) * (s[1] + from[3]);
	sum += (s[2] + (words[4] >> 32)) * (s[3] + (__u32)words[4]);
	if (words[0]) {
		sum += (s[4] + from[1]) * (s[5] + from[0]);
		sum += (s[6] + to[1]) * (s[7] + to[0]);
		sum += (s[8] + to[2]) * (s[9] + from[2]);
	}
	return sum >> 32;
}

static __always_inline struct tp_flow_bucket *tp_bucket_of(__u32 hash)
{
	__u32 number = hash & (cfg.buckets - 1);

	return bpf_map_lookup_elem(&flow_buckets, &number);
}

/* The rest of the hash; 0 is an empty way. */
static __always_inline __u32 tp_tag_of(__u32 hash)
{
	return hash | 1;
}

/* Whether a place has the flow of this key. */
static __always_inline int tp_is_of(const struct tp_watch_flow *flow,
				    const struct tp_watch_key *key)
{
	const tp_word *a = (const tp_word *)&flow->key, *b = (const tp_word *)key;

	return flow->id && a[1] == b[1] && a[3] == b[3] && a[4] == b[4] && a[0] == b[0] &&
	       a[2] == b[2];
}

/* The same for several flows with one tag: rarely needed. */
__noinline __u32 tp_search(struct tp_flow_bucket *bucket, __u32 tag, const struct tp_watch_key *key)
{
	if (!bucket || !key)
		return TP_NO_PLACE;
	for (__u32 way = 0; way < TP_FLOW_WAYS; way++) {
		__u32 place = bucket->place[way];
		struct tp_watch_flow *flow;

		if (bucket->tag[way] != tag)
			continue;
		flow = bpf_map_lookup_elem(&flows, &place);
		if (flow && tp_is_of(flow, key))
			return place;
	}
	return TP_NO_PLACE;
}

/* The flow of a key; 0: it is not in the table. */
static __always_inline struct tp_watch_flow *tp_find_flow(const struct tp_watch_key *key)
{
	__u32 hash = tp_hash_flow(key), tag = tp_tag_of(hash), place = TP_NO_PLACE;
	struct tp_flow_bucket *bucket = tp_bucket_of(hash);
	struct tp_watch_flow *flow;

	if (!bucket)
		return 0;
#pragma unroll
	for (__u32 way = 0; way < TP_FLOW_WAYS; way++)
		if (bucket->tag[way] == tag) {
			place = bucket->place[way];
			goto found;
		}
	return 0;
found:
	flow = bpf_map_lookup_elem(&flows, &place);
	if (flow && tp_is_of(flow, key))
		return flow;
	place = tp_search(bucket, tag, key);
	flow = bpf_map_lookup_elem(&flows, &place);
	return flow;
}

/* Takes a flow's place out of its bucket. */
static __always_inline void tp_unlink(const struct tp_watch_key *key, __u32 place)
{
	__u32 hash = tp_hash_flow(key), tag = tp_tag_of(hash);
	struct tp_flow_bucket *bucket = tp_bucket_of(hash);

	if (!bucket)
		return;
#pragma unroll
	for (__u32 way = 0; way < TP_FLOW_WAYS; way++)
		if (bucket->place[way] == place && bucket->tag[way] == tag)
			bucket->tag[way] = 0;
}

/* The way of a bucket for a new flow: an empty one, one whose flow is gone, or else the way of the
 * least recently seen flow. */
__noinline __u32 tp_free_way(struct tp_flow_bucket *bucket)
{
	__u64 oldest_ns = ~0ULL;
	__u32 found = 0;

	if (!bucket)
		return 0;
	for (__u32 way = 0; way < TP_FLOW_WAYS; way++) {
		__u32 place = bucket->place[way];
		struct tp_watch_flow *flow;

		if (!bucket->tag[way])
			return way;
		flow = bpf_map_lookup_elem(&flows, &place);
		if (!flow || !flow->id)
			return way;
		if (flow->seen_ns < oldest_ns) {
			oldest_ns = flow->seen_ns;
			found = way;
		}
	}
	return found;
}

/* Puts a flow's place into its bucket.  A displaced flow is forgotten. */
static __always_inline void tp_link(const struct tp_watch_key *key, __u32 place)
{
	__u32 hash = tp_hash_flow(key), way, old;
	struct tp_flow_bucket *bucket = tp_bucket_of(hash);
	struct tp_watch_flow *flow;

	if (!bucket)
		return;
	way = tp_within(tp_free_way(bucket), TP_FLOW_WAYS);
	old = bucket->place[way];
	if (bucket->tag[way]) {
		flow = bpf_map_lookup_elem(&flows, &old);
		if (flow)
			flow->id = 0;
	}
	bucket->tag[way] = 0;
	bucket->place[way] = place;
	bucket->tag[way] = tp_tag_of(hash);
}

/* Takes a place for a new flow: TP_NO_PLACE if other processors are faster. */
__noinline __u32 tp_take_place(void)
{
	__u32 victim = TP_NO_PLACE, id = 0, place = 0;
	__u64 oldest_ns = ~0ULL;
	struct tp_watch_flow *flow;

	for (int i = 0; i < TP_PLACES_TRIED; i++) {
		place = __sync_fetch_and_add(&link.taken, 1) % cfg.flows;
		flow = bpf_map_lookup_elem(&flows, &place);
		if (!flow)
			return TP_NO_PLACE;
		if (!flow->id || flow->seen_ns < oldest_ns) {
			victim = place;
			id = flow->id;
			oldest_ns = flow->seen_ns;
			if (!id)
				break;
		}
	}
	flow = bpf_map_lookup_elem(&flows, &victim);
	if (!flow || id == TP_FLOW_BUSY ||
	    __sync_val_compare_and_swap(&flow->id, id, TP_FLOW_BUSY) != id)
		return TP_NO_PLACE;
	if (flow->key.protocol)
		tp_unlink(&flow->key, victim);
	return victim;
}

static __always_inline __u32 tp_next_id(void)
{
	__u32 id = __sync_fetch_and_add(&last_id, 1) + 1;

	return id && id != TP_FLOW_BUSY ? id : 1;
}

#endif
