/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * busy.h - busy flags: only the CPU that has a path's flag may learn on it.  A CPU that cannot
 * get it soon drops its sample, and counts that (decision 6).
 */
#ifndef TCPILOT_PILOT_BUSY_H
#define TCPILOT_PILOT_BUSY_H

#include "state.h"

#define TRIES 64

/* A function of its own: the verifier follows the loop only once. */
__noinline int take(__u32 *busy)
{
	for (int i = 0; busy && i < TRIES; i++)
		if (!__sync_val_compare_and_swap(busy, 0, 1))
			return 1;
	COUNT(trouble[TP_TROUBLE_CONTENDED]);
	return 0;
}

static __always_inline void release(__u32 *busy)
{
	__sync_lock_test_and_set(busy, 0);
}

#endif
