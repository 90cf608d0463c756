/* SPDX-License-Identifier: GPL-2.0-or-later */
/* prague.h - Prague's arithmetic; see prague.bpf.c. */
#ifndef TCPILOT_PRAGUE_H
#define TCPILOT_PRAGUE_H

#include "lib/ecn.h"
#include "lib/pacing.h"

#define PRAGUE_SHIFT 4		    /* g = 1/16 */
#define PRAGUE_RTT_VIRT_US 25000ULL /* shorter RTTs behave as this one */
#define PRAGUE_PART_SHIFT 32	    /* a packet's parts */
#define PRAGUE_ROUNDS 500	    /* D: so long a flow behaves by its own RTT */
/*
 * The least burst, packets.  The kernel's own is 2: at 10 Mbit/s the second packet of a
 * pair waits 1.2 ms for the first, longer than the marking threshold of L4S queues, 1 ms.
 */
#define PRAGUE_BURST_MIN 1

struct tp_prague {
	struct tp_ecn ecn;
	__u64 alpha_us;	  /* when alpha was last updated */
	__u64 reduced_us; /* when marks last reduced the window */
	__u64 rest;	  /* increase short of a packet: parts times the window */
	__u32 loss_cwnd;
	__u32 marked; /* packets, seen so far */
	__u32 round_end;
	__u16 rounds; /* since slow start ended, D at most */
	__u16 unpaid; /* packets received in recovery without one sent in return: 0 or 1 */
};

/*
 * Section 2.4.4: the flow's virtual RTT.  Its own at first, so
 * that a short path is soon used.
 */
TP_INLINE __u64 prague_round_us(const struct tp_prague *p, __u32 srtt_us)
{
	return p->rounds < PRAGUE_ROUNDS ? srtt_us : tp_max64(srtt_us, PRAGUE_RTT_VIRT_US);
}

TP_INLINE void prague_begin(struct tp_prague *p, __u32 delivered, __u32 marked, __u32 nxt)
{
	*p = (struct tp_prague){};
	p->ecn.alpha = TP_ALPHA_MAX;
	p->marked = marked;
	p->round_end = nxt;
	tp_ecn_round(&p->ecn, delivered, marked, nxt);
}

TP_INLINE void prague_count_rounds(struct tp_prague *p, const struct tp_cwnd *w,
				   const struct tp_ack *a)
{
	if (tp_in_slow_start(w))
		p->rounds = 0;
	if (tp_before(a->una, p->round_end))
		return;
	p->round_end = a->nxt;
	if (!tp_in_slow_start(w))
		p->rounds = tp_min(p->rounds + 1, PRAGUE_ROUNDS);
}

/*
 * Section 2.4.2: alpha moves once for each virtual RTT, so that it is the same for all
 * RTTs.  Called for every acknowledgement: alpha is 1 at first, and a connection whose
 * application is the limit must not keep it until its first mark.
 */
TP_INLINE void prague_observe(struct tp_prague *p, const struct tp_cwnd *w, const struct tp_ack *a,
			      __u32 delivered, __u32 marked)
{
	prague_count_rounds(p, w, a);
	if (a->now_us - p->alpha_us < prague_round_us(p, a->srtt_us))
		return;
	if (tp_ecn_update(&p->ecn, delivered, marked, a->una, a->nxt, PRAGUE_SHIFT))
		p->alpha_us = a->now_us;
}

/*
 * Section 2.4.3: additive increase of (RTT / virtual RTT)^2 packets an RTT: as
 * fast in time as a connection with the virtual RTT.  Only unmarked packets count.
 */
TP_INLINE void prague_increase(struct tp_prague *p, struct tp_cwnd *w, __u32 acked, __u32 srtt_us)
{
	__u64 virt = prague_round_us(p, srtt_us), rtt = tp_max(srtt_us, 1);
	__u64 unit = (__u64)tp_clamp(w->packets, 1, TP_SSTHRESH_MAX) << PRAGUE_PART_SHIFT;
	__u64 step = 1ULL << PRAGUE_PART_SHIFT;

	if (rtt < virt) /* below 25 ms the square fits in 30 bits */
		step = (rtt * rtt << PRAGUE_PART_SHIFT) / (virt * virt);
	/* after a time-out a larger window's rest is worth one packet: the window never jumps */
	p->rest = tp_min64(p->rest, unit) + acked * step;
	w->packets += p->rest / unit;
	p->rest %= unit;
}

/*
 * Section 2.4.2: once a round, alpha / 2 of the window, to parts of a packet.  Growth is
 * as with the virtual RTT, so cuts come no more often than with it: this
 * follows from the aim of section 2.4.4, whose text was not at hand.
 */
TP_INLINE void prague_reduce(struct tp_prague *p, struct tp_cwnd *w, const struct tp_ack *a)
{
	if (a->now_us - p->reduced_us < prague_round_us(p, a->srtt_us))
		return;
	p->reduced_us = a->now_us;
	w->packets = w->ssthresh = tp_ecn_threshold(&p->ecn, w->packets);
	w->credit = 0;
}

/* An acknowledgement while the window is the limit, or with marks: `marked` so far. */
TP_INLINE void prague_grow(struct tp_prague *p, struct tp_cwnd *w, const struct tp_ack *a,
			   __u32 marked)
{
	__u32 ce = marked - p->marked;
	__u32 acked = a->acked > ce ? a->acked - ce : 0;

	p->marked = marked;
	if (ce)
		prague_reduce(p, w, a);
	if (tp_in_slow_start(w))
		acked = tp_slow_start(w, acked);
	if (acked)
		prague_increase(p, w, acked, a->srtt_us);
	w->packets = tp_min(w->packets, w->clamp);
}

/*
 * Recovery from a loss, as RFC 9937 for a threshold of half the window: one packet leaves
 * for two received, down to the threshold.  A threshold above the window is none: a vendor's
 * kernel runs no BPF program in the time of process 1, skips the callbacks to set it if a
 * packet arrives then, and reads its stack in their place.
 */
TP_INLINE void prague_recover(struct tp_prague *p, struct tp_cwnd *w, __u32 in_flight, __u32 acked)
{
	__u32 arrived = p->unpaid + acked;

	p->unpaid = arrived % 2;
	if (w->ssthresh > w->packets)
		w->ssthresh = tp_half(w->packets);
	w->packets = tp_max(w->ssthresh, tp_min(w->packets, in_flight + arrived / 2));
}

/* Section 2.4.1: twice the rate in slow start, and the rate afterwards. */
TP_INLINE __u64 prague_pacing(const struct tp_cwnd *w, __u32 srtt_us, __u32 mss)
{
	__u64 bw = tp_bandwidth(w->packets, tp_max(srtt_us, 1));

	if (tp_in_slow_start(w))
		return tp_pacing_rate(bw, mss, 2 * TP_GAIN_UNIT, 0);
	return tp_pacing_rate(bw, mss, TP_GAIN_UNIT, 0);
}

#endif
