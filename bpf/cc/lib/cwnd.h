/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * cwnd.h - the steps of nearly every congestion control: slow
 * start, additive increase, halving.  Pure integer arithmetic, in packets.
 *
 * Comes in: a copy of the socket's window.  Called by bpf/cc, and by
 * crates/core on the host.
 */
#ifndef TCPILOT_CWND_H
#define TCPILOT_CWND_H

#include "../../core/num.h"

/* A function checked once by the verifier, without knowledge of its arguments. */
#ifdef __bpf__
#define TP_GLOBAL __attribute__((noinline))
#else
#define TP_GLOBAL static inline
#endif

/*
 * Makes the compiler read the state again.  The verifier does not know a socket's
 * content, so the ways to this place become one for it.
 */
#define TP_FORGET() asm volatile("" ::: "memory")

#define TP_USEC_PER_SEC 1000000ULL
#define TP_USEC_PER_MSEC 1000ULL
#define TP_SSTHRESH_MAX 0x7fffffffU /* "no threshold yet" */
#define TP_CWND_MIN 2U		    /* RFC 5681, equation 4: two segments at least */

/* The used states of the kernel's machine (enum tcp_ca_state, linux/tcp.h). */
#define TP_STATE_OPEN 0 /* nothing is lost or out of order */
#define TP_STATE_LOSS 4 /* the retransmission timer has expired */

struct tp_cwnd {
	__u32 packets;
	__u32 credit; /* packets acknowledged and not yet turned into window */
	__u32 ssthresh;
	__u32 clamp;
};

/* An acknowledgement, as congestion avoidance sees it. */
struct tp_ack {
	__u64 now_us;
	__u32 acked; /* packets newly acknowledged */
	__u32 una;   /* sequence number acknowledged up to */
	__u32 nxt;   /* sequence number to be sent next */
	__u32 srtt_us;
	__u32 min_rtt_us; /* ~0: none yet */
};

/* Whether sequence number a comes before b, RFC 9293, section 3.4. */
TP_INLINE int tp_before(__u32 a, __u32 b)
{
	return (__s32)(a - b) < 0;
}

TP_INLINE int tp_in_slow_start(const struct tp_cwnd *w)
{
	return w->packets < w->ssthresh;
}

/*
 * RFC 5681, section 3.1: a packet for each packet acknowledged, until ssthresh.
 * Returns the packets left for congestion avoidance.
 */
TP_INLINE __u32 tp_slow_start(struct tp_cwnd *w, __u32 acked)
{
	__u32 room = tp_in_slow_start(w) ? w->ssthresh - w->packets : 0;
	__u32 step = tp_min(acked, room);

	w->packets = tp_min(w->packets + step, w->clamp);
	return acked - step;
}

/*
 * A packet for each `per` packets acknowledged.  Packets saved up while `per`
 * was larger are worth one packet: the window never jumps.
 */
TP_INLINE void tp_increase(struct tp_cwnd *w, __u32 per, __u32 acked)
{
	per = tp_max(per, 1);
	if (w->credit >= per) {
		w->credit = 0;
		w->packets++;
	}
	w->credit += acked;
	if (w->credit >= per) {
		__u32 step = w->credit / per;

		w->credit -= step * per;
		w->packets += step;
	}
	w->packets = tp_min(w->packets, w->clamp);
}

/*
 * A packet for each `per` parts; the rest is kept in `credit`, whose unit is the
 * algorithm's own.  In a window of 100,000 packets an acknowledgement is worth less
 * than any fixed part of a packet, so dropping a remainder would stop growth.
 */
TP_INLINE void tp_add_parts(struct tp_cwnd *w, __u64 parts, __u64 per)
{
	per = tp_max64(per, 1);
	/* saved while `per` was larger, or by another algorithm in its unit: a packet at most */
	parts += tp_min64(w->credit, per);
	w->packets = tp_min64(w->packets + parts / per, w->clamp);
	w->credit = tp_min64(parts % per, ~0U);
}

/* RFC 5681, equation 3: a packet for each window acknowledged. */
TP_INLINE void tp_reno_increase(struct tp_cwnd *w, __u32 acked)
{
	acked = tp_slow_start(w, acked);
	if (acked)
		tp_increase(w, w->packets, acked);
}

/* RFC 5681, equation 4, of the window instead of the flight. */
TP_INLINE __u32 tp_half(__u32 packets)
{
	return tp_max(packets / 2, TP_CWND_MIN);
}

/* packets * numerator / denominator, two at least. */
TP_INLINE __u32 tp_scale(__u32 packets, __u32 numerator, __u32 denominator)
{
	return tp_max((__u64)packets * numerator / denominator, TP_CWND_MIN);
}

#endif
