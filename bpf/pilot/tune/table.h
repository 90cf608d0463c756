/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * table.h - the table of paths, which only policies with tunings use: bounded, and the least
 * recently used path goes first.
 *
 * An array of buckets of eight slots, and not the kernel's LRU hash, for two
 * reasons.  A look-up is done twice for each connection, and was the largest
 * part of the pilot's cost: 215 instructions in the kernel's map (Jenkins' hash, a call, a
 * list), about 70 here.  And this table decides which path goes: a path with live connections
 * stays, so their count stays true.
 *
 * A path is found by its tag, 31 bits of its hash, and then by its whole key: two
 * paths may share a tag.  The hash has random secrets (core/hash.h), so that nobody
 * can aim at a bucket.
 * Putting a path in takes the bucket's busy flag; finding one takes nothing, so a
 * path may be replaced under a running program's hands and catch a stray write.
 */
#ifndef TCPILOT_PILOT_TUNE_TABLE_H
#define TCPILOT_PILOT_TUNE_TABLE_H

#include "../../core/bits.h"
#include "../../core/bucket.h"
#include "../../core/hash.h"
#include "../../core/num.h"
#include "../state.h"

struct place {
	__u32 index;
	__u32 tag;
};

static __always_inline struct place place_of(const struct tp_path_key *key)
{
	__u32 h = tp_hash(config()->hash_secrets, (const void *)key);

	return (struct place){.index = h & (cfg.buckets - 1), .tag = h | 1};
}

static __always_inline int is_key(const struct tp_slot *slot, const struct tp_path_key *key)
{
	const __u64 *a = (const void *)&slot->key, *b = (const void *)key;

	return !((a[0] ^ b[0]) | (a[1] ^ b[1]) | (a[2] ^ b[2]) | (a[3] ^ b[3]));
}

/* The slot of this key, or TP_WAYS.  A function of its own, so that the verifier does not
 * follow each outcome separately. */
__noinline __u32 find_way(struct tp_bucket *bucket, __u32 tag, const struct tp_path_key *key)
{
	if (!bucket || !key)
		return TP_WAYS;
#pragma unroll
	for (__u32 i = 0; i < TP_WAYS; i++)
		if (bucket->tag[i] == tag && is_key(&bucket->slot[i], key))
			return i;
	return TP_WAYS;
}

/* A function of its own, as above. */
__noinline __u32 find_victim(struct tp_bucket *bucket)
{
	return bucket ? tp_victim(bucket, bpf_ktime_get_ns()) : TP_WAYS;
}

static __always_inline struct tp_path *path_in(struct tp_bucket *bucket, __u32 way)
{
	return way < TP_WAYS ? &bucket->slot[tp_within(way, TP_WAYS)].path : 0;
}

/* slot: the path's number in the table, if there is one. */
static __always_inline struct tp_path *find_path(const struct tp_path_key *key, __u32 *slot)
{
	struct place place = place_of(key);
	struct tp_bucket *bucket = bpf_map_lookup_elem(&paths, &place.index);
	__u32 way;

	if (!bucket)
		return 0;
	way = find_way(bucket, place.tag, key);
	*slot = place.index * TP_WAYS + way;
	return path_in(bucket, way);
}

/* The path of a slot found before; 0: there is no such slot. */
static __always_inline struct tp_path *path_at(__u32 slot)
{
	__u32 index = slot / TP_WAYS;
	struct tp_bucket *bucket = bpf_map_lookup_elem(&paths, &index);

	return bucket ? &bucket->slot[tp_within(slot, TP_WAYS)].path : 0;
}

static __always_inline struct tp_path *replace(struct tp_bucket *bucket, __u32 way, __u32 tag,
					       const struct tp_path_key *key)
{
	struct tp_slot *slot = &bucket->slot[tp_within(way, TP_WAYS)];
	__u32 *slot_tag = &bucket->tag[tp_within(way, TP_WAYS)];

	if (!*slot_tag)
		COUNT(paths);
	else if (slot->path.live_flows)
		COUNT(trouble[TP_TROUBLE_EVICTED]);
	*slot_tag = 0;
	tp_begin_slot(slot, key, bpf_ktime_get_ns());
	*slot_tag = tag;
	return &slot->path;
}

/* The path, put in if it is not there: then born_ns is 0.  Returns 0, and counts that, while
 * another CPU puts a path into the bucket, or if all paths there have live connections.  The
 * connection then keeps its default. */
static __always_inline struct tp_path *open_path(const struct tp_path_key *key, __u32 *slot)
{
	struct place place = place_of(key);
	struct tp_bucket *bucket = bpf_map_lookup_elem(&paths, &place.index);
	struct tp_path *path;
	__u32 way;

	if (!bucket)
		return 0;
	way = find_way(bucket, place.tag, key);
	*slot = place.index * TP_WAYS + way;
	path = path_in(bucket, way);
	if (path)
		return path;
	if (__sync_val_compare_and_swap(&bucket->busy, 0, 1)) {
		COUNT(trouble[TP_TROUBLE_NO_PATH]);
		return 0;
	}
	way = find_way(bucket, place.tag, key); /* another CPU may have put it in meanwhile */
	path = path_in(bucket, way);
	if (!path) {
		way = find_victim(bucket);
		if (way < TP_WAYS)
			path = replace(bucket, way, place.tag, key);
		else
			COUNT(trouble[TP_TROUBLE_FULL]);
	}
	*slot = place.index * TP_WAYS + way;
	__sync_lock_test_and_set(&bucket->busy, 0);
	return path;
}

#endif
