/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * hash.h - the hash of a path's key, by which the table finds it (bpf/pilot/table.h).
 * Pure arithmetic, also compiled for the host by tests.
 *
 * A peer can choose its address, so it must not be able to choose two with the same hash.
 * This is pair-multiply-shift over the key's eight 32-bit words x with nine random
 * secrets a of 64 bits (Thorup, "High Speed Hashing for Integers and Strings",
 * arXiv:1504.06804; Lemire and Kaser, "Strongly universal string hashing is fast", The
 * Computer Journal 57(11), call it Multilinear-HM):
 *
 *   h(x) = (a[8] + sum of (a[i] + x[i+1]) * (a[i+1] + x[i]), i = 0, 2, 4, 6) >> 32
 *
 * It is strongly universal: over the secrets the hashes of any two keys are independent
 * and uniform, so two keys share any chosen k of the 32 bits with probability 2^-k.
 * No difference of keys is better for an attacker than another.
 */
#ifndef TCPILOT_CORE_HASH_H
#define TCPILOT_CORE_HASH_H

#include "../abi/config.h"
#include "num.h"

#define TP_HASH_WORDS 8

TP_INLINE __u32 tp_hash(const __u64 secret[TP_HASH_SECRETS], const __u32 word[TP_HASH_WORDS])
{
	__u64 sum = secret[TP_HASH_WORDS];

#pragma unroll
	for (int i = 0; i < TP_HASH_WORDS; i += 2)
		sum += (secret[i] + word[i + 1]) * (secret[i + 1] + word[i]);
	return sum >> 32;
}

#endif
