/* SPDX-License-Identifier: GPL-2.0-or-later */
/* bbr3.h - BBR version 3: model, PROBE_RTT and control; see bbr3.bpf.c. */
#ifndef TCPILOT_BBR3_H
#define TCPILOT_BBR3_H

#include "bbr3_cycle.h"

/* ---- the model ---- */

TP_INLINE void bbr3_inflight_too_high(struct tp_bbr3 *b, const struct tp_bbr_conn *c)
{
	__u32 in_flight = c->sample_delivered + b->round_lost; /* when it was sent */

	b->too_high = 1;
	b->probe_sample = 0; /* once per probe */
	if (!c->app_limited)
		b->inflight_long =
		    tp_max(tp_max(in_flight, bbr3_beta(bbr3_target(b, c))), BBR3_CWND_LEAST);
	if (b->mode == BBR3_UP) {
		b->undo_up = 1;
		bbr3_start_down(b, c);
	}
}

/* Not probing: a round with losses bounds bandwidth and inflight by beta (section 5.5.10.3). */
TP_INLINE void bbr3_lower_bounds(struct tp_bbr3 *b, const struct tp_bbr_conn *c)
{
	if (!b->loss_in_round || bbr3_probing(b))
		return;
	if (b->bw_short == BBR3_NONE)
		b->bw_short = bbr3_max_bw(b);
	if (b->inflight_short == BBR3_NONE)
		b->inflight_short = c->cwnd;
	b->bw_short = tp_max(b->bw_latest, bbr3_beta(b->bw_short));
	b->inflight_short = tp_max(b->inflight_latest, bbr3_beta(b->inflight_short));
}

TP_INLINE void bbr3_new_round(struct tp_bbr3 *b, const struct tp_bbr_conn *c)
{
	b->round_end = c->delivered;
	b->round_start = 1;
	b->conserve = 0;
	b->rounds_since = tp_min(b->rounds_since + 1, 255);
}

TP_INLINE __u32 bbr3_sample_bw(const struct tp_bbr_conn *c)
{
	return tp_min64(tp_bandwidth(c->sample_delivered, c->interval_us), 0x7fffffff);
}

/* A loss while a probe's packets are acknowledged, be it in UP or in the DOWN after it. */
TP_INLINE void bbr3_note_losses(struct tp_bbr3 *b, const struct tp_bbr_conn *c)
{
	if (!c->losses)
		return;
	b->loss_in_round = 1;
	b->loss_acks = tp_min(b->loss_acks + 1, 255);
	b->round_lost = tp_min(b->round_lost + c->losses, 0xffff);
	if (b->probe_sample && bbr3_too_many_lost(b, c))
		bbr3_inflight_too_high(b, c);
}

/* The highest rate and volume of the round, and the meaning of its losses. */
TP_INLINE void bbr3_update_model(struct tp_bbr3 *b, struct tp_bbr_conn *c)
{
	__u32 bw;

	b->round_start = 0;
	if (c->sample_delivered < 0 || c->interval_us <= 0)
		return;
	if ((__s32)(c->prior_delivered - b->round_end) >= 0)
		bbr3_new_round(b, c);
	bw = bbr3_sample_bw(c);
	b->bw_latest = tp_max(b->bw_latest, bw);
	b->inflight_latest = tp_max(b->inflight_latest, c->sample_delivered);
	if (!c->app_limited || bw >= bbr3_max_bw(b))
		b->bw_now = tp_max(b->bw_now, bw);
	bbr3_note_losses(b, c);
}

/* Section 5.5.9: packets beyond the bandwidth, at most of the last ten rounds. */
TP_INLINE void bbr3_update_extra_acked(struct tp_bbr3 *b, const struct tp_bbr_conn *c)
{
	__u64 expected;

	if (!c->acked || c->sample_delivered < 0 || c->interval_us <= 0)
		return;
	if (b->round_start && (!b->full || ++b->extra_rounds >= BBR3_EXTRA_ROUNDS)) {
		b->extra_rounds = 0;
		b->extra_before = b->full ? b->extra_now : 0; /* STARTUP remembers a round */
		b->extra_now = 0;
	}
	expected = tp_delivers(bbr3_bw(b), (__u32)(c->now_us - b->epoch_us));
	if (b->epoch_acked <= expected || b->epoch_acked + c->acked >= BBR3_EPOCH_MAX) {
		b->epoch_acked = 0;
		b->epoch_us = c->now_us;
		expected = 0;
	}
	b->epoch_acked += c->acked;
	b->extra_now =
	    tp_max(b->extra_now, tp_min(b->epoch_acked - expected, tp_min(c->cwnd, 0xffff)));
}

