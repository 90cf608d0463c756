/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * bbr.h - BBR's arithmetic: the model of the path, and its consequences.
 * Described in bbr.bpf.c.  Pure: a connection comes in as struct tp_bbr_conn,
 * and the values to set leave in its last fields.
 */
#ifndef TCPILOT_BBR_H
#define TCPILOT_BBR_H

#include "lib/filter.h"
#include "lib/pacing.h"
#include "lib/bbr_conn.h"

#define BBR_HIGH_GAIN (TP_GAIN_UNIT * 2885 / 1000 + 1) /* 2/ln 2 */
#define BBR_DRAIN_GAIN (TP_GAIN_UNIT * 1000 / 2885)
#define BBR_CWND_GAIN (TP_GAIN_UNIT * 2)
#define BBR_CYCLE 8
#define BBR_BW_ROUNDS 10
#define BBR_MIN_RTT_WINDOW_MS 10000
#define BBR_PROBE_RTT_MS 200
#define BBR_CWND_LEAST 4
#define BBR_FULL_ROUNDS 3
#define BBR_MARGIN_PERCENT 1
#define BBR_INITIAL_CWND 10
/* A policer: two intervals of 4 to 16 rounds, each with losses of a fifth, alike within 1/8 or 4
 * kbit/s. */
#define BBR_LT_ROUNDS_MIN 4
#define BBR_LT_ROUNDS_MAX 16
#define BBR_LT_LOSS_OF_256 50
#define BBR_LT_DIFF_BYTES 500
#define BBR_LT_USE_ROUNDS 48
/* Aggregated acknowledgements: the excess of 10 rounds, in two halves, of 100 ms at most. */
#define BBR_EXTRA_ROUNDS 5
#define BBR_EXTRA_MAX_US 100000
#define BBR_EPOCH_MAX 0xfffffU

enum bbr_mode { BBR_STARTUP, BBR_DRAIN, BBR_PROBE_BW, BBR_PROBE_RTT };

struct tp_bbr {
	struct tp_max bw;
	__u32 min_rtt_us;
	__u32 min_rtt_ms; /* when it was seen */
	__u32 probe_rtt_done_ms;
	__u32 round_end; /* the round ends when this much was delivered */
	__u32 rounds;
	__u32 cycle_us; /* when the phase began */
	__u32 prior_cwnd;
	__u32 full_bw;
	__u32 lt_bw;
	__u32 lt_delivered, lt_lost, lt_ms; /* at the start of the interval */
	__u32 epoch_us, epoch_acked;
	__u32 limited_until;	       /* delivered: earlier packets only show our small window */
	__u16 extra_now, extra_before; /* of the half window, and of the one before */
	__u8 extra_rounds;
	__u8 mode, cycle;
	__u8 full_count, lt_rounds;
	__u8 prev_state;
	__u8 full : 1, round_start : 1, conserve : 1, idle_restart : 1, seen_rtt : 1,
	    probe_rtt_round : 1;
	__u8 lt_sampling : 1, lt_use : 1;
};

TP_INLINE __u32 bbr_bw(const struct tp_bbr *b)
{
	return b->lt_use ? b->lt_bw : tp_max_value(&b->bw);
}

TP_INLINE __u32 bbr_pacing_gain(const struct tp_bbr *b)
{
	switch (b->mode) {
	case BBR_STARTUP:
		return BBR_HIGH_GAIN;
	case BBR_DRAIN:
		return BBR_DRAIN_GAIN;
	case BBR_PROBE_BW:
		if (!b->lt_use && b->cycle == 0)
			return TP_GAIN_UNIT * 5 / 4;
		if (!b->lt_use && b->cycle == 1)
			return TP_GAIN_UNIT * 3 / 4;
	}
	return TP_GAIN_UNIT;
}

TP_INLINE __u32 bbr_cwnd_gain(const struct tp_bbr *b)
{
	if (b->mode == BBR_PROBE_RTT)
		return TP_GAIN_UNIT;
	return b->mode == BBR_PROBE_BW ? BBR_CWND_GAIN : BBR_HIGH_GAIN;
}

