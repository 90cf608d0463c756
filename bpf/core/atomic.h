/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * atomic.h - words that several CPUs use at once.
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

/* Counts down, and never below 0.  If another CPU took the last one after we looked,
 * ours is given back: a count that wrapped would stay "in use" for ever. */
TP_INLINE void tp_decrement(__u32 *count)
{
	if (tp_read_once(count) && !__sync_fetch_and_sub(count, 1))
		__sync_fetch_and_add(count, 1);
}

#endif