TP_INLINE void bbr3_check_full(struct tp_bbr3 *b, const struct tp_bbr_conn *c)
{
	if (b->full_now || !b->round_start || c->app_limited)
		return;
	if ((__u64)b->bw_latest * 4 >= (__u64)b->full_bw * 5) {
		bbr3_reset_full(b);
		b->full_bw = b->bw_latest;
		return;
	}
	b->full_now = ++b->full_count >= BBR3_FULL_ROUNDS;
	b->full |= b->full_now;
}

TP_INLINE void bbr3_check_startup(struct tp_bbr3 *b, struct tp_bbr_conn *c)
{
	if (b->mode == BBR3_STARTUP && !b->full && b->round_start &&
	    b->loss_acks >= BBR3_FULL_LOSSES && bbr3_too_many_lost(b, c)) {
		b->full = 1; /* section 5.3.1.3 */
		b->undo_startup = 1;
		b->inflight_long =
		    tp_max(bbr3_bdp(b, bbr3_max_bw(b), TP_GAIN_UNIT), b->inflight_latest);
	}
	if (b->mode == BBR3_STARTUP && b->full) {
		b->mode = BBR3_DRAIN;
		c->ssthresh = bbr3_bdp(b, bbr3_max_bw(b), TP_GAIN_UNIT);
	}
	if (b->mode == BBR3_DRAIN && c->in_flight <= bbr3_inflight(b, c))
		bbr3_start_down(b, c);
}

/* Once a round, after everything has looked at it. */
TP_INLINE void bbr3_end_round(struct tp_bbr3 *b, const struct tp_bbr_conn *c)
{
	if (!b->round_start)
		return;
	bbr3_lower_bounds(b, c);
	b->loss_in_round = 0;
	b->loss_acks = 0;
	b->round_lost = 0;
	/* the sample that ended the round is the next one's first */
	b->bw_latest = bbr3_sample_bw(c);
	b->inflight_latest = c->sample_delivered;
}

/* ---- PROBE_RTT ---- */

TP_INLINE void bbr3_leave_probe_rtt(struct tp_bbr3 *b, struct tp_bbr_conn *c)
{
	if (!b->probe_done_ms || (__s32)(bbr_now_ms(c) - b->probe_done_ms) <= 0)
		return;
	b->probe_ms = bbr_now_ms(c);
	c->cwnd = tp_max(c->cwnd, b->prior_cwnd);
	b->bw_short = b->inflight_short = BBR3_NONE;
	if (!b->full) {
		b->mode = BBR3_STARTUP;
		return;
	}
	bbr3_start_down(b, c);
	b->mode = BBR3_CRUISE;
}

TP_INLINE __u32 bbr3_probe_rtt_cwnd(const struct tp_bbr3 *b)
{
	return tp_max(bbr3_bdp(b, bbr3_bw(b), TP_GAIN_UNIT / 2), BBR3_CWND_LEAST);
}

TP_INLINE void bbr3_in_probe_rtt(struct tp_bbr3 *b, struct tp_bbr_conn *c)
{
	b->limited_until = c->delivered + c->in_flight;
	if (!b->probe_done_ms) {
		if (c->in_flight > bbr3_probe_rtt_cwnd(b))
			return;
		b->probe_done_ms = (bbr_now_ms(c) + BBR3_PROBE_RTT_MS) | 1;
		b->probe_round = 0;
		b->round_end = c->delivered;
		return;
	}
	b->probe_round |= b->round_start;
	if (b->probe_round)
		bbr3_leave_probe_rtt(b, c);
}