TP_INLINE __u64 bbr_bdp(const struct tp_bbr *b, __u32 bw, __u32 gain)
{
	if (b->min_rtt_us == ~0U)
		return BBR_INITIAL_CWND;
	return ((((__u64)bw * b->min_rtt_us * gain) >> TP_GAIN_SHIFT) + TP_BW_UNIT - 1) >>
	       TP_BW_SHIFT;
}

/* Room for bursts at both ends, and for delayed acknowledgements (an even number). */
TP_INLINE __u32 bbr_with_bursts(const struct tp_bbr *b, const struct tp_bbr_conn *c, __u64 packets)
{
	packets += 3 * tp_burst(c->pacing_rate, c->pacing_shift, c->mss);
	packets = (packets + 1) & ~1ULL;
	if (b->mode == BBR_PROBE_BW && b->cycle == 0)
		packets += 2; /* so that a gain above 1 shows if the BDP is tiny */
	return tp_min64(packets, TP_SSTHRESH_MAX);
}

TP_INLINE __u32 bbr_inflight(const struct tp_bbr *b, const struct tp_bbr_conn *c, __u32 gain)
{
	return bbr_with_bursts(b, c, bbr_bdp(b, tp_max_value(&b->bw), gain));
}

/* Packets in the network once the pacer has sent the ones it holds. */
TP_INLINE __u32 bbr_in_net(const struct tp_bbr *b, const struct tp_bbr_conn *c, __u32 in_flight)
{
	__u64 gone = tp_delivers(bbr_bw(b), c->queued_us);

	if (bbr_pacing_gain(b) > TP_GAIN_UNIT)
		in_flight += tp_burst(c->pacing_rate, c->pacing_shift, c->mss);
	return gone >= in_flight ? 0 : in_flight - gone;
}

TP_INLINE void bbr_save_cwnd(struct tp_bbr *b, __u32 cwnd)
{
	int whole = b->prev_state < BBR_RECOVERY && b->mode != BBR_PROBE_RTT;

	b->prior_cwnd = whole ? cwnd : tp_max(b->prior_cwnd, cwnd);
}

/* ---- a policer: long-term sampling ---- */

TP_INLINE void bbr_lt_interval(struct tp_bbr *b, const struct tp_bbr_conn *c)
{
	b->lt_ms = bbr_now_ms(c);
	b->lt_delivered = c->delivered;
	b->lt_lost = c->lost;
	b->lt_rounds = 0;
}

TP_INLINE void bbr_lt_reset(struct tp_bbr *b, const struct tp_bbr_conn *c)
{
	b->lt_bw = 0;
	b->lt_use = 0;
	b->lt_sampling = 0;
	bbr_lt_interval(b, c);
}

TP_INLINE void bbr_lt_end(struct tp_bbr *b, const struct tp_bbr_conn *c, __u32 bw)
{
	if (b->lt_bw) {
		__u32 diff = bw > b->lt_bw ? bw - b->lt_bw : b->lt_bw - bw;

		if ((__u64)diff * 8 <= b->lt_bw ||
		    tp_pacing_rate(diff, c->mss, TP_GAIN_UNIT, BBR_MARGIN_PERCENT) <=
			BBR_LT_DIFF_BYTES) {
			b->lt_bw = ((__u64)bw + b->lt_bw) / 2;
			b->lt_use = 1;
			b->lt_rounds = 0;
			return;
		}
	}
	b->lt_bw = bw;
	bbr_lt_interval(b, c);
}

TP_INLINE void bbr_start_probe_bw(struct tp_bbr *b, const struct tp_bbr_conn *c)
{
	/* Any phase but the one below 1, to keep flows from probing together. */
	b->mode = BBR_PROBE_BW;
	b->cycle = (BBR_CYCLE - c->random % (BBR_CYCLE - 1)) & (BBR_CYCLE - 1);
	b->cycle_us = c->now_us;
}

