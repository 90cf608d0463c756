/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * algorithm.h - which algorithm is in force: one of the arms, or a replaceable
 * default?
 *
 * The kernel's key distinguishes algorithms; names are compared once, when an
 * algorithm is first seen in force.
 */
#ifndef TCPILOT_PILOT_ALGORITHM_H
#define TCPILOT_PILOT_ALGORITHM_H

#include "../core/bits.h"
#include "socket.h"
#include "state.h"

/* The properties of a key. */
struct known {
	__u8 arm;	 /* TP_NO_ARM: it is none */
	__u8 is_default; /* it may be replaced */
	__u16 pad;
	__u32 key;
};

union known_word {
	struct known known;
	__u64 word;
};

/* The kernel's keys: of the arms, of the replaceable defaults, and of the last
 * algorithm seen beyond the arms. */
__u32 arm_key[TP_MAX_ARMS];
__u32 default_key[TP_MAX_DEFAULTS];
__u32 foreign_key;
/* The key seen last, with its properties: a struct known, read and written whole. */
__u64 last_known;

/* A function of its own: the verifier checks it once, and not again for each
 * way to it. */
__noinline int look_up_key(__u32 key, struct known *known)
{
	if (!known)
		return 0;
	*known = (struct known){.arm = TP_NO_ARM, .key = key};
#pragma unroll
	for (__u32 i = 0; i < TP_MAX_ARMS; i++)
		if (arm_key[i] == key)
			known->arm = i;
#pragma unroll
	for (int i = 0; i < TP_MAX_DEFAULTS; i++)
		if (default_key[i] == key)
			known->is_default = 1;
	return 0;
}

static __always_inline int is_name(const char wanted[TP_CC_NAME_MAX], __u64 first, __u64 second)
{
	const __u64 *words = __builtin_assume_aligned(wanted, 8);

	return words[0] == first && words[1] == second;
}

/* Keeps the key of a name of two words.  Other CPUs may look a key up meanwhile.  So the order
 * matters: with the arm a CPU sees the default too, and with foreign_key both.  A function of its
 * own, as above. */
__noinline int learn_key(__u32 key, __u64 first, __u64 second)
{
	for (int i = 0; i < TP_MAX_DEFAULTS && i < cfg.defaults; i++)
		if (is_name(config()->replace_defaults[i], first, second))
			default_key[i] = key;
	asm volatile("" ::: "memory");
	for (int i = 0; i < TP_MAX_ARMS && i < cfg.arms; i++)
		if (is_name(config()->arm[i], first, second))
			arm_key[i] = key;
	__sync_lock_test_and_set(&foreign_key, key);
	return 0;
}

/* The properties of the algorithm in force. */
static __always_inline struct known known_in_force(const struct tcp_sock *tp)
{
	union known_word last = {.word = last_known};
	struct known known = {};
	__u32 key = tp_cc_key(tp);
	__u64 name[2] = {};
	__u32 foreign;

	if (last.known.key == key) /* mostly: it is the default */
		return last.known;
	foreign = foreign_key;
	asm volatile("" ::: "memory");
	look_up_key(key, &known);
	if (known.arm == TP_NO_ARM && foreign != key && tp_read_cc_name(tp, name)) {
		learn_key(key, name[0], name[1]);
		look_up_key(key, &known);
	}
	last.known = known;
	last_known = last.word;
	return last.known;
}

static __always_inline __u8 arm_in_force(const struct tcp_sock *tp)
{
	return known_in_force(tp).arm;
}

/* The same, where it is most likely this arm.  The key seen last stays the default's then, as the
 * next connection's. */
static __always_inline __u8 arm_in_force_if(const struct tcp_sock *tp, __u32 arm)
{
	return tp_cc_key(tp) == arm_key[tp_within(arm, TP_MAX_ARMS)] ? arm : arm_in_force(tp);
}

#endif