/* Section 5.5.7: a minimum of 5 s says when to probe, one of 10 s is the model's. */
TP_INLINE void bbr3_update_min_rtt(struct tp_bbr3 *b, struct tp_bbr_conn *c)
{
	__u32 now_ms = bbr_now_ms(c);
	int expired = (__s32)(now_ms - b->probe_ms) > BBR3_PROBE_RTT_EVERY_MS;

	if (c->rtt_us >= 0 && ((__u32)c->rtt_us < b->probe_us || (expired && !c->ack_delayed))) {
		b->probe_us = c->rtt_us;
		b->probe_ms = now_ms;
	}
	if (b->probe_us < b->min_rtt_us ||
	    (__s32)(now_ms - b->min_rtt_ms) > BBR3_MIN_RTT_WINDOW_MS) {
		b->min_rtt_us = b->probe_us;
		b->min_rtt_ms = b->probe_ms;
	}
	if (expired && !b->idle_restart && b->mode != BBR3_PROBE_RTT) {
		bbr3_save_cwnd(b, c->cwnd);
		b->mode = BBR3_PROBE_RTT;
		b->probe_done_ms = 0;
	}
	if (b->mode == BBR3_PROBE_RTT)
		bbr3_in_probe_rtt(b, c);
	if (c->sample_delivered > 0)
		b->idle_restart = 0;
}

/* ---- control ---- */

TP_INLINE void bbr3_first_pacing_rate(struct tp_bbr3 *b, struct tp_bbr_conn *c)
{
	__u32 rtt_us = c->srtt_us ? c->srtt_us : TP_USEC_PER_MSEC;

	b->seen_rtt = c->srtt_us != 0;
	bbr_pace(c, tp_pacing_rate(tp_bandwidth(c->cwnd, rtt_us), c->mss, BBR3_STARTUP_GAIN,
				   BBR3_MARGIN_PERCENT));
}

TP_INLINE void bbr3_set_pacing(struct tp_bbr3 *b, struct tp_bbr_conn *c, __u32 gain)
{
	__u64 rate = tp_pacing_rate(bbr3_bw(b), c->mss, gain, BBR3_MARGIN_PERCENT);

	if (!b->seen_rtt && c->srtt_us)
		bbr3_first_pacing_rate(b, c);
	if (b->full || rate > c->pacing_rate)
		bbr_pace(c, rate);
}

/* Recovery: packet conservation for a round, and the window back at its end. */
TP_INLINE void bbr3_recover(struct tp_bbr3 *b, struct tp_bbr_conn *c)
{
	__u8 before = b->prev_state;

	if (c->losses)
		c->cwnd = c->cwnd > c->losses ? c->cwnd - c->losses : 1;
	if (c->state == BBR_RECOVERY && before != BBR_RECOVERY) {
		b->conserve = 1;
		b->round_end = c->delivered;
		c->cwnd = c->in_flight + tp_max(c->acked, 1);
	} else if (before >= BBR_RECOVERY && c->state < BBR_RECOVERY) {
		c->cwnd = tp_max(c->cwnd, b->prior_cwnd);
		b->conserve = 0;
	}
	b->prev_state = c->state;
}

/* Section 5.6.4.7: the bounds learned from losses limit the window. */
TP_INLINE __u32 bbr3_bound(const struct tp_bbr3 *b)
{
	__u32 bound = BBR3_NONE;

	if (b->mode == BBR3_CRUISE || b->mode == BBR3_PROBE_RTT)
		bound = bbr3_with_headroom(b);
	else if (b->mode >= BBR3_DOWN)
		bound = b->inflight_long;
	return tp_max(tp_min(bound, b->inflight_short), BBR3_CWND_LEAST);
}

TP_INLINE void bbr3_set_cwnd(struct tp_bbr3 *b, struct tp_bbr_conn *c)
{
	__u32 most;

	if (!c->acked)
		return;
	bbr3_recover(b, c);
	most = bbr3_bdp(b, bbr3_bw(b), bbr3_cwnd_gain(b)) + tp_max(b->extra_now, b->extra_before);
	most = bbr3_quantize(b, c, most);
	if (b->conserve)
		c->cwnd = tp_max(c->cwnd, c->in_flight + c->acked);
	else if (b->full)
		c->cwnd = tp_min(c->cwnd + c->acked, most);
	else if (c->cwnd < most || c->delivered < BBR3_INITIAL_CWND)
		c->cwnd += c->acked;
	c->cwnd = tp_max(c->cwnd, BBR3_CWND_LEAST);
	if (b->mode == BBR3_PROBE_RTT)
		c->cwnd = tp_min(c->cwnd, bbr3_probe_rtt_cwnd(b));
	c->cwnd = tp_min(tp_min(c->cwnd, bbr3_bound(b)), c->clamp);
}

/* ---- called by the shell ---- */

