/* SPDX-License-Identifier: GPL-2.0-or-later */
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
#define BBR3_FULL_LOSSES 6    /* acknowledgements with losses to end STARTUP */
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
#define BBR3_EXTRA_ROUNDS 5 /* of each half: aggregation is remembered for 10 rounds */
#define BBR3_EPOCH_MAX 0xfffffU
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
	__u32 round_end; /* delivered, at the start of the round */
	__u32 cycle_us;
	__u32 prior_cwnd, full_bw;
	__u32 up_per, up_acked;
	__u32 limited_until; /* delivered: samples of earlier packets are of our small window */
	__u32 epoch_us, epoch_acked; /* of aggregation */
	__u16 extra_now, extra_before;
	__u16 round_lost, wait_ms;
	__u8 mode, full_count, loss_acks, up_rounds, rounds_since;
	__u8 prev_state, extra_rounds;
	__u8 full : 1, full_now : 1, round_start : 1, conserve : 1, seen_rtt : 1, idle_restart : 1,
	    loss_in_round : 1, probe_round : 1;
	__u8 stopping : 1;	/* the probe is over, its packets are still being acknowledged */
	__u8 probe_sample : 1;	/* acknowledgements are of a probe's packets */
	__u8 too_high : 1;	/* the last probe lost too much */
	__u8 precautionary : 1; /* the last probe stopped as soon as the bound was reached */
	__u8 undo_startup : 1, undo_up : 1; /* modes ended by a loss */
};

/* The bounds before a loss that may turn out to be none (section 5.5.11). */
struct tp_bbr3_undo {
	__u32 bw_short, inflight_short, inflight_long;
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

/* Section 5.6.4.2: offloads need three bursts in flight at least; probing shows where BDPs are
 * tiny.
 */
TP_INLINE __u32 bbr3_quantize(const struct tp_bbr3 *b, const struct tp_bbr_conn *c, __u32 packets)
{
	packets = tp_max(packets, 3 * tp_burst(c->pacing_rate, c->pacing_shift, c->mss));
	packets = tp_max(packets, BBR3_CWND_LEAST);
	return b->mode == BBR3_UP ? packets + 2 : packets;
}

/* Packets in flight at the highest bandwidth without a queue. */
TP_INLINE __u32 bbr3_inflight(const struct tp_bbr3 *b, const struct tp_bbr_conn *c)
{
	return bbr3_quantize(b, c, bbr3_bdp(b, bbr3_max_bw(b), TP_GAIN_UNIT));
}

/* The BDP, unless congestion has cut the window. */
TP_INLINE __u32 bbr3_target(const struct tp_bbr3 *b, const struct tp_bbr_conn *c)
{
	return tp_min(bbr3_bdp(b, bbr3_bw(b), TP_GAIN_UNIT), c->cwnd);
}

TP_INLINE __u32 bbr3_beta(__u32 value)
{
	return (__u64)value * BBR3_BETA_OF_1024 / 1024;
}

/* Room for other flows to show themselves (section 5.3.3.6 of the draft: headroom). */
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
	b->loss_in_round = 0;
	b->bw_latest = b->inflight_latest = 0;
	b->stopping = 1;
}

TP_INLINE void bbr3_start_refill(struct tp_bbr3 *b, const struct tp_bbr_conn *c)
{
	bbr3_enter_mode(b, c, BBR3_REFILL);
	b->bw_short = b->inflight_short = BBR3_NONE;
	b->up_rounds = 0;
	b->up_acked = 0;
	b->precautionary = 0;
	b->stopping = 0;
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
	b->probe_sample = 1;
	bbr3_raise_slope(b, c);
}

/* A cycle lasts two to three seconds, or as many rounds as reno needs (section 5.3.3.5). */
TP_INLINE int bbr3_time_to_probe(const struct tp_bbr3 *b, const struct tp_bbr_conn *c)
{
	__u32 rounds = tp_min(bbr3_target(b, c), BBR3_ROUNDS_MAX);

	return (__u32)(c->now_us - b->cycle_us) / TP_USEC_PER_MSEC > b->wait_ms ||
	       b->rounds_since >= rounds;
}

TP_INLINE int bbr3_drained(const struct tp_bbr3 *b, const struct tp_bbr_conn *c)
{
	return c->in_flight <= bbr3_with_headroom(b) && c->in_flight <= bbr3_inflight(b, c);
}

/* Losses of the round, in percent of its packets, are too many (section 5.5.10.2). */
TP_INLINE int bbr3_too_many_lost(const struct tp_bbr3 *b, const struct tp_bbr_conn *c)
{
	__u64 lost = b->round_lost;
	__u64 sent = lost + tp_max(c->delivered - b->round_end, c->prior_in_flight);

	return lost * 100 > sent * BBR3_LOSS_PERCENT;
}

TP_INLINE void bbr3_raise_long(struct tp_bbr3 *b, const struct tp_bbr_conn *c)
{
	if (!c->cwnd_limited || c->cwnd < b->inflight_long)
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

/*
 * The packets in flight when the acknowledged one was sent have been delivered since:
 * the sample's volume.  If little of it was lost, so much is safe (AdaptLongTermModel).
 */
TP_INLINE void bbr3_raise_bounds(struct tp_bbr3 *b, const struct tp_bbr_conn *c)
{
	if (!b->full || b->inflight_long == BBR3_NONE || bbr3_too_many_lost(b, c))
		return;
	if (c->sample_delivered > 0)
		b->inflight_long = tp_max(b->inflight_long, c->sample_delivered);
	if (b->mode == BBR3_UP)
		bbr3_raise_long(b, c);
}

/*
 * The first round after a probe is over: its last samples have come.  The cycle's
 * highest bandwidth moves on, unless the application was the limit, since its
 * samples say nothing of the path.  1: a probe cut short only by caution went
 * well, and the next may begin (precautionary probing).
 */
TP_INLINE int bbr3_end_of_probe(struct tp_bbr3 *b, const struct tp_bbr_conn *c)
{
	int in_cycle = b->mode >= BBR3_DOWN && b->mode <= BBR3_UP;

	if (!b->stopping || !b->round_start)
		return 0;
	b->stopping = 0;
	b->probe_sample = 0;
	if (in_cycle && !c->app_limited && b->bw_now) {
		b->bw_before = b->bw_now;
		b->bw_now = 0;
	}
	return in_cycle && b->precautionary && !b->too_high;
}

TP_INLINE int bbr3_time_to_go_down(struct tp_bbr3 *b, const struct tp_bbr_conn *c)
{
	if (b->too_high && c->in_flight >= b->inflight_long) {
		b->precautionary = 1;
		return 1;
	}
	if (c->cwnd_limited && c->cwnd >= b->inflight_long) {
		/* held by the bound and not by the path: go on */
		bbr3_reset_full(b);
		b->full_bw = b->bw_latest;
		return 0;
	}
	return b->full_now;
}

TP_INLINE void bbr3_update_cycle(struct tp_bbr3 *b, struct tp_bbr_conn *c)
{
	if (bbr3_end_of_probe(b, c)) {
		bbr3_start_refill(b, c);
		return;
	}
	bbr3_raise_bounds(b, c);
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
		if (bbr3_time_to_go_down(b, c)) {
			b->too_high = 0;
			bbr3_start_down(b, c);
		}
	}
}

#endif
