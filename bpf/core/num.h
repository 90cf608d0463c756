/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * num.h - least, most and within bounds: one family for everything in bpf/.
 *
 * The name says width and sign, because C converts arguments silently: a credit below 0 would
 * become the largest of all numbers.
 */
#ifndef TCPILOT_CORE_NUM_H
#define TCPILOT_CORE_NUM_H

#include <linux/types.h>

#define TP_INLINE static inline __attribute__((always_inline))

/* A function checked by itself, once, however many ways lead the verifier to it.  For the
 * verifier its result could then be anything, and a pointer argument is valid or 0. */
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
