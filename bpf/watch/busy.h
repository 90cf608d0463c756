/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * busy.h - the rate at which the link works while packets wait for it.
 *
 * If each timed packet was queued before the timed one ahead of it left, the queue held packets all
 * the time between the first and the last: a run.  The bytes of a run, over its time, are the
 * link's capacity.  If the mean rate of the last seconds is less, the link has room.
 *
 * A qdisc with a reason to hold packets back (fq, by their sender's pacing) makes runs too slow;
 * then the link seems full.
 */
#ifndef TCPILOT_WATCH_BUSY_H
#define TCPILOT_WATCH_BUSY_H

#include "table.h"

/* A run is at least so long. */
#define TP_RUN_NS 2000000ULL
/* The counts of all processors are added up at most so often to begin a run. */
#define TP_RUNS_EVERY_NS 10000000ULL
/* Runs of so much together give the rate; if they are longer than that, the earlier ones count
 * half. */
#define TP_BUSY_LEAST_US 4000
#define TP_BUSY_LEAST_BYTES 15000
#define TP_BUSY_MOST_US 1000000

/* Sent bytes of all processors. */
__noinline __u64 tp_left_bytes(void)
{
	__u64 sum = 0;

	for (__u32 i = 0; i < TP_TOTALS && i < cfg.processors; i++)
		sum += totals[i].left_bytes;
	return sum;
}

__noinline int tp_run_began(__u64 now_ns)
{
	link.run_left_bytes = tp_left_bytes();
	link.run_after_ns = now_ns + TP_RUNS_EVERY_NS;
	link.run_ns = now_ns;
	return 0;
}

__noinline int tp_run_measured(__u64 now_ns)
{
	__u64 left = tp_left_bytes();

	/* Sums, since super-packets make a single run too long or too short for its bytes. */
	link.busy_bytes += left - link.run_left_bytes;
	link.busy_us += (now_ns - link.run_ns) / 1000;
	if (link.busy_us >= TP_BUSY_LEAST_US && link.busy_bytes >= TP_BUSY_LEAST_BYTES)
		link.busy_rate = link.busy_bytes * 1000000 / link.busy_us;
	if (link.busy_us >= TP_BUSY_MOST_US) {
		link.busy_bytes /= 2;
		link.busy_us /= 2;
	}
	link.run_left_bytes = left;
	link.run_ns = now_ns;
	return 0;
}

/* A timed packet leaves; it was queued at at_ns. */
static __always_inline void tp_run_goes_on(__u64 at_ns, __u64 now_ns)
{
	int is_run = link.run_ns && at_ns < link.timed_left_ns;

	link.timed_left_ns = now_ns;
	if (!is_run) {
		link.run_ns = 0;
		if (now_ns >= link.run_after_ns)
			tp_run_began(now_ns);
	} else if (now_ns - link.run_ns >= TP_RUN_NS) {
		tp_run_measured(now_ns);
	}
}

/* The sent bytes as a share of the capacity, x256; 0: not known. */
static __always_inline __u32 tp_link_used(void)
{
	__u64 busy = link.busy_rate;

	return busy ? tp_min64(link.rate_recent * 256 / busy, 1024) : 0;
}

#endif
