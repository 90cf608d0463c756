/* SPDX-License-Identifier: GPL-2.0-only */
/* bbr3_cycle.h - BBR version 3: state, gains (times 2^8), and the cycle of PROBE_BW. */
#ifndef TCPILOT_BBR3_CYCLE_H
#define TCPILOT_BBR3_CYCLE_H

#include "lib/bbr_conn.h"
#include "lib/pacing.h"

#define BBR3_STARTUP_GAIN (TP_GAIN_UNIT * 277 / 100) /* 4 ln 2 */
#define BBR3_DRAIN_GAIN (TP_GAIN_UNIT / 2)
#define BBR3_DOWN_GAIN (TP_GAIN_UNIT * 90 / 100)
#define BBR3_UP_GAIN (TP_GAIN_UNIT * 5 / 4)
#define BBR3_CWND_GAIN (TP_GAIN_UNIT * 2)
#define BBR3_UP_CWND_GAIN (TP_GAIN_UNIT * 9 / 4)
#define BBR3_MARGIN_PERCENT 1
#define BBR3_LOSS_PERCENT 2   /* of the packets in flight: more is too much */
#define BBR3_FULL_LOSSES 6    /* acknowledgements with losses that end STARTUP */
#define BBR3_BETA_OF_1024 717 /* 0.7 */
#define BBR3_HEADROOM_PERCENT 15
#define BBR3_FULL_ROUNDS 3
#define BBR3_MIN_RTT_WINDOW_MS 10000
#define BBR3_PROBE_RTT_EVERY_MS 5000
#define BBR3_PROBE_RTT_MS 200
#define BBR3_CWND_LEAST 4
#define BBR3_INITIAL_CWND 10
#define BBR3_ROUNDS_MAX 63 /* of cruising: as long as reno needs for a BDP */
#define BBR3_WAIT_MS 2000
#define BBR3_NONE ~0U

enum bbr3_mode {
	BBR3_STARTUP,
	BBR3_DRAIN,
	BBR3_DOWN,
	BBR3_CRUISE,
	BBR3_REFILL,
	BBR3_UP,
	BBR3_PROBE_RTT,
};

struct tp_bbr3 {
	__u32 bw_now, bw_before;	  /* highest of this cycle, and of the last */
	__u32 bw_short, inflight_short;	  /* bounds by recent losses; BBR3_NONE: none */
	__u32 inflight_long;		  /* bound by losses while probing */
	__u32 bw_latest, inflight_latest; /* of the round */
	__u32 min_rtt_us, min_rtt_ms;
	__u32 probe_us, probe_ms, probe_done_ms;
	__u32 round_end, round_lost, round_delivered;
	__u32 cycle_us, wait_ms;
	__u32 prior_cwnd, full_bw;
	__u32 up_per, up_acked;
	__u32 limited_until; /* delivered: what was sent before tells of our small window */
	__u8 mode, full_count, loss_acks, up_rounds, rounds_since;
	__u8 prev_state;
	__u8 full : 1, full_now : 1, round_start : 1, conserve : 1, seen_rtt : 1, idle_restart : 1,
	    loss_in_round : 1, probe_round : 1;
	__u8 advance : 1; /* the cycle's highest bandwidth moves at the next round */
};

TP_INLINE __u32 bbr3_max_bw(const struct tp_bbr3 *b)
{
	return tp_max(b->bw_now, b->bw_before);
}

TP_INLINE __u32 bbr3_bw(const struct tp_bbr3 *b)
{
	return tp_min(bbr3_max_bw(b), b->bw_short);
}

TP_INLINE int bbr3_probing(const struct tp_bbr3 *b)
{
	return b->mode == BBR3_STARTUP || b->mode == BBR3_REFILL || b->mode == BBR3_UP;
}

TP_INLINE __u32 bbr3_pacing_gain(const struct tp_bbr3 *b)
{
	switch (b->mode) {
	case BBR3_STARTUP:
		return BBR3_STARTUP_GAIN;
	case BBR3_DRAIN:
		return BBR3_DRAIN_GAIN;
	case BBR3_DOWN:
		return BBR3_DOWN_GAIN;
	case BBR3_UP:
		return BBR3_UP_GAIN;
	}
	return TP_GAIN_UNIT;
}

TP_INLINE __u32 bbr3_cwnd_gain(const struct tp_bbr3 *b)
{
	if (b->mode == BBR3_PROBE_RTT)
		return TP_GAIN_UNIT / 2;
	return b->mode == BBR3_UP ? BBR3_UP_CWND_GAIN : BBR3_CWND_GAIN;
}

TP_INLINE __u32 bbr3_bdp(const struct tp_bbr3 *b, __u32 bw, __u32 gain)
{
	if (b->min_rtt_us == BBR3_NONE)
		return BBR3_INITIAL_CWND;
	return tp_min64(((((__u64)bw * b->min_rtt_us * gain) >> TP_GAIN_SHIFT) + TP_BW_UNIT - 1) >>
			    TP_BW_SHIFT,
			TP_SSTHRESH_MAX);
}

TP_INLINE __u32 bbr3_beta(__u32 value)
{
	return (__u64)value * BBR3_BETA_OF_1024 / 1024;
}

