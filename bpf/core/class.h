/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * class.h - the class of a connection: properties of its way at the handshake, in few steps.
 * The bits are those of Class::bits in crates/learner; a test compares them.
 */
#ifndef TCPILOT_CORE_CLASS_H
#define TCPILOT_CORE_CLASS_H

#include "../abi/choices.h"
#include "num.h"

/* Not static: libbpf finds only global variables in a section.  Weak: several files of the host
 * include this. */
const __u8 tp_log2_of[32]
    __attribute__((weak)) = {0, 9,  1,	10, 13, 21, 2,	29, 11, 14, 16, 18, 22, 25, 3, 30,
			     8, 12, 20, 28, 15, 17, 24, 7,  19, 27, 23, 6,  26, 5,  4, 31};

/* floor(log2(x)); 0 for 0.  Without branches: the verifier would follow each of them.  All bits
 * below the highest are set; the top five bits of the product then differ for each of the 32
 * results (Leiserson, Prokop and Randall, "Using de Bruijn Sequences to Index a 1 in a Computer
 * Word", 1998). */
TP_INLINE __u32 tp_log2(__u32 x)
{
	x |= x >> 1;
	x |= x >> 2;
	x |= x >> 4;
	x |= x >> 8;
	x |= x >> 16;
	return tp_log2_of[(x * 0x07c4acdd) >> 27];
}

#define TP_RTT_OCTAVE_LEAST 9 /* the octave of 512 us */

/* The octave of an RTT: floor(log2) of microseconds; 0 for an unknown one.  All below 1024 us share
 * an octave: on a LAN the time to wake a process differs from one handshake to the next by more
 * than an octave, and one host would be several paths.  The highest bit of x | -x is set unless x
 * is 0: no branch. */
TP_INLINE __u32 tp_rtt_octave(__u32 rtt_us)
{
	return tp_log2(rtt_us | (rtt_us | -rtt_us) >> 31 << TP_RTT_OCTAVE_LEAST);
}

/* The properties of a class. */
struct tp_traits {
	__u32 rtt_us;	   /* 0: unknown */
	__u8 small_window; /* the peer can offer 64 KiB at most: RFC 7323 without its scale */
	__u8 ecn;	   /* 0 none, 1 classic, 2 accurate */
	__u8 interface;	   /* 0 any other, 1 wireless */
	__u8 accepted;
};

TP_INLINE __u16 tp_class_of(const struct tp_traits *t)
{
	return (__u16)(tp_rtt_octave(t->rtt_us) << TP_CLASS_RTT |
		       (__u32)t->small_window << TP_CLASS_SMALL_WINDOW |
		       (__u32)(t->ecn & 3) << TP_CLASS_ECN |
		       (__u32)(t->interface & 63) << TP_CLASS_INTERFACE |
		       (__u32)t->accepted << TP_CLASS_ACCEPTED);
}

#endif
