/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * sender.h - a bulk TCP sender: RFC 5681, RFC 6298, RFC 6675's and RFC 8985's loss
 * detection with full knowledge of arrivals, RFC 6937's proportional rate reduction, and
 * super-packets of about a millisecond, as a Linux host cuts them.
 */
#ifndef TCPLAB_SENDER_H
#define TCPLAB_SENDER_H

#include "laws.h"

#define SIM_INITIAL_WINDOW 10 /* RFC 6928 */
#define SIM_REORDER 3	      /* a packet passed by so many others counts as lost */
#define SIM_RTO_LEAST_US 200000
#define SIM_DEFER_SHARE 3 /* a burst may wait for room while less than this part is free */

/* How a sender's host works. */
struct sim_host {
	__u64 line_rate;  /* bytes per second */
	__u32 most_burst; /* packets of a super-packet; 1: none */
};

static struct tp_ack sim_ack_of(const struct sim_sender *s, __u64 now_us, __u32 acked)
{
	return (struct tp_ack){
	    .now_us = now_us,
	    .acked = acked,
	    .una = s->una,
	    .nxt = s->nxt,
	    .srtt_us = s->srtt_us,
	    .min_rtt_us = s->min_rtt_us,
	};
}

/* Twice the window's rate in slow start, 1.2 times after that (Linux's defaults). */
static void sim_set_pacing(struct sim_sender *s)
{
	__u64 percent = s->w.packets < s->w.ssthresh / 2 ? 200 : 120;

	if (!s->law->control)
		s->pacing_rate =
		    (__u64)s->w.packets * SIM_MSS * 10000 * percent / tp_max(s->srtt_us, 1);
}

static __u64 sim_ns_of(__u64 bytes, __u64 rate)
{
	return rate ? bytes * 1000000000ULL / rate : 0;
}

/* Packets of a super-packet: a millisecond's, and more on short paths. */
static __u32 sim_burst_of(const struct sim_sender *s, const struct sim_host *host)
{
	__u64 bytes = (s->pacing_rate >> 10) + (65536 >> tp_min(s->min_rtt_us >> 9, 31));

	return tp_clamp(bytes / SIM_MSS, tp_min(2, host->most_burst), host->most_burst);
}

static void sim_measure_rtt(struct sim_sender *s, __u32 rtt_us)
{
	__u32 off = s->srtt_us > rtt_us ? s->srtt_us - rtt_us : rtt_us - s->srtt_us;

	s->min_rtt_us = tp_min(s->min_rtt_us, rtt_us);
	s->rttvar_us = s->srtt_us ? (3 * s->rttvar_us + off) / 4 : rtt_us / 2;
	s->srtt_us = s->srtt_us ? (7 * (__u64)s->srtt_us + rtt_us) / 8 : rtt_us;
}

static __u64 sim_timeout_us(const struct sim_sender *s)
{
	return s->srtt_us + tp_max(4 * s->rttvar_us, SIM_RTO_LEAST_US);
}

static void sim_enter(struct sim_sender *s, __u8 state, __u64 now_us)
{
	struct tp_ack a = sim_ack_of(s, now_us, 0);

	if (s->law->enter)
		s->law->enter(s, &a, state);
	s->state = state;
}

/* Congestion begins. */
static void sim_reduce(struct sim_sender *s, __u64 now_us)
{
	s->prior_cwnd = s->w.packets;
	s->w.ssthresh = s->law->threshold(s, now_us);
	s->prr_delivered = s->prr_out = 0;
	s->recover = s->nxt;
}

static void sim_lose(struct sim_sender *s, struct sim_burst *b)
{
	b->is_settled = 1;
	s->in_flight -= b->count;
	s->lost += b->count;
	s->again[s->again_last++ & s->mask] = (struct sim_range){b->first, b->count};
}

/* Bursts up to `passed` have arrived, or were dropped. */
static void sim_settle(struct sim_sender *s, __u32 passed, struct sim_news *n)
{
	__u32 lost = s->lost, reorder = s->state == TP_STATE_OPEN ? SIM_REORDER : 1;

	for (; (__s32)(passed - s->settled) > 0; s->settled++) {
		struct sim_burst *b = &s->bursts[s->settled & s->mask];

		if (b->is_settled)
			continue;
		if (!b->has_arrived) {
			s->gaps[s->gap_last++ & s->mask] =
			    (struct sim_gap){s->settled, s->delivered};
			continue;
		}
		b->is_settled = 1;
		s->in_flight -= b->count;
		s->delivered += b->count;
		n->acked += b->count;
		n->newest = b;
		if (!b->is_again)
			n->rtt_us = n->now_us - b->sent_ns / 1000;
	}
	for (; s->gap_first != s->gap_last; s->gap_first++) {
		struct sim_gap *gap = &s->gaps[s->gap_first & s->mask];

		if (s->delivered - gap->delivered < reorder)
			break;
		sim_lose(s, &s->bursts[gap->burst & s->mask]);
	}
	n->losses = s->lost - lost;
}

