/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tune.h - the arithmetic of the tunings: from the figures to the values to set.
 *
 * Pure functions over the structures of abi.h, integers only: the pilot includes
 * this, and crates/core compiles the same text.  The rule of the initial
 * window is that of Hung, Zhang and Lu's slides (Fine-Grained TCP Tuning), its
 * careful form RFC 9959's; their constants are ours, see docs/use/tuning.md.
 */
#ifndef TCPILOT_TUNE_H
#define TCPILOT_TUNE_H

#include "../../abi/tune.h"
#include "../window.h"

#define TP_RTO_MIN_US 200000  /* the kernel's least RTO; BPF may only lower it */
#define TP_SYN_RTO_US 1000000 /* the kernel's, RFC 6298 */
#define TP_RWND_LEAST 4	      /* packets, the slides' bound */
#define TP_BRAKE_MOST 7
#define TP_BRAKE_RELEASE_NS 10000000000ULL /* the brake loses one step in so long */
#define TP_BRAKE_CLEAN 8		   /* so many windows without loss take one step back */
/* With fewer windows than this the initial one is a sizeable part of the rate. */
#define TP_CREDIT_WINDOWS 16

/* Time the ends themselves may add to a round trip. */
#define TP_RTT_SLACK_US 1000

#define TP_FIRST_WINDOW 10 /* packets, the kernel's initial window */

struct tp_iw {
	__u32 saved_packets; /* 0: nothing is saved */
	__u32 flows;	     /* live on the path, this one included */
	__u32 rtt_us;	     /* the handshake's */
	__u32 srtt_us;	     /* the path's */
	__u32 min_rtt_us;
	__u32 base_packets; /* the kernel's own window */
	__u32 brake;
};

TP_INLINE int tp_rtt_below(__u32 rtt_us, __u32 min_rtt_us, __u32 percent)
{
	return (__u64)rtt_us * 100 < (__u64)min_rtt_us * percent;
}

/*
 * The slides' rule.  share = ssthresh / flows;
 *   srtt < low * min:  max(share / low_divisor, base)
 *   srtt < mid * min:  max(share / mid_divisor, base)
 *   else:              max(share / high_divisor, 1)
 */
TP_INLINE __u32 tp_iw_slides(const struct tp_tuning *t, const struct tp_iw *in)
{
	__u32 share = in->saved_packets / (in->flows ? in->flows : 1);
	__u32 divisor = t->iw_high_divisor, least = 1;

	if (tp_rtt_below(in->srtt_us, in->min_rtt_us, t->iw_low_percent)) {
		divisor = t->iw_low_divisor;
		least = in->base_packets;
	} else if (tp_rtt_below(in->srtt_us, in->min_rtt_us, t->iw_mid_percent)) {
		divisor = t->iw_mid_divisor;
		least = in->base_packets;
	}
	return (__u32)tp_max64(share / (divisor ? divisor : 1), least);
}

/* RFC 9959: no jump unless the RTT fits the saved one.  It must not be below half of
 * the saved one, nor above it by a queue (the RFC allows tenfold).  The jump is at most
 * half of the saved window, and here only a live flow's share of this half. */
TP_INLINE __u32 tp_iw_careful(const struct tp_tuning *t, const struct tp_iw *in)
{
	__u32 jump = in->saved_packets / 2 / (in->flows ? in->flows : 1);

	if (2 * (__u64)in->rtt_us < in->min_rtt_us ||
	    (in->rtt_us > in->min_rtt_us + TP_RTT_SLACK_US &&
	     !tp_rtt_below(in->rtt_us, in->min_rtt_us, t->iw_low_percent)))
		return in->base_packets;
	return (__u32)tp_max64(jump, in->base_packets);
}

/* The initial window in packets; the kernel's if there is no reason for another. */
TP_INLINE __u32 tp_initial_window(const struct tp_tuning *t, const struct tp_iw *in)
{
	__u32 iw;

	if (!in->saved_packets || !in->min_rtt_us || !in->rtt_us)
		return in->base_packets;
	iw = t->iw_careful ? tp_iw_careful(t, in) : tp_iw_slides(t, in);
	if (iw <= in->base_packets)
		return iw;
	iw = in->base_packets + ((iw - in->base_packets) >> (in->brake & 31));
	return (__u32)tp_max64(tp_min64(iw, t->iw_most_packets), in->base_packets);
}

