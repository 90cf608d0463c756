/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * state.h - what outlives an event: settings, counters, tables.
 */
#ifndef TCPILOT_PILOT_STATE_H
#define TCPILOT_PILOT_STATE_H

#include "../abi/abi.h"
#include "../kernel/types.h"

const volatile struct tp_config cfg;

struct tp_rule rules[TP_MAX_RULES];
/* With one set for all CPUs, its cache line would move between them several times a
 * connection.  The section is the counters' own: when other programs take these
 * programs' place, the counts live on.  All else here belongs to one configuration. */
struct tp_counters counters[TP_COUNTER_SETS] __attribute__((aligned(64))) SEC(".bss.counters");
__u64 last_loss_ns; /* when a packet was lost last */
/* The learner in the daemon maps it into its memory. */
struct tp_learner_status learner_status SEC(".bss.learner");
/* Likewise: enum tp_trial of each assignment bucket. */
__u8 assignment_buckets[TP_ASSIGNMENT_BUCKETS] SEC(".bss.cells");
/* The unit of the kernel's own counts of time; 0: not known. */
__u32 ticks_per_s;
/* The id of the steered cgroup, which may be removed and made again; 0: the root. */
__u64 steered_cgroup;
/* The sockets seen by the iterator flows in its present walk. */
__u32 walked;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* the loader sets it */
	__type(key, __u32);
	__type(value, struct tp_bucket);
} paths SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct tp_conn);
} conns SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* the loader sets it: one for each slot of the table of paths */
	__type(key, __u32);
	__type(value, struct tp_tuned);
} tuned SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct tp_police);
} police SEC(".maps");

/* core/choice_dist.h, core/draw.h, conn_starts.h: choice distributions in rows, assignments in
 * draws, connection starts in openings.  The names of maps that another version inherits cannot
 * change: libbpf gives an inherited map its former name, and the skeleton then looks in vain. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* the loader sets it, and the next three */
	__type(key, __u32);
	__type(value, struct tp_choice_dist_bucket);
} rows SEC(".maps");

/* greedy.h: the costs of a choice distribution's path stand at the same place. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct tp_costs);
} costs SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct tp_assignment);
} draws SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct tp_conn_start_bucket);
} openings SEC(".maps");

/* rescue.h */
struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct tp_rescue);
} rescues SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* the loader */
	__type(key, __u32);
	__type(value, struct tp_refusal);
} refusals SEC(".maps");

/* sample.h: by the socket's cookie. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, TP_MOVES);
	__type(key, __u64);
	__type(value, struct tp_move);
} moves SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096); /* the kernel's least; the loader sets it */
} records SEC(".maps");

static __always_inline struct tp_counters *own_counters(void)
{
	return &counters[bpf_get_smp_processor_id() & (TP_COUNTER_SETS - 1)];
}

/* Atomic although each CPU has its own: an interrupt may count in between. */
#define COUNT(counter) __sync_fetch_and_add(&own_counters()->counter, 1)

/* The end of a connection of ours. */
static __always_inline void count_closed(__u64 bytes)
{
	struct tp_counters *own = own_counters();

	__sync_fetch_and_add(&own->closed, 1);
	__sync_fetch_and_add(&own->steered_bytes, bytes);
}

/* Whether the programs write the choice distributions themselves.  The verifier knows the
 * answer. */
static __always_inline int learns_here(void)
{
	return cfg.learner.kind == TP_LEARNER_EPSILON_GREEDY;
}

/* The clock that bpf_ktime_get_coarse_ns() reads stands still for a tick.  The call takes
 * longer than looking up a choice distribution, so it is made once a tick. */
struct {
	__u64 ticks;
	__u64 ns;
} clock_at;

static __always_inline __u64 coarse_ns(void)
{
	__u64 ticks = bpf_jiffies64(), ns;

	if (clock_at.ticks == ticks)
		return clock_at.ns;
	ns = bpf_ktime_get_coarse_ns();
	clock_at.ns = ns;
	asm volatile("" ::: "memory"); /* the time is there before its tick is */
	clock_at.ticks = ticks;
	return ns;
}

/* cfg for the pure functions.  The compiler must not see through the cast: it
 * would take the zeros of this file for the values that the loader writes. */
static __always_inline const struct tp_config *config(void)
{
	const struct tp_config *c = (const struct tp_config *)&cfg;

	asm("" : "+r"(c));
	return c;
}

#endif
