/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * laws.h - the arithmetic of bpf/cc, called in the places where the kernel calls it.
 *
 * Not here: undo of losses that were none, marks, idleness.  DCTCP has no ECN, so it is
 * Reno with ECT on its SYN.
 */
#ifndef TCPLAB_LAWS_H
#define TCPLAB_LAWS_H

#include <linux/types.h>
#include "cc/bbr.h"
#include "cc/bbr3.h"
#include "cc/bic.h"
#include "cc/cubic.h"
#include "cc/hstcp.h"
#include "cc/htcp.h"
#include "cc/hybla.h"
#include "cc/illinois.h"
#include "cc/lola.h"
#include "cc/vegas.h"
#include "cc/veno.h"
#include "cc/westwood.h"
#include "cc/yeah.h"

#define SIM_MSS 1448 /* payload of a packet: Ethernet's, with timestamps */
#define SIM_STATE_RECOVERY 3

/* Packets of one flow sent together: a super-packet, or a single packet. */
struct sim_burst {
	__u64 sent_ns, queued_ns;
	__u64 first_ns, delivered_ns; /* for rate samples: of the flow, when this was sent */
	__u32 delivered;
	__u32 first, count; /* packets */
	__u32 drops;	    /* of the flow before it came to the queue */
	__u8 has_arrived, is_settled, is_again;
};

struct sim_law;

struct sim_sender {
	const struct sim_law *law;
	union {
		struct tp_bic bic;
		struct tp_cubic cubic;
		struct tp_hstcp hstcp;
		struct tp_htcp htcp;
		struct tp_hybla hybla;
		struct tp_illinois illinois;
		struct tp_lola lola;
		struct tp_vegas vegas;
		struct tp_veno veno;
		struct tp_westwood westwood;
		struct tp_yeah yeah;
		struct tp_bbr bbr;
		struct tp_bbr3 bbr3;
	};
	struct tp_bbr3_undo bbr3_undo;
	struct tp_cwnd w;
	__u8 state; /* enum tcp_ca_state */
	__u8 is_paced;
	__u32 una, nxt, recover; /* packets */
	__u32 in_flight, delivered, lost;
	__u32 srtt_us, rttvar_us, min_rtt_us;
	__u32 prior_cwnd, prr_delivered, prr_out;
	__u64 pacing_rate; /* bytes per second; 0: not paced */
	__u64 next_ns, line_ns, timeout_ns, first_ns, delivered_ns;
	__u32 pace_waits, random;
	/* bursts: those from settled to settled_to are known to have arrived or not */
	struct sim_burst *bursts;
	__u32 mask, sent, settled;
	/* bursts passed by others, and the delivered amount at that time */
	struct sim_gap {
		__u32 burst, delivered;
	} * gaps;
	__u32 gap_first, gap_last;
	/* packets to send again */
	struct sim_range {
		__u32 first, count;
	} * again;
	__u32 again_first, again_last;
	/* the receiver */
	__u8 *got;
	__u32 got_mask, expected, unacknowledged, late_order;
	__u32 arrived_bursts;
};

/* What an acknowledgement told. */
struct sim_news {
	__u64 now_us;
	__s32 rtt_us; /* negative: none */
	__u32 acked, losses, prior_in_flight;
	const struct sim_burst *newest;
};

struct sim_law {
	const char *name;
	void (*begin)(struct sim_sender *s, const struct tp_ack *a);
	void (*sample)(struct sim_sender *s, const struct sim_news *n);
	void (*grow)(struct sim_sender *s, const struct tp_ack *a);
	__u32 (*threshold)(struct sim_sender *s, __u64 now_us);
	void (*enter)(struct sim_sender *s, const struct tp_ack *a, __u8 state);
	void (*repaired)(struct sim_sender *s);
	void (*control)(struct sim_sender *s, const struct sim_news *n); /* in place of grow */
	__u8 is_paced, has_ect_syn;
};

#define SIM_BEGIN(name)                                                                            \
	static void sim_##name##_begin(struct sim_sender *s, const struct tp_ack *a)               \
	{                                                                                          \
		name##_begin(&s->name, a);                                                         \
	}
#define SIM_SAMPLE(name)                                                                           \
	static void sim_##name##_sample(struct sim_sender *s, const struct sim_news *n)            \
	{                                                                                          \
		name##_sample(&s->name, n->rtt_us, n->acked, n->now_us);                           \
	}
#define SIM_GROW(name)                                                                             \
	static void sim_##name##_grow(struct sim_sender *s, const struct tp_ack *a)                \
	{                                                                                          \
		name##_grow(&s->name, &s->w, a);                                                   \
	}
#define SIM_THRESHOLD(name)                                                                        \
	static __u32 sim_##name##_threshold(struct sim_sender *s, __u64 now_us)                    \
	{                                                                                          \
		return name##_threshold(&s->name, &s->w);                                          \
	}