TP_INLINE void bbr_lt_sample(struct tp_bbr *b, const struct tp_bbr_conn *c)
{
	__u32 lost, delivered, ms;

	if (b->lt_use) {
		if (b->mode == BBR_PROBE_BW && b->round_start &&
		    ++b->lt_rounds >= BBR_LT_USE_ROUNDS) {
			bbr_lt_reset(b, c);
			bbr_start_probe_bw(b, c);
		}
		return;
	}
	if (!b->lt_sampling) {
		/* a policer's bucket is empty when it first drops */
		if (!c->losses)
			return;
		bbr_lt_interval(b, c);
		b->lt_sampling = 1;
	}
	if (c->app_limited) {
		bbr_lt_reset(b, c);
		return;
	}
	b->lt_rounds += b->round_start;
	if (b->lt_rounds < BBR_LT_ROUNDS_MIN)
		return;
	if (b->lt_rounds > BBR_LT_ROUNDS_MAX) {
		bbr_lt_reset(b, c);
		return;
	}
	lost = c->lost - b->lt_lost;
	delivered = c->delivered - b->lt_delivered;
	if (!c->losses || !delivered || ((__u64)lost << 8) < (__u64)BBR_LT_LOSS_OF_256 * delivered)
		return;
	ms = bbr_now_ms(c) - b->lt_ms;
	if (ms)
		bbr_lt_end(b, c,
			   tp_min64(tp_bandwidth(delivered, (__u64)ms * TP_USEC_PER_MSEC), ~0U));
}

/* ---- the model ---- */

TP_INLINE void bbr_update_bw(struct tp_bbr *b, const struct tp_bbr_conn *c)
{
	__u64 bw;

	b->round_start = 0;
	if (c->sample_delivered < 0 || c->interval_us <= 0)
		return;
	if ((__s32)(c->prior_delivered - b->round_end) >= 0) {
		b->round_end = c->delivered;
		b->rounds++;
		b->round_start = 1;
		b->conserve = 0;
	}
	bbr_lt_sample(b, c);
	bw = tp_min64(tp_bandwidth(c->sample_delivered, c->interval_us), ~0U);
	/* An application-limited sample measures the application, unless it is higher. */
	if (!c->app_limited || bw >= tp_max_value(&b->bw))
		tp_max_update(&b->bw, BBR_BW_ROUNDS, b->rounds, bw);
}

/* draft-cardwell-iccrg-bbr-congestion-control-02, section 4.5.5. */
TP_INLINE void bbr_update_extra_acked(struct tp_bbr *b, const struct tp_bbr_conn *c)
{
	__u64 expected;
	__u32 extra;

	if (!c->acked || c->sample_delivered < 0 || c->interval_us <= 0)
		return;
	if (b->round_start && ++b->extra_rounds >= BBR_EXTRA_ROUNDS) {
		b->extra_rounds = 0;
		b->extra_before = b->extra_now;
		b->extra_now = 0;
	}
	expected = tp_delivers(bbr_bw(b), (__u32)(c->now_us - b->epoch_us));
	if (b->epoch_acked <= expected || b->epoch_acked + c->acked >= BBR_EPOCH_MAX) {
		b->epoch_acked = 0;
		b->epoch_us = c->now_us;
		expected = 0;
	}
	b->epoch_acked += c->acked;
	extra = tp_min(b->epoch_acked - expected, tp_min(c->cwnd, 0xffff));
	b->extra_now = tp_max(b->extra_now, extra);
}

TP_INLINE void bbr_update_cycle(struct tp_bbr *b, const struct tp_bbr_conn *c)
{
	__u32 gain = bbr_pacing_gain(b);
	int over = (__u32)(c->now_us - b->cycle_us) > b->min_rtt_us;

	if (b->mode != BBR_PROBE_BW || b->lt_use)
		return;
	if (gain > TP_GAIN_UNIT) /* until the pipe was really filled so far */
		over = over && (c->losses ||
				bbr_in_net(b, c, c->prior_in_flight) >= bbr_inflight(b, c, gain));
	else if (gain < TP_GAIN_UNIT) /* only as long as there is a queue */
		over = over ||
		       bbr_in_net(b, c, c->prior_in_flight) <= bbr_inflight(b, c, TP_GAIN_UNIT);
	if (over) {
		b->cycle = (b->cycle + 1) & (BBR_CYCLE - 1);
		b->cycle_us = c->now_us;
	}
}

TP_INLINE void bbr_check_full(struct tp_bbr *b, const struct tp_bbr_conn *c)
{
	__u32 bw = tp_max_value(&b->bw);

	if (b->full || !b->round_start || c->app_limited)
		return;
	if ((__u64)bw * 4 >= (__u64)b->full_bw * 5) {
		b->full_bw = bw;
		b->full_count = 0;
		return;
	}
	b->full = ++b->full_count >= BBR_FULL_ROUNDS;
}