/* Bytes per second at which a window goes out within half a round trip, as the
 * kernel paces slow start.  Over a whole round trip its last packet would come as
 * late as that of two windows. */
TP_INLINE __u32 tp_window_rate(__u32 packets, __u32 mss, __u32 rtt_us)
{
	__u64 rate = 2 * (__u64)packets * mss * 1000000 / (rtt_us ? rtt_us : 1);

	return (__u32)tp_min64(rate, 0xfffffffe); /* all ones would mean no limit */
}

/* 64 KiB in packets: the kernel hands so much to a device at once without pacing. */
TP_INLINE __u32 tp_burst_packets(__u32 mss)
{
	return (__u32)tp_max64(65536 / (mss ? mss : 1), 10);
}

/* The brake as it is now: it loses a step in each period since it moved. */
TP_INLINE __u32 tp_brake_now(__u32 brake, __u64 moved_ns, __u64 now_ns)
{
	__u64 steps = now_ns > moved_ns ? (now_ns - moved_ns) / TP_BRAKE_RELEASE_NS : 0;

	return steps < brake ? brake - (__u32)steps : 0;
}

/*
 * The fitting window of a path, by one connection: its slow-start threshold if it has
 * one.  If it never left slow start, half of its window: the window doubles in a round
 * trip, so half of it was acknowledged in one; and BBR's window is twice its BDP.
 * Never more than half of the packets sent: a short connection fills no window.
 */
TP_INLINE __u32 tp_window_shown(__u32 ssthresh_packets, __u32 cwnd_packets, __u32 sent_packets)
{
	__u32 window = ssthresh_packets ? ssthresh_packets : cwnd_packets / 2;

	return (__u32)tp_min64(window, sent_packets / 2);
}

/* used: the path's count of connections, modulo 2^16, when one last needed the
 * tuning.  Once in 2^16 an old use looks recent; this does no harm. */
TP_INLINE int tp_is_unused(__u16 used, __u64 connections)
{
	return (__u16)(connections - used) >= TP_UNUSED_RUN;
}

/* Whether a connection's rate is due to its congestion control, and not to a tuned
 * initial window. */
TP_INLINE int tp_is_creditable(__u32 sent_packets, __u32 iw_packets)
{
	return sent_packets >= TP_CREDIT_WINDOWS * iw_packets;
}

/* Variation goes up at once and down slowly: too long a timer costs some waiting, too
 * short a timer a needless retransmission. */
TP_INLINE __u32 tp_rttvar(__u32 old_us, __u32 sample_us)
{
	return sample_us >= old_us ? sample_us : old_us - (old_us >> 3) + (sample_us >> 3);
}

/* Twice RFC 6298's SRTT + 4 RTTVAR: a SYN has no TLP before it, and the peer's
 * listener may be slow.  0: the kernel's. */
TP_INLINE __u32 tp_syn_rto_us(__u32 srtt_us, __u32 rttvar_us, __u32 floor_us)
{
	__u64 rto = 2 * ((__u64)srtt_us + 4 * (__u64)rttvar_us);

	if (!srtt_us)
		return 0;
	rto = tp_max64(rto, floor_us);
	return rto < TP_SYN_RTO_US ? (__u32)rto : 0;
}

/* The kernel adds its least RTO to SRTT if 4 RTTVAR is less.  Ours is the path's 4
 * RTTVAR and a quarter of its SRTT, because a connection learns its own variation
 * late.  0: the kernel's. */
TP_INLINE __u32 tp_min_rto_us(__u32 srtt_us, __u32 rttvar_us, __u32 floor_us)
{
	__u64 rto = 4 * (__u64)rttvar_us + srtt_us / 4;

	if (!srtt_us)
		return 0;
	rto = tp_max64(rto, floor_us);
	return rto < TP_RTO_MIN_US ? (__u32)rto : 0;
}

/* Kernel ticks, rounded up, two at least: a single one may end at once. */
TP_INLINE __u32 tp_ticks(__u32 us, __u32 ticks_per_s)
{
	return (__u32)tp_max64(((__u64)us * ticks_per_s + 999999) / 1000000, 2);
}

