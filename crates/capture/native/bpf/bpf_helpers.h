/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * bpf_helpers.h - what libbpf's header of this name gives to BPF programs, for the host.
 *
 * A map's definition is the program's own: a structure of pointers, whose types are its facts. Here
 * the pointers hold its content: `key` the keys of a hash, `value` the values, and `max_entries`
 * the room, which the loader sets for some maps.  TP_MAKE() begins a map, TP_FREE() ends it.
 */
#ifndef TCPILOT_NATIVE_BPF_HELPERS_H
#define TCPILOT_NATIVE_BPF_HELPERS_H

#include <linux/bpf.h>
#include <linux/types.h>
#include <stdlib.h>
#include <string.h>

#define SEC(name)
#undef __always_inline
#define __always_inline inline __attribute__((always_inline))
#define __noinline __attribute__((noinline))
#define __weak __attribute__((weak))
#define __ksym

#define __uint(name, number) int(*name)[number]
#define __type(name, type) typeof(type) *name

/* A map, whatever its types are. */
struct tp_native_map {
	char *keys, *values;
	__u32 is_hash, key_bytes, value_bytes, entries;
};

#define TP_IS_HASH(map) (sizeof(*(map)->type) / sizeof(int) == BPF_MAP_TYPE_LRU_HASH)
#define TP_MAP(map)                                                                                \
	((const struct tp_native_map){                                                             \
	    .keys = (char *)(map)->key,                                                            \
	    .values = (char *)(map)->value,                                                        \
	    .is_hash = TP_IS_HASH(map),                                                            \
	    .key_bytes = sizeof(*(map)->key),                                                      \
	    .value_bytes = sizeof(*(map)->value),                                                  \
	    .entries = (unsigned long)(map)->max_entries,                                          \
	})

/* A hash keeps the time of its last use with each key. */
#define TP_USED_BYTES sizeof(__u64)

/* Makes an empty map with room for so many; a hash needs a power of two. */
#define TP_MAKE(map, count)                                                                        \
	do {                                                                                       \
		(map)->max_entries = (void *)(unsigned long)(count);                               \
		(map)->value = calloc(count, sizeof(*(map)->value));                               \
		if (TP_IS_HASH(map))                                                               \
			(map)->key = calloc(count, TP_USED_BYTES + sizeof(*(map)->key));           \
		if (!(map)->value || (TP_IS_HASH(map) && !(map)->key))                             \
			(map)->max_entries = 0;                                                    \
	} while (0)

#define TP_FREE(map)                                                                               \
	do {                                                                                       \
		free((map)->key);                                                                  \
		free((map)->value);                                                                \
		(map)->key = 0;                                                                    \
		(map)->value = 0;                                                                  \
		(map)->max_entries = 0;                                                            \
	} while (0)

void *tp_native_look(struct tp_native_map map, const void *key);
long tp_native_put(struct tp_native_map map, const void *key, const void *value);
long tp_native_forget(struct tp_native_map map, const void *key);

#define bpf_map_lookup_elem(map, which) ((typeof((map)->value))tp_native_look(TP_MAP(map), which))
#define bpf_map_update_elem(map, which, what, flags) tp_native_put(TP_MAP(map), which, what)
#define bpf_map_delete_elem(map, which) tp_native_forget(TP_MAP(map), which)

/* The time of the capture. */
extern __u64 tp_native_now_ns;
#define bpf_ktime_get_ns() tp_native_now_ns
#define bpf_get_smp_processor_id() 0

/* Only the packet can be read. */
long bpf_probe_read_kernel(void *to, __u32 bytes, const void *from);

#define bpf_loop(times, function, context, flags)                                                  \
	do {                                                                                       \
		for (__u32 tp_nth = 0; tp_nth < (times); tp_nth++)                                 \
			if (function(tp_nth, context))                                             \
				break;                                                             \
	} while (0)

/* Nothing is recorded, and the programs that would change packets are never called. */
#define bpf_ringbuf_output(ring, record, bytes, flags) 0
#define BPF_RB_NO_WAKEUP 0
#define bpf_skb_load_bytes(skb, at, to, bytes) ((void)(to), -1)
#define bpf_skb_load_bytes_relative(skb, at, to, bytes, from) ((void)(to), -1)
#define bpf_skb_store_bytes(skb, at, from, bytes, flags) (-1)
#define bpf_l3_csum_replace(skb, at, before, after, flags) (-1)
#define bpf_l4_csum_replace(skb, at, before, after, flags) (-1)

#endif