#define SIM_ENTER(name)                                                                            \
	static void sim_##name##_enter(struct sim_sender *s, const struct tp_ack *a, __u8 state)   \
	{                                                                                          \
		name##_enter(&s->name, a, state, &s->w);                                           \
	}

static void sim_reno_grow(struct sim_sender *s, const struct tp_ack *a)
{
	tp_reno_increase(&s->w, a->acked);
}

static __u32 sim_reno_threshold(struct sim_sender *s, __u64 now_us)
{
	return tp_half(s->w.packets);
}

SIM_BEGIN(bic)
SIM_GROW(bic)
SIM_THRESHOLD(bic)
SIM_ENTER(bic)
SIM_BEGIN(cubic)
SIM_SAMPLE(cubic)
SIM_GROW(cubic)
SIM_THRESHOLD(cubic)
SIM_ENTER(cubic)
SIM_BEGIN(hstcp)
SIM_GROW(hstcp)
SIM_THRESHOLD(hstcp)
SIM_BEGIN(hybla)
SIM_GROW(hybla)
SIM_THRESHOLD(hybla)
SIM_ENTER(hybla)
SIM_BEGIN(illinois)
SIM_SAMPLE(illinois)
SIM_GROW(illinois)
SIM_THRESHOLD(illinois)
SIM_ENTER(illinois)
SIM_BEGIN(vegas)
SIM_SAMPLE(vegas)
SIM_GROW(vegas)
SIM_THRESHOLD(vegas)
SIM_ENTER(vegas)
SIM_BEGIN(veno)
SIM_SAMPLE(veno)
SIM_GROW(veno)
SIM_THRESHOLD(veno)
SIM_BEGIN(yeah)
SIM_SAMPLE(yeah)
SIM_GROW(yeah)
SIM_THRESHOLD(yeah)
SIM_ENTER(yeah)
SIM_BEGIN(htcp)
SIM_GROW(htcp)
SIM_ENTER(htcp)
SIM_BEGIN(lola)
SIM_SAMPLE(lola)
SIM_GROW(lola)
SIM_GROW(westwood)
SIM_THRESHOLD(westwood)

static void sim_htcp_sample(struct sim_sender *s, const struct sim_news *n)
{
	htcp_sample(&s->htcp, n->rtt_us, n->acked, s->w.packets, n->now_us, s->state);
}

static __u32 sim_htcp_threshold(struct sim_sender *s, __u64 now_us)
{
	return htcp_threshold(&s->htcp, &s->w, now_us / TP_USEC_PER_MSEC);
}

static __u32 sim_lola_threshold(struct sim_sender *s, __u64 now_us)
{
	return lola_threshold(&s->lola, &s->w, now_us);
}

static void sim_westwood_begin(struct sim_sender *s, const struct tp_ack *a)
{
	westwood_begin(&s->westwood, a->now_us, s->delivered);
}

static void sim_westwood_sample(struct sim_sender *s, const struct sim_news *n)
{
	westwood_sample(&s->westwood, n->rtt_us, s->delivered, n->now_us);
}

static void sim_westwood_enter(struct sim_sender *s, const struct tp_ack *a, __u8 state)
{
	if (state == TP_STATE_LOSS)
		westwood_timed_out(&s->westwood, &s->w);
}

static void sim_westwood_repaired(struct sim_sender *s)
{
	westwood_repaired(&s->westwood, &s->w);
}

/* ---- BBR, both versions ---- */

static struct tp_bbr_conn sim_conn(struct sim_sender *s, __u64 now_us)
{
	__u64 now_ns = now_us * 1000;

	s->random = s->random * 1664525 + 1013904223;
	return (struct tp_bbr_conn){
	    .now_us = now_us,
	    .delivered = s->delivered,
	    .lost = s->lost,
	    .in_flight = s->in_flight,
	    .sample_delivered = -1,
	    .rtt_us = -1,
	    .interval_us = -1,
	    .mss = SIM_MSS,
	    .clamp = s->w.clamp,
	    .srtt_us = s->srtt_us,
	    .queued_us = s->next_ns > now_ns ? (s->next_ns - now_ns) / 1000 : 0,
	    .pacing_shift = 10,
	    .random = s->random >> 3,
	    .state = s->state,
	    .cwnd_limited = 1,
	    .cwnd = s->w.packets,
	    .ssthresh = s->w.ssthresh,
	    .pacing_rate = s->pacing_rate,
	};
}

/* A rate sample (draft-cheng-iccrg-delivery-rate-estimation, section 3.3). */
static struct tp_bbr_conn sim_sampled(struct sim_sender *s, const struct sim_news *n)
{
	struct tp_bbr_conn c = sim_conn(s, n->now_us);
	__u64 send_us, ack_us;

