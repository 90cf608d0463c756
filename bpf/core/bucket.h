/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * bucket.h - which path goes when a bucket of the table of paths is full, and how a
 * path begins.  bpf/pilot/table.h calls these functions, with the bucket's busy flag held.
 */
#ifndef TCPILOT_CORE_BUCKET_H
#define TCPILOT_CORE_BUCKET_H

#include "../abi/abi.h"
#include "num.h"

#define TP_DAY_NS (24 * 3600 * 1000000000ULL)

/* The slot to give up: an empty one, or else the one unused for longest of those
 * without live connections.  TP_WAYS: all have live connections.
 *
 * The end of a connection can be missed: its policy changed meanwhile, or another
 * program took our callbacks away.  The path of that connection must not stay for
 * ever.  So if there is no other slot, a path without a measurement for a day gives way, too. */
TP_INLINE __u32 tp_victim(const struct tp_bucket *bucket, __u64 now_ns)
{
	__u64 oldest = ~0ULL;
	__u32 victim = TP_WAYS;

	for (__u32 i = 0; i < TP_WAYS; i++) {
		const struct tp_path *path = &bucket->slot[i].path;
		__u64 used = path->updated_ns;

		if (!bucket->tag[i])
			return i;
		if (path->live_flows) {
			if ((__s64)(now_ns - TP_DAY_NS - used) < 0)
				continue;
			used |= 1ULL << 63;
		}
		if (used < oldest) {
			oldest = used;
			victim = i;
		}
	}
	return victim;
}

/* Begins a path.  It counts as used now: otherwise, as the oldest of its bucket, it
 * would be the next to go, before its connection is taken up. */
TP_INLINE void tp_begin_slot(struct tp_slot *slot, const struct tp_path_key *key, __u64 now_ns)
{
	__builtin_memset(&slot->path, 0, sizeof(slot->path));
	slot->path.updated_ns = now_ns;
	slot->key = *key;
}

#endif
