/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * num.h - least, most and within bounds: one family for everything in bpf/.
 *
 * The width and the sign stand in the name, because C converts an argument
 * without a word: a credit below 0 would be the largest of all numbers.
 */
#ifndef TCPILOT_CORE_NUM_H
#define TCPILOT_CORE_NUM_H

#include <linux/types.h>

#define TP_INLINE static inline __attribute__((always_inline))

/* A function that the verifier looks at by itself, once, however many ways lead to it: what it
 * returns could then be anything, and whatever a pointer points to has to be there, or it is 0. */
#ifdef __bpf__
#define TP_APART __attribute__((noinline))
#else
#define TP_APART static inline
#endif

TP_INLINE __u32 tp_min(__u32 a, __u32 b)
{
	return a < b ? a : b;
}

TP_INLINE __u32 tp_max(__u32 a, __u32 b)
{
	return a > b ? a : b;
}

TP_INLINE __u32 tp_clamp(__u32 value, __u32 least, __u32 most)
{
	return tp_min(tp_max(value, least), most);
}

TP_INLINE __u64 tp_min64(__u64 a, __u64 b)
{
	return a < b ? a : b;
}

TP_INLINE __u64 tp_max64(__u64 a, __u64 b)
{
	return a > b ? a : b;
}

TP_INLINE __s64 tp_min_signed(__s64 a, __s64 b)
{
	return a < b ? a : b;
}

TP_INLINE __s64 tp_max_signed(__s64 a, __s64 b)
{
	return a > b ? a : b;
}

/* The lesser of two, when 0 means "none". */
TP_INLINE __u64 tp_min_nonzero(__u64 a, __u64 b)
{
	if (!a)
		return b;
	if (!b)
		return a;
	return a < b ? a : b;
}

#endif