TP_INLINE void bbr_check_drain(struct tp_bbr *b, struct tp_bbr_conn *c)
{
	if (b->mode == BBR_STARTUP && b->full) {
		b->mode = BBR_DRAIN;
		c->ssthresh = bbr_inflight(b, c, TP_GAIN_UNIT);
	}
	if (b->mode == BBR_DRAIN &&
	    bbr_in_net(b, c, c->in_flight) <= bbr_inflight(b, c, TP_GAIN_UNIT))
		bbr_start_probe_bw(b, c);
}

TP_INLINE void bbr_leave_probe_rtt(struct tp_bbr *b, struct tp_bbr_conn *c)
{
	if (!b->probe_rtt_done_ms || (__s32)(bbr_now_ms(c) - b->probe_rtt_done_ms) <= 0)
		return;
	b->min_rtt_ms = bbr_now_ms(c);
	c->cwnd = tp_max(c->cwnd, b->prior_cwnd);
	if (b->full)
		bbr_start_probe_bw(b, c);
	else
		b->mode = BBR_STARTUP;
}

TP_INLINE void bbr_in_probe_rtt(struct tp_bbr *b, struct tp_bbr_conn *c)
{
	b->limited_until = c->delivered + c->in_flight;
	if (!b->probe_rtt_done_ms) {
		if (c->in_flight > BBR_CWND_LEAST)
			return;
		b->probe_rtt_done_ms = (bbr_now_ms(c) + BBR_PROBE_RTT_MS) | 1; /* 0 is "not yet" */
		b->probe_rtt_round = 0;
		b->round_end = c->delivered;
		return;
	}
	b->probe_rtt_round |= b->round_start;
	if (b->probe_rtt_round)
		bbr_leave_probe_rtt(b, c);
}

TP_INLINE void bbr_update_min_rtt(struct tp_bbr *b, struct tp_bbr_conn *c)
{
	__u32 now_ms = bbr_now_ms(c);
	int expired = (__s32)(now_ms - b->min_rtt_ms) > BBR_MIN_RTT_WINDOW_MS;

	if (c->rtt_us >= 0 && ((__u32)c->rtt_us < b->min_rtt_us || (expired && !c->ack_delayed))) {
		b->min_rtt_us = c->rtt_us;
		b->min_rtt_ms = now_ms;
	}
	if (expired && !b->idle_restart && b->mode != BBR_PROBE_RTT) {
		bbr_save_cwnd(b, c->cwnd);
		b->mode = BBR_PROBE_RTT;
		b->probe_rtt_done_ms = 0;
	}
	if (b->mode == BBR_PROBE_RTT)
		bbr_in_probe_rtt(b, c);
	if (c->sample_delivered > 0)
		b->idle_restart = 0;
}

/* ---- control ---- */

/* Before there is an RTT, a millisecond; then the rate at which the window is full. */
TP_INLINE void bbr_first_pacing_rate(struct tp_bbr *b, struct tp_bbr_conn *c)
{
	__u32 rtt_us = c->srtt_us ? c->srtt_us : TP_USEC_PER_MSEC;

	b->seen_rtt = c->srtt_us != 0;
	bbr_pace(c, tp_pacing_rate(tp_bandwidth(c->cwnd, rtt_us), c->mss, BBR_HIGH_GAIN,
				   BBR_MARGIN_PERCENT));
}

TP_INLINE void bbr_set_pacing(struct tp_bbr *b, struct tp_bbr_conn *c, __u32 gain)
{
	__u64 rate = tp_pacing_rate(bbr_bw(b), c->mss, gain, BBR_MARGIN_PERCENT);

	if (!b->seen_rtt && c->srtt_us)
		bbr_first_pacing_rate(b, c);
	if (b->full || rate > c->pacing_rate)
		bbr_pace(c, rate);
}