/* RFC 6937, section 3, with the bound on slow start of its own section 3. */
static void sim_reduce_on(struct sim_sender *s, const struct sim_news *n, int has_advanced)
{
	__s64 below = (__s64)s->w.ssthresh - s->in_flight, more;

	s->prr_delivered += n->acked;
	if (below < 0)
		more = ((__u64)s->w.ssthresh * s->prr_delivered + s->prior_cwnd - 1) /
			   tp_max(s->prior_cwnd, 1) -
		       (__s64)s->prr_out;
	else
		more = tp_min_signed(below,
				     tp_max_signed((__s64)s->prr_delivered - s->prr_out, n->acked) +
					 (has_advanced && !n->losses));
	more = tp_max_signed(more, s->prr_out ? 0 : 1);
	s->w.packets = s->in_flight + more;
}

static void sim_states(struct sim_sender *s, const struct sim_news *n)
{
	if (n->losses && s->state == TP_STATE_OPEN) {
		sim_reduce(s, n->now_us);
		sim_enter(s, SIM_STATE_RECOVERY, n->now_us);
	}
	if (s->state == TP_STATE_OPEN || (__s32)(s->una - s->recover) < 0)
		return;
	if (s->state == SIM_STATE_RECOVERY && !s->law->control) {
		s->w.packets = s->w.ssthresh;
		if (s->law->repaired)
			s->law->repaired(s);
	}
	sim_enter(s, TP_STATE_OPEN, n->now_us);
}

/* An acknowledgement: bursts up to `passed` are settled, all packets before `next` arrived. */
static void sim_acknowledged(struct sim_sender *s, __u32 passed, __u32 next, __u64 now_ns)
{
	struct sim_news n = {.now_us = now_ns / 1000, .rtt_us = -1};
	int has_advanced = (__s32)(next - s->una) > 0;
	struct tp_ack a;

	n.prior_in_flight = s->in_flight;
	sim_settle(s, passed, &n);
	if (has_advanced)
		s->una = next;
	if (n.rtt_us > 0)
		sim_measure_rtt(s, n.rtt_us);
	if (n.acked) {
		s->first_ns = n.newest->sent_ns;
		s->delivered_ns = now_ns;
		s->timeout_ns = now_ns + sim_timeout_us(s) * 1000;
	}
	if (n.acked && s->law->sample)
		s->law->sample(s, &n);
	sim_states(s, &n);
	a = sim_ack_of(s, n.now_us, n.acked);
	if (s->law->control)
		s->law->control(s, &n);
	else if (s->state == SIM_STATE_RECOVERY)
		sim_reduce_on(s, &n, has_advanced);
	else if (n.acked)
		s->law->grow(s, &a);
	s->w.packets = tp_clamp(s->w.packets, 1, s->w.clamp);
	sim_set_pacing(s);
}

/* The retransmission timer has expired: everything without a known arrival is lost. */
static void sim_timed_out(struct sim_sender *s, __u64 now_ns)
{
	if (s->state == TP_STATE_OPEN)
		sim_reduce(s, now_ns / 1000);
	s->recover = s->nxt;
	for (; s->gap_first != s->gap_last; s->gap_first++)
		sim_lose(s, &s->bursts[s->gaps[s->gap_first & s->mask].burst & s->mask]);
	for (__u32 i = s->settled; i != s->sent; i++)
		if (!s->bursts[i & s->mask].is_settled)
			sim_lose(s, &s->bursts[i & s->mask]);
	s->w.packets = 1;
	sim_enter(s, TP_STATE_LOSS, now_ns / 1000);
	s->timeout_ns = now_ns + 2 * sim_timeout_us(s) * 1000;
}

/* What is sent next: the packets of a burst; count 0: nothing now. */
static struct sim_range sim_next(struct sim_sender *s, const struct sim_host *host, int *is_again)
{
	__u32 room = s->w.packets > s->in_flight ? s->w.packets - s->in_flight : 0, most;

	*is_again = 1;
	for (; s->again_first != s->again_last; s->again_first++) {
		struct sim_range r = s->again[s->again_first & s->mask];

		if ((__s32)(s->una - (r.first + r.count)) < 0)
			return room ? r : (struct sim_range){};
	}
	*is_again = 0;
	most = sim_burst_of(s, host);
	if (room < most && s->in_flight && s->state == TP_STATE_OPEN &&
	    room < s->w.packets / SIM_DEFER_SHARE)
		return (struct sim_range){};
	return (struct sim_range){s->nxt, tp_min(most, room)};
}

#endif
