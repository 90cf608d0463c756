/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * cube_root.h - the contract of tp_cube_root, which stands for it in the proofs of cubic and lola:
 * scripts/prove calls contract_NAME in place of NAME.  Its 21 steps are one product each, and take
 * the solver hours together; prove_cube_root_step of cubic.c has any one of them.
 */
#ifndef TCPILOT_PROOFS_CUBE_ROOT_H
#define TCPILOT_PROOFS_CUBE_ROOT_H

#include "ranges.h"

/* Built from bits 20 to 0; and of 2^30 packets at most, so 10^9 ms^3 each. */
static __u64 contract_tp_cube_root(__u64 value)
{
	__u64 root = any_bits(21);

	/* 2^21 packets: 2^21 10^10 / 4 ms^3, below 2^54 */
	__CPROVER_assume(value >> 54 || root < 1ULL << 18);
	return root;
}

/* 2^21 packets take 173 s: prove_contract_cubic_ms. */
static __u32 contract_tp_cubic_ms(__u32 packets)
{
	return any_bits(18);
}

/* No more than TP_SSTHRESH_MAX packets: prove_contract_cubic_parts. */
static __u64 contract_tp_cubic_parts(__u32 t_ms, __u32 k_ms, __u32 origin)
{
	return any_bits(31 + 10);
}

#include "cc/lib/cubicroot.h"

#endif
