/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * draw.h - a draw from a choice distribution.
 *
 * A distribution has four arms in each of two words.  Four comparisons are done at once, as in
 * "SIMD within a register" (Fisher and Dietz, LCPC 1998).  This needs no branches, which
 * the verifier would follow, and some twenty instructions for eight arms.
 */
#ifndef TCPILOT_CORE_DRAW_H
#define TCPILOT_CORE_DRAW_H

#include "../abi/choices.h"
#include "bits.h"
#include "num.h"
#include "choice_dist.h"

#define TP_CERTAIN 0xffff /* the probability of a certain choice */

/* A uniform number from 0 to 0xfffe, to draw from a choice distribution with.  random: 32 uniform
 * bits. */
TP_INLINE __u32 tp_draw_of(__u32 random)
{
	return ((__u64)random * 0xffff) >> 32;
}

/* 32 bits, unpredictable without the secret: the finaliser of SplitMix64 (Steele, Lea
 * and Flood, "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014). seed: different
 * for each draw. */
TP_INLINE __u32 tp_random(__u64 secret, __u64 seed)
{
	__u64 z = secret + seed * 0x9e3779b97f4a7c15ULL;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return (z ^ (z >> 31)) >> 32;
}

/* Lanes of 32 bits: r + 2^16 less an entry has bit 16 if the entry is at most r. */
#define TP_LANES 0x0000000100000001ULL

TP_INLINE __u64 tp_at_most(__u64 four, __u64 r_lanes)
{
	__u64 even = four & 0xffff * TP_LANES, odd = (four >> 16) & 0xffff * TP_LANES;
	__u64 bit = 0x10000 * TP_LANES;

	return ((r_lanes - even) & bit) + ((r_lanes - odd) & bit);
}

/* The number of a choice distribution's entries of at most r: the arm of this draw, 0 to 7. */
TP_INLINE __u32 tp_arm_at(const __u64 upto[2], __u32 r)
{
	__u64 lanes = (r | 0x10000) * TP_LANES;
	__u64 sum = tp_at_most(upto[0], lanes) + tp_at_most(upto[1], lanes);

	return ((sum >> 16) + (sum >> 48)) & 7;
}

/* The entry of an arm. */
TP_INLINE __u32 tp_upto(const __u64 upto[2], __u32 arm)
{
	__u64 four = tp_select(upto[0], upto[1], arm >> 2 & 1);
	__u32 lane = arm & 3;

#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
	lane = 3 - lane;
#endif
	return four >> (16 * lane) & 0xffff;
}

/* The probability of an arm, in parts of 0xffff. */
TP_INLINE __u32 tp_probability(const __u64 upto[2], __u32 arm)
{
	__u32 before = arm ? tp_upto(upto, arm - 1) : 0;

	return tp_upto(upto, arm) - before;
}

/* The probability of the default: its own as an arm, plus those of all ineligible
 * arms.  default_arm: TP_NO_ARM if the default is no arm. */
TP_INLINE __u32 tp_default_probability(const __u64 upto[2], __u32 eligible, __u32 default_arm)
{
	__u32 sum = 0, before = 0;

#pragma unroll
	for (__u32 arm = 0; arm < TP_MAX_ARMS; arm++) {
		__u32 now = tp_upto(upto, arm);
		__u32 stays = !(eligible >> arm & 1) | tp_is_zero(arm ^ default_arm);

		sum += (now - before) * stays;
		before = now;
	}
	return sum;
}

/* Whether a path's assignment still holds: some connection with it is open, and it is not old.
 * now: ns >> TP_OPENED_SHIFT, as tp_assignment.since. */
TP_INLINE int tp_assignment_holds(const struct tp_assignment *assignment, __u32 tag, __u32 now)
{
	return assignment->tag == tag && assignment->live &&
	       now - assignment->since <= (__u32)(TP_ASSIGNMENT_MS * 1000000ULL >> TP_OPENED_SHIFT);
}

#endif