	c.prior_in_flight = n->prior_in_flight;
	c.acked = n->acked;
	c.losses = n->losses;
	c.rtt_us = n->rtt_us;
	if (!n->newest)
		return c;
	send_us = (n->newest->sent_ns - n->newest->first_ns) / 1000;
	ack_us = n->now_us - n->newest->delivered_ns / 1000;
	c.prior_delivered = n->newest->delivered;
	c.sample_delivered = s->delivered - n->newest->delivered;
	c.interval_us = tp_max64(send_us, ack_us);
	if (c.interval_us < s->min_rtt_us)
		c.interval_us = c.sample_delivered = -1;
	return c;
}

static void sim_put(struct sim_sender *s, const struct tp_bbr_conn *c)
{
	s->w.packets = c->cwnd;
	s->w.ssthresh = c->ssthresh;
	s->pacing_rate = c->pacing_rate;
}

#define SIM_BBR(name)                                                                              \
	static void sim_##name##_begin(struct sim_sender *s, const struct tp_ack *a)               \
	{                                                                                          \
		struct tp_bbr_conn c = sim_conn(s, a->now_us);                                     \
                                                                                                   \
		name##_start(&s->name, &c, s->min_rtt_us);                                         \
		c.ssthresh = TP_SSTHRESH_MAX;                                                      \
		sim_put(s, &c);                                                                    \
	}                                                                                          \
	static void sim_##name##_control(struct sim_sender *s, const struct sim_news *n)           \
	{                                                                                          \
		struct tp_bbr_conn c = sim_sampled(s, n);                                          \
                                                                                                   \
		name##_ack(&s->name, &c);                                                          \
		sim_put(s, &c);                                                                    \
	}

SIM_BBR(bbr)
SIM_BBR(bbr3)

static void sim_bbr_enter(struct sim_sender *s, const struct tp_ack *a, __u8 state)
{
	struct tp_bbr_conn c = sim_conn(s, a->now_us);

	if (state == TP_STATE_LOSS)
		bbr_timeout(&s->bbr, &c);
}

static void sim_bbr3_enter(struct sim_sender *s, const struct tp_ack *a, __u8 state)
{
	if (state == TP_STATE_LOSS)
		bbr3_timeout(&s->bbr3);
}

static __u32 sim_bbr_threshold(struct sim_sender *s, __u64 now_us)
{
	bbr_save_cwnd(&s->bbr, s->w.packets);
	return s->w.ssthresh;
}

static __u32 sim_bbr3_threshold(struct sim_sender *s, __u64 now_us)
{
	bbr3_save(&s->bbr3, &s->bbr3_undo, s->w.packets);
	return s->w.ssthresh;
}

#define SIM_BEGINS(n) .name = #n, .begin = sim_##n##_begin
#define SIM_GROWS(n) .grow = sim_##n##_grow, .threshold = sim_##n##_threshold
#define SIM_SAMPLES(n) .sample = sim_##n##_sample
#define SIM_ENTERS(n) .enter = sim_##n##_enter
#define SIM_CONTROLS(n)                                                                            \
	SIM_BEGINS(n), SIM_ENTERS(n), .control = sim_##n##_control,                                \
				      .threshold = sim_##n##_threshold, .is_paced = 1

/* In the order of simulated.py. */
static const struct sim_law sim_laws[] = {
    {.name = "reno", SIM_GROWS(reno)},
    {SIM_BEGINS(bic), SIM_GROWS(bic), SIM_ENTERS(bic)},
    {SIM_BEGINS(cubic), SIM_GROWS(cubic), SIM_SAMPLES(cubic), SIM_ENTERS(cubic)},
    {SIM_BEGINS(hstcp), SIM_GROWS(hstcp)},
    {SIM_BEGINS(htcp), SIM_GROWS(htcp), SIM_SAMPLES(htcp), SIM_ENTERS(htcp)},
    {SIM_BEGINS(hybla), SIM_GROWS(hybla), SIM_ENTERS(hybla)},
    {SIM_BEGINS(westwood), SIM_GROWS(westwood), SIM_SAMPLES(westwood), SIM_ENTERS(westwood),
     .repaired = sim_westwood_repaired},
    {.name = "dctcp", SIM_GROWS(reno), .has_ect_syn = 1},
    {SIM_BEGINS(vegas), SIM_GROWS(vegas), SIM_SAMPLES(vegas), SIM_ENTERS(vegas)},
    {SIM_BEGINS(lola), SIM_GROWS(lola), SIM_SAMPLES(lola), .is_paced = 1},
    {SIM_BEGINS(veno), SIM_GROWS(veno), SIM_SAMPLES(veno)},
    {SIM_BEGINS(illinois), SIM_GROWS(illinois), SIM_SAMPLES(illinois), SIM_ENTERS(illinois)},
    {SIM_BEGINS(yeah), SIM_GROWS(yeah), SIM_SAMPLES(yeah), SIM_ENTERS(yeah)},
    {SIM_CONTROLS(bbr)},
    {SIM_CONTROLS(bbr3)},
};

#define SIM_LAWS (sizeof(sim_laws) / sizeof(*sim_laws))

#endif