/* Recovery: packet conservation for a round, and the window back at its end.  1: cwnd is set. */
TP_INLINE int bbr_recover(struct tp_bbr *b, struct tp_bbr_conn *c)
{
	__u8 before = b->prev_state;
	__u32 cwnd = c->cwnd;

	if (c->losses)
		cwnd = cwnd > c->losses ? cwnd - c->losses : 1;
	if (c->state == BBR_RECOVERY && before != BBR_RECOVERY) {
		b->conserve = 1;
		b->round_end = c->delivered;
		cwnd = c->in_flight + c->acked;
	} else if (before >= BBR_RECOVERY && c->state < BBR_RECOVERY) {
		cwnd = tp_max(cwnd, b->prior_cwnd);
		b->conserve = 0;
	}
	b->prev_state = c->state;
	c->cwnd = b->conserve ? tp_max(cwnd, c->in_flight + c->acked) : cwnd;
	return b->conserve;
}

TP_INLINE void bbr_set_cwnd(struct tp_bbr *b, struct tp_bbr_conn *c)
{
	__u64 target;

	if (c->acked && !bbr_recover(b, c)) {
		target = bbr_bdp(b, bbr_bw(b), bbr_cwnd_gain(b));
		if (b->full)
			target += tp_min64(tp_max(b->extra_now, b->extra_before),
					   tp_delivers(bbr_bw(b), BBR_EXTRA_MAX_US));
		target = bbr_with_bursts(b, c, target);
		if (b->full)
			c->cwnd = tp_min64(c->cwnd + c->acked, target);
		else if (c->cwnd < target || c->delivered < BBR_INITIAL_CWND)
			c->cwnd += c->acked;
		c->cwnd = tp_max(c->cwnd, BBR_CWND_LEAST);
	}
	c->cwnd = tp_min(c->cwnd, c->clamp);
	if (b->mode == BBR_PROBE_RTT)
		c->cwnd = tp_min(c->cwnd, BBR_CWND_LEAST);
}

/* ---- called by the shell ---- */

TP_INLINE void bbr_start(struct tp_bbr *b, struct tp_bbr_conn *c, __u32 min_rtt_us)
{
	*b = (struct tp_bbr){};
	b->min_rtt_us = min_rtt_us;
	b->min_rtt_ms = bbr_now_ms(c);
	b->epoch_us = b->cycle_us = c->now_us;
	b->mode = BBR_STARTUP;
	b->limited_until = c->delivered;
	/* set in mid-connection, the first round begins now and not at packet 0 */
	b->round_end = c->delivered;
	bbr_lt_reset(b, c);
	bbr_first_pacing_rate(b, c);
}

TP_INLINE void bbr_ack(struct tp_bbr *b, struct tp_bbr_conn *c)
{
	/* samples at PROBE_RTT's window say nothing of the path */
	if ((__s32)(c->prior_delivered - b->limited_until) < 0)
		c->app_limited = 1;
	bbr_update_bw(b, c);
	bbr_update_extra_acked(b, c);
	bbr_update_cycle(b, c);
	bbr_check_full(b, c);
	bbr_check_drain(b, c);
	bbr_update_min_rtt(b, c);
	bbr_set_pacing(b, c, bbr_pacing_gain(b));
	bbr_set_cwnd(b, c);
}

/* Sending starts again after the application had nothing to send. */
TP_INLINE void bbr_restart(struct tp_bbr *b, struct tp_bbr_conn *c)
{
	b->idle_restart = 1;
	b->epoch_us = c->now_us;
	b->epoch_acked = 0;
	if (b->mode == BBR_PROBE_BW)
		bbr_set_pacing(b, c, TP_GAIN_UNIT);
	else if (b->mode == BBR_PROBE_RTT)
		bbr_leave_probe_rtt(b, c);
}

/* A retransmission time-out: as if a round with a loss had passed. */
TP_INLINE void bbr_timeout(struct tp_bbr *b, struct tp_bbr_conn *c)
{
	b->prev_state = BBR_LOSS;
	b->full_bw = 0;
	b->round_start = 1;
	c->losses = 1;
	bbr_lt_sample(b, c);
}

/* The loss was none: the pipe may not be full. */
TP_INLINE void bbr_undo(struct tp_bbr *b, const struct tp_bbr_conn *c)
{
	b->full_bw = 0;
	b->full_count = 0;
	bbr_lt_reset(b, c);
}

#endif
