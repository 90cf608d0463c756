/* SPDX-License-Identifier: GPL-2.0-only */
/* prague.h - Prague's arithmetic; see prague.bpf.c. */
#ifndef TCPILOT_PRAGUE_H
#define TCPILOT_PRAGUE_H

#include "lib/ecn.h"
#include "lib/pacing.h"

#define PRAGUE_SHIFT 4		    /* g = 1/16 */
#define PRAGUE_RTT_VIRT_US 25000ULL /* shorter RTTs behave as this one */
#define PRAGUE_PART (1U << 20)	    /* a packet's parts */

struct tp_prague {
	struct tp_ecn ecn;
	__u64 alpha_us;	  /* when alpha was last updated */
	__u64 reduced_us; /* when marks last reduced the window */
	__u32 loss_cwnd;
	__u32 marked;	/* packets, seen so far */
	__u32 rest;	/* parts of a packet of the increase */
	__u32 cut_rest; /* parts of a packet of the decrease */
	__u8 congested; /* in this round */
	__u8 seen;	/* marks at all: slow start is over */
};

TP_INLINE __u64 prague_round_us(__u32 srtt_us)
{
	return tp_max64(srtt_us, PRAGUE_RTT_VIRT_US);
}

TP_INLINE void prague_begin(struct tp_prague *p, __u32 delivered, __u32 marked, __u32 nxt)
{
	*p = (struct tp_prague){};
	p->ecn.alpha = TP_ALPHA_MAX;
	p->marked = marked;
	tp_ecn_round(&p->ecn, delivered, marked, nxt);
}

/* Section 2.4.2: alpha moves once for each virtual RTT, so that it is the same for all RTTs. */
TP_INLINE void prague_update_alpha(struct tp_prague *p, __u32 delivered, __u32 marked,
				   const struct tp_ack *a)
{
	if (a->now_us - p->alpha_us < prague_round_us(a->srtt_us))
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
	__u64 virt = prague_round_us(srtt_us), rtt = tp_max(srtt_us, 1);
	__u64 step = (PRAGUE_PART * rtt / virt) * rtt / virt;

	p->rest += (__u64)acked * step / tp_max(w->packets, 1);
	w->packets += p->rest / PRAGUE_PART;
	p->rest %= PRAGUE_PART;
}

/* Section 2.4.2: once a round, alpha / 2 of the window, to parts of a packet. */
TP_INLINE void prague_reduce(struct tp_prague *p, struct tp_cwnd *w, const struct tp_ack *a)
{
	__u64 cut = ((__u64)w->packets * p->ecn.alpha) / 2 + p->cut_rest;

	if (a->now_us - p->reduced_us < a->srtt_us)
		return;
	p->reduced_us = a->now_us;
	p->cut_rest = cut % TP_ALPHA_MAX;
	w->packets = tp_max(w->packets - tp_min64(cut / TP_ALPHA_MAX, w->packets / 2), TP_CWND_MIN);
	w->ssthresh = w->packets;
	w->credit = 0;
}

/* An acknowledgement, with how many packets were delivered and marked so far. */
TP_INLINE void prague_grow(struct tp_prague *p, struct tp_cwnd *w, const struct tp_ack *a,
			   __u32 delivered, __u32 marked)
{
	__u32 ce = marked - p->marked;
	__u32 acked = a->acked > ce ? a->acked - ce : 0;

	p->marked = marked;
	prague_update_alpha(p, delivered, marked, a);
	if (ce) {
		prague_reduce(p, w, a);
		p->seen = 1;
	}
	if (tp_in_slow_start(w))
		acked = tp_slow_start(w, acked);
	if (acked)
		prague_increase(p, w, acked, a->srtt_us);
	w->packets = tp_min(w->packets, w->clamp);
}

/* Section 2.4.1: twice the rate in slow start, and 3 % below it afterwards. */
TP_INLINE __u64 prague_pacing(const struct tp_cwnd *w, __u32 srtt_us, __u32 mss)
{
	__u64 bw = tp_bandwidth(w->packets, tp_max(srtt_us, 1));

	if (tp_in_slow_start(w))
		return tp_pacing_rate(bw, mss, 2 * TP_GAIN_UNIT, 0);
	return tp_pacing_rate(bw, mss, TP_GAIN_UNIT, 0);
}

#endif