/* What other flows may need to show themselves (section 5.3.3.6 of the draft: headroom). */
TP_INLINE __u32 bbr3_with_headroom(const struct tp_bbr3 *b)
{
	__u32 room;

	if (b->inflight_long == BBR3_NONE)
		return BBR3_NONE;
	room = tp_max((__u64)b->inflight_long * BBR3_HEADROOM_PERCENT / 100, 1);
	return tp_max(b->inflight_long > room ? b->inflight_long - room : 0, BBR3_CWND_LEAST);
}

TP_INLINE void bbr3_save_cwnd(struct tp_bbr3 *b, __u32 cwnd)
{
	int whole = b->prev_state < BBR_RECOVERY && b->mode != BBR3_PROBE_RTT;

	b->prior_cwnd = whole ? cwnd : tp_max(b->prior_cwnd, cwnd);
}

/* ---- the cycle ---- */

TP_INLINE void bbr3_reset_full(struct tp_bbr3 *b)
{
	b->full_bw = 0;
	b->full_count = 0;
	b->full_now = 0;
}

TP_INLINE void bbr3_enter_mode(struct tp_bbr3 *b, const struct tp_bbr_conn *c, __u8 mode)
{
	b->mode = mode;
	b->cycle_us = c->now_us;
	b->round_end = c->delivered;
}

TP_INLINE void bbr3_start_down(struct tp_bbr3 *b, const struct tp_bbr_conn *c)
{
	bbr3_enter_mode(b, c, BBR3_DOWN);
	b->rounds_since = c->random & 1;
	b->wait_ms = BBR3_WAIT_MS + c->random % 1000;
	b->up_per = BBR3_NONE;
	b->advance = 1;
}

TP_INLINE void bbr3_start_refill(struct tp_bbr3 *b, const struct tp_bbr_conn *c)
{
	bbr3_enter_mode(b, c, BBR3_REFILL);
	b->bw_short = b->inflight_short = BBR3_NONE;
	b->up_rounds = 0;
	b->up_acked = 0;
}

/* The long-term bound rises by one packet, then 2, 4, ... for each window. */
TP_INLINE void bbr3_raise_slope(struct tp_bbr3 *b, const struct tp_bbr_conn *c)
{
	b->up_per = tp_max(c->cwnd >> tp_min(b->up_rounds, 30), 1);
	b->up_rounds = tp_min(b->up_rounds + 1, 30);
}

TP_INLINE void bbr3_start_up(struct tp_bbr3 *b, const struct tp_bbr_conn *c)
{
	bbr3_enter_mode(b, c, BBR3_UP);
	bbr3_reset_full(b);
	b->full_bw = b->bw_latest;
	bbr3_raise_slope(b, c);
}

/* A cycle lasts two to three seconds, or as many rounds as reno needs (section 5.3.3.5). */
TP_INLINE int bbr3_time_to_probe(const struct tp_bbr3 *b, const struct tp_bbr_conn *c)
{
	__u32 rounds = tp_min(bbr3_bdp(b, bbr3_bw(b), TP_GAIN_UNIT), BBR3_ROUNDS_MAX);

	return (__u32)(c->now_us - b->cycle_us) / TP_USEC_PER_MSEC > b->wait_ms ||
	       b->rounds_since >= rounds;
}

TP_INLINE int bbr3_drained(const struct tp_bbr3 *b, const struct tp_bbr_conn *c)
{
	return c->in_flight <= bbr3_with_headroom(b) &&
	       c->in_flight <= bbr3_bdp(b, bbr3_max_bw(b), TP_GAIN_UNIT);
}

TP_INLINE void bbr3_raise_long(struct tp_bbr3 *b, const struct tp_bbr_conn *c)
{
	if (b->inflight_long == BBR3_NONE || !c->cwnd_limited || c->cwnd < b->inflight_long)
		return;
	b->up_acked += c->acked;
	if (b->up_acked >= b->up_per) {
		__u32 step = b->up_acked / tp_max(b->up_per, 1);

		b->up_acked -= step * b->up_per;
		b->inflight_long += step;
	}
	if (b->round_start)
		bbr3_raise_slope(b, c);
}

TP_INLINE void bbr3_update_cycle(struct tp_bbr3 *b, struct tp_bbr_conn *c)
{
	switch (b->mode) {
	case BBR3_DOWN:
	case BBR3_CRUISE:
		if (bbr3_time_to_probe(b, c)) {
			bbr3_start_refill(b, c);
		} else if (b->mode == BBR3_DOWN && bbr3_drained(b, c)) {
			b->mode = BBR3_CRUISE; /* the cycle's clock goes on */
		}
		break;
	case BBR3_REFILL:
		if (b->round_start)
			bbr3_start_up(b, c);
		break;
	case BBR3_UP:
		bbr3_raise_long(b, c);
		if (c->cwnd_limited && b->inflight_long != BBR3_NONE &&
		    c->cwnd >= b->inflight_long) {
			/* held by the bound and not by the path: go on */
			b->full_bw = b->bw_latest;
			b->full_count = 0;
		} else if (b->full_now) {
			bbr3_start_down(b, c);
		}
	}
}

#endif
