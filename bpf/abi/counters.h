/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * counters.h - counts since the start, and the kernel's clocks.
 */
#ifndef TCPILOT_ABI_COUNTERS_H
#define TCPILOT_ABI_COUNTERS_H

#include "conn.h"
#include "rescue.h"
#include "tune.h"

/* Failures and dropped work, counted since the start. */
enum tp_trouble {
	TP_TROUBLE_SET_FAILED = 0, /* bpf_setsockopt refused an arm or a rescue */
	TP_TROUBLE_NO_STORAGE = 1, /* no memory for the connection's storage */
	TP_TROUBLE_NO_PATH = 2,	   /* the path could not be stored */
	TP_TROUBLE_EVICTED = 3,	   /* a tuned connection's path had been evicted */
	TP_TROUBLE_CONTENDED = 4,  /* a sample was dropped: another CPU held the path */
	TP_TROUBLE_THIN = 5,	   /* thin linear timeouts are not supported */
	TP_TROUBLE_CB_FLAGS = 6,   /* the end of a connection will not be seen */
	TP_TROUBLE_FULL = 7,	   /* a path was not remembered: its bucket was full of live ones */
	TP_TROUBLE_COUNT = 8,
};

/* Sets of counters: a CPU counts in its own, or shares one with a few others if there are
 * more CPUs than sets.  A power of two. */
#define TP_COUNTER_SETS 64

/* Whole cache lines: no two sets share one. */
struct tp_counters {
	__u64 connections[TP_WHY_SLOTS]; /* by reason, at their opening */
	__u64 rescues;
	__u64 closed;
	__u64 paths; /* slots in use */
	__u64 trouble[TP_TROUBLE_COUNT];
	__u64 tuned[TP_TUNES];
	__u64 refused[TP_TUNES]; /* by the kernel */
	__u64 retreats;
	__u64 acks_first;
	__u64 rescues_helped;
	__u64 rescues_undone;
	__u64 own_losses; /* connections with heavy loss and a queue */
	__u64 withheld[TP_WITHHELD_SLOTS];
	__u64 moves;	     /* of open connections, to a better arm */
	__u64 steered_bytes; /* acknowledged, of connections taken up, at their end */
	__u64 pad[6];
};

struct tp_clocks {
	__u64 ticks; /* the kernel's jiffies */
	__u64 now_ns;
};

TP_ASSERT_SIZE(tp_clocks, 16);
TP_ASSERT_SIZE(tp_counters, 360 + 16 * TP_TUNES + 24 + 128);

#endif