/* max(beta * BDP / (MSS * flows), 4) packets; 0 if no BDP is known. */
TP_INLINE __u32 tp_receive_window(__u64 bdp_bytes, __u32 beta_x8, __u32 mss, __u32 flows)
{
	__u64 packets;

	if (!bdp_bytes || !beta_x8 || !mss)
		return 0;
	packets = tp_min64(bdp_bytes, 1ULL << 40) * beta_x8 / 8 / mss / (flows ? flows : 1);
	return (__u32)tp_max64(tp_min64(packets, 1 << 20), TP_RWND_LEAST);
}

/* The kernel's first receive window in bytes, whatever the path. */
#define TP_RWND_KERNEL 65535

/* The window in packets for a SYN or SYN-ACK to announce, from the path's share
 * above.  It is lowered only if others are live, and raised only as far as there is
 * room (room_bytes; 0: none).  0: the kernel's. */
TP_INLINE __u32 tp_receive_reply(const struct tp_tuning *t, __u32 packets, __u32 mss, __u32 others,
				 __u32 room_bytes)
{
	__u32 kernels;

	if (!packets || !mss)
		return 0;
	kernels = TP_RWND_KERNEL / mss;
	if (packets < kernels) {
		packets = (__u32)tp_max64(packets, t->rwnd_least_bytes / mss);
		return others && packets < kernels ? packets : 0;
	}
	packets = (__u32)tp_min64(packets, tp_min64(t->rwnd_most_bytes, room_bytes) / mss);
	return packets > kernels ? packets : 0;
}

/* Four bits for each tuning: the lowest is set if the connection goes without it.
 * The ports decide, so this needs no memory; tp_is_withheld reads it. */
TP_INLINE __u32 tp_hold_out(__u32 ports, __u32 seed, __u32 shift)
{
	__u32 x = (ports ^ seed) * 0x9e3779b1; /* 2^32 / golden ratio */

	if (!shift)
		return 0;
	x = (x ^ x >> 15) * 0x85ebca6b;
	x ^= x >> 13;
	x &= 0x11111111 * ((1U << (shift < 4 ? shift : 4)) - 1);
	x |= x >> 2 & 0x33333333;
	x |= x >> 1 & 0x55555555;
	return ~x & 0x11111111;
}

TP_INLINE int tp_is_withheld(__u32 withheld, __u32 tune)
{
	return withheld >> (4 * (tune & 7)) & 1;
}

/* Measures of a path, to tell its kind of network. */
struct tp_net_measures {
	__u32 min_rtt_us;
	__u32 rttvar_us;
	__u64 rate; /* bytes per second at most; 0: not known */
	int wireless;
};

struct tp_net_found {
	__u8 net; /* enum tp_net */
	__u8 why; /* enum tp_net_why */
};

#define TP_NET_FOUND(kind, reason)                                                                 \
	((struct tp_net_found){.net = TP_NET_##kind, .why = TP_NET_WHY_##reason})

/* The kind of network, and the reason.  The bounds are ours: below 2 ms no network
 * is wide; RTTVAR above a third of the least RTT comes from radio and its
 * schedulers; 1 MB in flight is eighty times RFC 7323's long fat pipe. */
TP_INLINE struct tp_net_found tp_infer_net(const struct tp_net_measures *m)
{
	__u64 bdp = m->rate / 1000 * m->min_rtt_us / 1000;

	if (!m->min_rtt_us)
		return TP_NET_FOUND(UNKNOWN, FEW);
	if (m->wireless)
		return TP_NET_FOUND(WIFI, INTERFACE);
	if (m->min_rtt_us <= 2000 && m->rttvar_us <= 2000)
		return TP_NET_FOUND(DATA_CENTER, RTT);
	if (m->min_rtt_us >= 15000 && 3 * (__u64)m->rttvar_us > m->min_rtt_us && m->rate < 25000000)
		return TP_NET_FOUND(CELLULAR, JITTER);
	if (m->min_rtt_us >= 20000 && bdp >= 1000000)
		return TP_NET_FOUND(LONG_FAT, BDP);
	return TP_NET_FOUND(UNKNOWN, NONE);
}

#endif
