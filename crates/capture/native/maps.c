/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * maps.c - the maps of bpf/bpf_helpers.h: arrays, and hashes.  As in the kernel's, the entry unused
 * for longest makes room in a full hash.
 */
#include "bpf/bpf_helpers.h"

/* A key may stand in one of so many places. */
#define WAYS 8

/* FNV-1a, 64 bits (draft-eastlake-fnv). */
static __u64 hash_of(const unsigned char *key, __u32 bytes)
{
	__u64 hash = 0xcbf29ce484222325ULL;

	for (__u32 i = 0; i < bytes; i++)
		hash = (hash ^ key[i]) * 0x100000001b3ULL;
	return hash ^ hash >> 32;
}

static __u64 *used_at(const struct tp_native_map *map, __u32 place)
{
	return (__u64 *)(map->keys + (unsigned long)place * (TP_USED_BYTES + map->key_bytes));
}

static char *value_at(const struct tp_native_map *map, __u32 place)
{
	return map->values + (unsigned long)place * map->value_bytes;
}

/* The first place of a key. */
static __u32 first_of(const struct tp_native_map *map, const void *key)
{
	__u64 sets = map->entries > WAYS ? map->entries / WAYS : 1;

	return (__u32)(hash_of(key, map->key_bytes) % sets) * WAYS;
}

/* Counts the uses of all hashes: an order, not a time. */
static __u64 uses;

static char *look_in_hash(const struct tp_native_map *map, const void *key)
{
	__u32 first = first_of(map, key);

	for (__u32 place = first; place < first + WAYS; place++) {
		__u64 *used = used_at(map, place);

		if (!*used || memcmp(used + 1, key, map->key_bytes))
			continue;
		*used = ++uses;
		return value_at(map, place);
	}
	return NULL;
}

void *tp_native_look(struct tp_native_map map, const void *key)
{
	__u32 number;

	if (!map.entries)
		return NULL;
	if (map.is_hash)
		return look_in_hash(&map, key);
	memcpy(&number, key, sizeof(number));
	return number < map.entries ? value_at(&map, number) : NULL;
}

long tp_native_put(struct tp_native_map map, const void *key, const void *value)
{
	char *found = tp_native_look(map, key);
	__u32 place, oldest;

	if (!map.entries)
		return -1;
	if (!found && !map.is_hash)
		return -1;
	if (!found) {
		oldest = first_of(&map, key);
		for (place = oldest + 1; place % WAYS; place++)
			if (*used_at(&map, place) < *used_at(&map, oldest))
				oldest = place;
		*used_at(&map, oldest) = ++uses;
		memcpy(used_at(&map, oldest) + 1, key, map.key_bytes);
		found = value_at(&map, oldest);
	}
	memcpy(found, value, map.value_bytes);
	return 0;
}

long tp_native_forget(struct tp_native_map map, const void *key)
{
	__u32 first, place;

	if (!map.entries || !map.is_hash)
		return -1;
	first = first_of(&map, key);
	for (place = first; place < first + WAYS; place++)
		if (*used_at(&map, place) && !memcmp(used_at(&map, place) + 1, key, map.key_bytes))
			*used_at(&map, place) = 0;
	return 0;
}