TP_INLINE void bbr3_start(struct tp_bbr3 *b, struct tp_bbr_conn *c, __u32 min_rtt_us)
{
	*b = (struct tp_bbr3){};
	b->min_rtt_us = b->probe_us = min_rtt_us;
	b->min_rtt_ms = b->probe_ms = bbr_now_ms(c);
	b->bw_short = b->inflight_short = b->inflight_long = BBR3_NONE;
	b->up_per = BBR3_NONE;
	b->cycle_us = b->epoch_us = c->now_us;
	/* set in mid-connection, the first round begins now and not at packet 0 */
	b->round_end = b->limited_until = c->delivered;
	bbr3_first_pacing_rate(b, c);
}

/* Samples at PROBE_RTT's window say nothing of the path. */
TP_INLINE void bbr3_doubt(const struct tp_bbr3 *b, struct tp_bbr_conn *c)
{
	c->app_limited |= (c->prior_delivered - b->limited_until) >> 31;
}

/*
 * An acknowledgement in three parts.  In one piece the ways through them multiply: 143,000
 * instructions for the verifier of Linux 6.18.  Between them the shell reads the sample again.
 */
TP_INLINE void bbr3_ack_model(struct tp_bbr3 *b, struct tp_bbr_conn *c)
{
	bbr3_doubt(b, c);
	bbr3_update_model(b, c);
	TP_FORGET();
	bbr3_update_extra_acked(b, c);
	TP_FORGET();
	bbr3_check_full(b, c);
	TP_FORGET();
	bbr3_check_startup(b, c);
}

TP_INLINE void bbr3_ack_cycle(struct tp_bbr3 *b, struct tp_bbr_conn *c)
{
	bbr3_doubt(b, c);
	bbr3_update_cycle(b, c);
	TP_FORGET();
	bbr3_update_min_rtt(b, c);
	TP_FORGET();
	bbr3_end_round(b, c);
}

TP_INLINE void bbr3_ack_control(struct tp_bbr3 *b, struct tp_bbr_conn *c)
{
	bbr3_set_pacing(b, c, bbr3_pacing_gain(b));
	TP_FORGET();
	bbr3_set_cwnd(b, c);
}

TP_INLINE void bbr3_ack(struct tp_bbr3 *b, struct tp_bbr_conn *c)
{
	bbr3_ack_model(b, c);
	bbr3_ack_cycle(b, c);
	bbr3_ack_control(b, c);
}

TP_INLINE void bbr3_restart(struct tp_bbr3 *b, struct tp_bbr_conn *c)
{
	b->idle_restart = 1;
	b->epoch_us = c->now_us;
	b->epoch_acked = 0;
	if (b->mode >= BBR3_DOWN && b->mode <= BBR3_UP)
		bbr3_set_pacing(b, c, TP_GAIN_UNIT);
	else if (b->mode == BBR3_PROBE_RTT)
		bbr3_leave_probe_rtt(b, c);
}

/* A time-out: bounds as after any loss, once the connection goes on. */
TP_INLINE void bbr3_timeout(struct tp_bbr3 *b)
{
	b->prev_state = BBR_LOSS;
	b->loss_in_round = 1;
	bbr3_reset_full(b);
}

/* The repair of a loss begins: keep the values it may have changed for nothing. */
TP_INLINE void bbr3_save(struct tp_bbr3 *b, struct tp_bbr3_undo *u, __u32 cwnd)
{
	bbr3_save_cwnd(b, cwnd);
	b->undo_startup = b->undo_up = 0;
	*u = (struct tp_bbr3_undo){b->bw_short, b->inflight_short, b->inflight_long};
}

/* The loss was none: window, bounds and mode as before (section 5.5.11.2). */
TP_INLINE void bbr3_undo(struct tp_bbr3 *b, struct tp_bbr_conn *c, const struct tp_bbr3_undo *u)
{
	c->cwnd = tp_max(c->cwnd, b->prior_cwnd);
	b->loss_in_round = 0;
	b->round_lost = 0;
	bbr3_reset_full(b);
	b->bw_short = tp_max(b->bw_short, u->bw_short);
	b->inflight_short = tp_max(b->inflight_short, u->inflight_short);
	b->inflight_long = tp_max(b->inflight_long, u->inflight_long);
	if (b->undo_startup && b->mode != BBR3_STARTUP) {
		b->full = 0;
		if (b->mode != BBR3_PROBE_RTT)
			b->mode = BBR3_STARTUP;
	} else if (b->undo_up && b->mode != BBR3_UP && b->mode != BBR3_PROBE_RTT) {
		bbr3_start_refill(b, c);
	}
	b->undo_startup = b->undo_up = 0;
}

#endif
