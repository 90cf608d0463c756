/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * bits.h - masks of arms, and conditions without branches.
 *
 * Conditions are arithmetic here, not branches: the verifier follows every branch,
 * and eight arms with two outcomes each are too many.
 */
#ifndef TCPILOT_CORE_BITS_H
#define TCPILOT_CORE_BITS_H

#include "../abi/base.h"
#include "num.h"

/* An index within bounds.  The asm hides the index from the compiler.  It would drop the mask
 * otherwise, and the verifier sees the bounds by the mask. */
TP_INLINE __u32 tp_within(__u32 index, __u32 power_of_two)
{
	asm("" : "+r"(index));
	return index & (power_of_two - 1);
}

/* 1 if x is 0, else 0.  The asm hides the comparison from the compiler: it would branch for
 * one.  Here and below it is volatile: compilers then work on one arm after the other, and do
 * not keep those of all arms on the stack. */
TP_INLINE __u32 tp_is_zero(__u64 x)
{
	__u64 negative = -x;

	asm volatile("" : "+r"(negative));
	return (__u32)((x | negative) >> 63) ^ 1;
}

/* 1 if a is less than b, else 0; their difference fits a signed number. */
TP_INLINE __u32 tp_is_less(__u64 a, __u64 b)
{
	__u64 difference = a - b;

	asm volatile("" : "+r"(difference));
	return (__u32)(difference >> 63);
}

/* a if bit is 0, b if it is 1.  A product, hidden likewise, and not a mask: verifiers from 6.18
 * on follow both values of a mask of no bits or all. */
TP_INLINE __u64 tp_select(__u64 a, __u64 b, __u64 bit)
{
	asm volatile("" : "+r"(bit));
	return a + (b - a) * bit;
}

TP_INLINE __u32 tp_bits(__u32 mask)
{
	__u32 n = 0;

#pragma unroll
	for (int i = 0; i < TP_MAX_ARMS; i++)
		n += (mask >> i) & 1;
	return n;
}

#endif
