/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * atomic.h - words shared by several CPUs.
 */
#ifndef TCPILOT_CORE_ATOMIC_H
#define TCPILOT_CORE_ATOMIC_H

#include "num.h"

/* One access, of the whole word: the compiler neither splits nor repeats it. */
TP_INLINE __u32 tp_read_once(const __u32 *word)
{
	return *(const volatile __u32 *)word;
}

TP_INLINE void tp_write_once(__u32 *word, __u32 value)
{
	*(volatile __u32 *)word = value;
}

#define TP_DECREMENT_TRIES 16

/* Counts down, and never below 0: a count that wrapped would stay "in use" for ever.  To
 * subtract first and correct afterwards is not enough, because other CPUs count down from the
 * wrapped value meanwhile.  A CPU that is always overtaken leaves the count one too high. */
TP_INLINE void tp_decrement(__u32 *count)
{
	__u32 seen = tp_read_once(count);

	for (int i = 0; i < TP_DECREMENT_TRIES && seen; i++) {
		__u32 was = __sync_val_compare_and_swap(count, seen, seen - 1);

		if (was == seen)
			return;
		seen = was;
	}
}

#endif
