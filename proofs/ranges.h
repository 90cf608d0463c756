/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ranges.h - the declared ranges of all inputs of bpf/cc, and what every proof shares.
 *
 * A proof is a function prove_EVENT of proofs/NAME.c: any state and any event within these
 * ranges, one call of the arithmetic, then the assertions.  scripts/prove gives it to CBMC,
 * which adds assertions of its own for divisions, overflows, conversions, shifts and arrays.
 *
 * A range is a number of bits, taken by a mask: the solver then sees zeros, not an inequality.
 */
#ifndef TCPILOT_PROOFS_RANGES_H
#define TCPILOT_PROOFS_RANGES_H

#include "abstract.h"
#include "cc/lib/cwnd.h"

/* RFC 7323, section 2.3: a window of 2^30 bytes at most, so 2^21 packets of 536 bytes. */
#define CWND_BITS 21
/* The greatest RTO is 120 s (TCP_RTO_MAX, linux/net/tcp.h), below 2^27 us; no longer RTT is
 * measured. */
#define RTT_BITS 27
/* An acknowledgement after a repaired hole can stand for thousands of packets. */
#define ACKED_BITS 16
/* tcp_mstamp counts from the boot: 35 years. */
#define TIME_BITS 50
/* TCP's header has 16 bits for the MSS. */
#define MSS_BITS 16

/* pacing.h: 2^32 is 2.9 Tbit/s of 1448-byte packets.  One bit more for quotients by their bounds.
 */
#define BANDWIDTH_BITS 33
/* Packets of a connection between two events of it: the counters compare modulo 2^32. */
#define COUNT_BITS 31

TP_INLINE __u64 any_bits(int bits)
{
	return nondet_u64() & ((1ULL << bits) - 1);
}

TP_INLINE __u32 any_rtt_us(void)
{
	return any_bits(RTT_BITS);
}

/* As the kernel hands samples over: -1 is none. */
TP_INLINE __s32 any_sample_us(void)
{
	return any_bits(1) ? (__s32)any_bits(RTT_BITS) : -1;
}

TP_INLINE __u32 any_packets(void)
{
	__u32 packets = any_bits(CWND_BITS);

	__CPROVER_assume(packets >= 1); /* the kernel's own window after a time-out */
	return packets;
}

/*
 * ssthresh: from RFC 5681's least to "none yet".  The clamp is ~0 unless a route sets it
 * (RTAX_CWND).  The credit may be another algorithm's, in its unit: the kernel keeps it when
 * a connection's algorithm changes.
 */
TP_INLINE struct tp_cwnd any_window(void)
{
	struct tp_cwnd w = {any_packets(), any_bits(32), any_bits(31), any_bits(32)};

	__CPROVER_assume(w.ssthresh >= TP_CWND_MIN && w.clamp >= TP_CWND_MIN);
	return w;
}

TP_INLINE struct tp_ack any_ack(void)
{
	struct tp_ack a = {any_bits(TIME_BITS), any_bits(ACKED_BITS), any_bits(32),
			   any_bits(32),	any_rtt_us(),	      any_rtt_us()};

	if (any_bits(1))
		a.min_rtt_us = ~0U; /* none yet */
	return a;
}

/* RFC 5681, equation 4.  The kernel itself leaves 1 after a time-out. */
TP_INLINE void check_window(const struct tp_cwnd *before, const struct tp_cwnd *after)
{
	__CPROVER_assert(after->packets >= TP_CWND_MIN || before->packets < TP_CWND_MIN,
			 "cwnd: at least 2");
	__CPROVER_assert(after->packets >= 1, "cwnd: at least 1");
}

TP_INLINE void check_threshold(__u32 ssthresh)
{
	__CPROVER_assert(ssthresh >= TP_CWND_MIN, "cwnd: threshold at least 2");
}

/* One acknowledgement adds so many packets at most. */
TP_INLINE void check_growth(const struct tp_cwnd *before, const struct tp_cwnd *after, __u64 most)
{
	__CPROVER_assert(after->packets <= before->packets + most, "growth: the window jumps");
}

#endif
