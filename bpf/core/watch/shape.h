/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * shape.h - the signs of a flow's congestion control in its rounds.
 *
 * A flow's window is its sender's most data in flight in a round (whole.h).  Three questions
 * distinguish algorithms.  The measures are smoothed over rounds, so that no single round decides:
 *
 *  - How does it respond to a loss?  The window after over the window before: a half for
 *    Reno (RFC 5681), 0.7 for CUBIC (RFC 9438), about 1 for BBR.
 *  - By which law does it then grow, early and late in the epoch, with a
 *    queue and without?
 *  - How does it respond to a queue?  Does it back off without a loss, how much of the queue
 *    is its own, does it come to rest?
 *
 * Fixed point: packets x16, ratios x256, growth in packets x256 per round.
 * Pure functions, also compiled for the host by tests and by the laboratory.
 * features.h turns a shape into the classifier's numbers.
 */
#ifndef TCPILOT_SHAPE_H
#define TCPILOT_SHAPE_H

#include "../../abi/watch.h"
#include "../num.h"
#include "queue_response.h"
#include "probe_rtt.h"
#include "laws.h"

#define TP_ROUNDS_MASK (TP_SHAPE_ROUNDS - 1)
#define TP_RATIO_MAX 4096U
/* HighSpeed's own law begins above 38 packets (RFC 3649, section 5). */
#define TP_SMALL_WINDOW (38 * 16)
#define TP_DELAYED_ACK_US 50000

/* a / b x256, bounded; b 0 gives 0. */
TP_APART int tp_ratio(__u64 a, __u64 b)
{
	return b ? tp_min64(a * 256 / b, TP_RATIO_MAX) : 0;
}

/* Exponential smoothing, gain 1 / 2^shift. */
TP_INLINE __u32 tp_smooth(__u32 mean, __u32 sample, __u32 shift)
{
	return mean + ((__s32)(sample - mean) >> shift);
}

/* BPF divides unsigned numbers only. */
TP_APART int tp_divide(__s64 a, __u64 b)
{
	if (!b)
		return 0;
	return a < 0 ? -(__s32)((__u64)-a / b) : (__s32)((__u64)a / b);
}

TP_APART int tp_limited(__s64 value, int most)
{
	return value > most ? most : value < -most ? -most : value;
}

TP_INLINE __u32 tp_apart(__u32 a, __u32 b)
{
	return a > b ? a - b : b - a;
}

/* A mean of all samples at first; once there are `most`, a sample moves it by 1 / most. */
TP_APART int tp_note(struct tp_shape *s, __u32 what, int sample, __u32 most)
{
	__u32 i = what & (TP_MEANS - 1);

	if (!s)
		return 0;
	if (s->known[i] < most)
		s->known[i]++;
	s->mean[i] += tp_divide((__s64)sample - s->mean[i], s->known[i]);
	return 0;
}

/* The mean gap between packets in ns, gain 1/16, after an event that came gap_ns after the
 * one before.  An event is a packet, or a super-packet of several without gaps. */
TP_INLINE __u32 tp_mean_gap(__u32 mean_ns, __u32 gap_ns, __u32 packets)
{
	__s64 each_ns = packets > 1 ? gap_ns / packets : gap_ns;

	return mean_ns + (__s32)(((each_ns - mean_ns) * tp_min(packets, 16)) >> 4);
}

/* A mark asks for the same response as a loss (RFC 3168, section 5).  DCTCP and Prague respond to
 * the share of marks (RFC 8257, section 3.3), which is a feature of its own. */
TP_INLINE int tp_is_marked(const struct tp_round *r)
{
	return r->marked_acks && !(r->flags & TP_FLOW_ECT_SYN);
}

TP_INLINE int tp_has_loss(const struct tp_round *r)
{
	return r->dropped_packets || r->again_packets || tp_is_marked(r);
}

TP_INLINE __u32 tp_window_x16(const struct tp_round *r)
{
	return r->segment_bytes
		   ? tp_min64((__u64)r->flight_max_bytes * 16 / r->segment_bytes, 1 << 24)
		   : 0;
}

/* The part of an epoch, by rounds since the loss: up to 1, 2-3, 4-7, 8-15, 16-31, 32 and more. */
TP_INLINE __u32 tp_phase(__u32 since_loss)
{
	return since_loss < 2	 ? 0
	       : since_loss < 4	 ? 1
	       : since_loss < 8	 ? 2
	       : since_loss < 16 ? 3
	       : since_loss < 32 ? 4
				 : 5;
}

/* Slow start: it ends with a loss, or when the window has not grown by an
 * eighth in two rounds together. */
TP_INLINE void tp_shape_start(struct tp_shape *s, const struct tp_round *r, __u32 window)
{
	__u32 before2 = s->window[(s->rounds - 2) & TP_ROUNDS_MASK];

	if (!tp_has_loss(r) && (s->rounds < 2 || window * 8 >= before2 * 9)) {
		s->slow_start_rounds++;
		return;
	}
	s->start_over = 1;
}

/* The first round of a loss. */
TP_INLINE void tp_shape_lost(struct tp_shape *s, __u32 before, __u32 window)
{
	__u32 i = (s->rounds - 1) & TP_ROUNDS_MASK;

	s->losses++;
	if (s->losses > 1) {
		s->epoch_us =
		    s->losses == 2 ? s->since_loss_us : tp_smooth(s->epoch_us, s->since_loss_us, 1);
		if (s->window_after && s->since_loss > 3)
			tp_note(
			    s, TP_GROWTH_EPOCH,
			    tp_divide(((__s64)before - s->window_after) * 16, s->since_loss - 2),
			    4);
	}
	/* The window of this round is too large already: packets that the receiver holds
	 * behind the gap count as in flight. */
	s->window_before = before ? before : window;
	s->queue_before = s->queue[i];
	s->lost_in_event = 0;
	s->dropped_in_event = 0;
	s->window_after = 0;
}

/* The second round without loss: the recovery is over. */
TP_INLINE void tp_shape_responded(struct tp_shape *s, const struct tp_round *r, __u32 window)
{
	__u64 path_us = (__u64)r->min_rtt_us + s->queue_before;

	s->window_after = window;
	s->cubic_ms = tp_cubic_k_ms(s->window_before > window ? s->window_before - window : 0);
	s->response_last = tp_ratio(window, s->window_before);
	s->responses++;
	tp_note(s, TP_RESPONSE, s->response_last, 4);
	s->response_spread =
	    tp_smooth(s->response_spread,
		      tp_apart(s->response_last, tp_max_signed(s->mean[TP_RESPONSE], 0)), 1);
	/* Westwood's and YeAH's windows after a loss fill the path without a queue
	 * (Casetti et al. 2002). */
	tp_note(s, TP_REFILL,
		tp_min64(s->response_last * path_us / (r->min_rtt_us ? r->min_rtt_us : 1),
			 TP_RATIO_MAX),
		4);
	tp_note(s, TP_LOST_ELSEWHERE, s->dropped_in_event ? 0 : 256, 8);
	s->base_response = tp_ratio(s->lost_in_event * 16ULL, s->window_before);
}

/* Notes a loss and its effect; losses in slow start count, too. */
TP_INLINE void tp_shape_loss(struct tp_shape *s, const struct tp_round *r, __u32 window)
{
	__u32 before = s->window[(s->rounds - 1) & TP_ROUNDS_MASK];

	if (tp_has_loss(r)) {
		if (!s->losses || s->since_loss)
			tp_shape_lost(s, before, window);
		s->lost_in_event += r->again_packets;
		s->dropped_in_event += r->dropped_packets;
		s->since_loss = 0;
		s->since_loss_us = 0;
		return;
	}
	s->since_loss++;
	s->since_loss_us = tp_min64((__u64)s->since_loss_us + r->duration_us, 1U << 30);
	if (s->losses && s->since_loss == 2 && s->window_before)
		tp_shape_responded(s, r, window);
}

/* The window's size in steps, compared with the one before the last loss. */
TP_INLINE __u32 tp_place(const struct tp_shape *s, __u32 window)
{
	__u32 share = tp_ratio(window, s->window_before);

	return share < 192 ? 0 : share < 230 ? 1 : share < 256 ? 2 : 3;
}

/* The growth by published laws in the same rounds, and the distance from CUBIC's curve. */
TP_INLINE void tp_shape_laws(struct tp_shape *s, const struct tp_round *r, __u32 window)
{
	__u32 share = tp_ratio(r->sojourn_mean_us, r->link_queue_us);
	__s64 curve;

	tp_note(s, TP_OF_ILLINOIS, tp_illinois_growth(share), 16);
	if (!s->window_after)
		return;
	tp_note(
	    s, TP_OF_HTCP,
	    tp_htcp_growth(s->since_loss_us, r->min_rtt_us, tp_max_signed(s->mean[TP_RESPONSE], 0)),
	    16);
	tp_note(s, TP_OF_BIC, tp_bic_growth(window, s->window_before), 16);
	curve = tp_cubic_window(s->window_before, s->window_after, s->cubic_ms,
				s->since_loss_us / 1000, s->since_loss - 2);
	tp_note(s, TP_OFF_CUBIC,
		tp_ratio(tp_apart(window, tp_min64(tp_max_signed(curve, 0), 1 << 24)),
			 s->window_before),
		16);
}

/* The law of growth, in rounds without a loss behind rounds without one. */
TP_INLINE void tp_shape_growth(struct tp_shape *s, const struct tp_round *r, __u32 window)
{
	__u32 i = (s->rounds - 1) & TP_ROUNDS_MASK, before = s->window[i], seconds;
	__s32 grown = tp_limited(((__s64)window - before) * 16, 32767);
	int falls;

	if ((s->losses && s->since_loss < 3) || !before)
		return;
	tp_note(s, TP_GROWTH_PHASE + tp_phase(s->since_loss - 2), grown, 4);
	tp_note(s,
		(__u64)r->sojourn_mean_us * 2 > r->link_queue_us ? TP_GROWTH_LONG : TP_GROWTH_SHORT,
		grown, 8);
	seconds = s->since_loss_us < 1000000 ? 0 : s->since_loss_us < 2000000 ? 1 : 2;
	if (s->losses) {
		tp_note(s, TP_GROWTH_SECOND + seconds, grown, 8);
		tp_note(s, TP_GROWTH_PLACE + tp_place(s, window), grown, 8);
	}
	tp_note(s, r->sojourn_mean_us > s->queue[i] ? TP_GROWTH_RISING : TP_GROWTH_FALLING, grown,
		8);
	tp_note(s, r->sojourn_mean_us < s->queue_mean ? TP_GROWTH_LOWER : TP_GROWTH_HIGHER, grown,
		8);
	tp_note(s, window <= TP_SMALL_WINDOW ? TP_GROWTH_SMALL : TP_GROWTH_LARGE, grown, 8);
	tp_note(s, TP_GROWTH_ALL, grown, 16);
	tp_shape_laws(s, r, window);
	s->flat = tp_smooth(s->flat, grown > -128 && grown < 128 ? 256 << 8 : 0, 4);
	falls = grown < -256 &&
		(__u32)-grown > window / 2; /* by more than a packet, and by more than a 32nd */
	s->backoffs += falls;
	s->backoff_share = tp_smooth(s->backoff_share, falls ? 256 << 8 : 0, 5);
}

/* How much the rate swings; the extremes move towards each other by 1/16 a round. */
TP_INLINE void tp_shape_ripple(struct tp_shape *s, const struct tp_round *r)
{
	__u64 rate = (__u64)r->in_bytes * 1000 / (r->duration_us ? r->duration_us : 1);

	tp_note(s, TP_RATE_OFF,
		tp_ratio(tp_apart(tp_min64(rate, 1 << 30), s->rate_mean), s->rate_mean), 16);
	s->rate_max = tp_max64(rate, s->rate_max - (s->rate_max >> 4));
	s->rate_min = s->rate_min && s->rate_min < rate ? s->rate_min + (s->rate_min >> 4) : rate;
	s->ripple = tp_smooth(
	    s->ripple, tp_ratio(s->rate_max - tp_min64(s->rate_min, s->rate_max), s->rate_max) << 8,
	    4);
}

/* Whether the application paused: nothing was sent for half a round trip, and the round
 * took longer than one and a half round trips and the longest delay of an acknowledgement.
 * A flow that always has data sends some as soon as a round has ended, however little. */
TP_INLINE int tp_is_pause(const struct tp_round *r)
{
	return r->gap_max_us > r->rtt_us / 2 && !tp_has_loss(r) &&
	       r->duration_us > (__u64)r->rtt_us * 3 / 2 + TP_DELAYED_ACK_US;
}

/* The flow's own packets in the queue x16: they are all that it put in and that has not come out
 * yet.  If they are not counted, they are its rate times the time that its packets wait (Little's
 * law). */
TP_INLINE __u32 tp_backlog(const struct tp_round *r)
{
	__u64 bytes = (__u64)r->in_bytes * r->sojourn_mean_us / tp_max(r->duration_us, 1);

	if (r->backlog_bytes)
		bytes = r->backlog_bytes;
	return r->segment_bytes ? tp_min64(bytes * 16 / r->segment_bytes, 1U << 20) : 0;
}

TP_INLINE void tp_shape_queue(struct tp_shape *s, const struct tp_round *r, __u32 window)
{
	__u32 over_us = r->rtt_us > r->min_rtt_us ? r->rtt_us - r->min_rtt_us : 0;
	__u32 own = tp_min64(r->rtt_us ? (__u64)window * over_us / r->rtt_us : 0, 1U << 20);

	s->own[s->rounds & TP_ROUNDS_MASK] = own;
	s->queue_mean =
	    s->rounds ? tp_smooth(s->queue_mean, r->sojourn_mean_us, 4) : r->sojourn_mean_us;
	s->own_queue = tp_smooth(s->own_queue, own, 3);
	s->backlog = tp_smooth(s->backlog, tp_backlog(r), 3);
	s->marked = tp_smooth(s->marked, tp_ratio(r->marked_acks, r->acks) << 8, 3);
	tp_note(s, TP_GAP, tp_ratio(r->gap_max_us, r->rtt_us), 8);
	s->queue_share =
	    tp_smooth(s->queue_share, tp_ratio(r->sojourn_mean_us, r->link_queue_us) << 8, 3);
	s->burst = tp_smooth(s->burst, tp_ratio(r->burst_packets, r->in_packets) << 8, 3);
	s->again = tp_smooth(s->again, tp_has_loss(r) ? 256 << 8 : 0, 5);
	s->idle = tp_smooth(s->idle, tp_is_pause(r) ? 256 << 8 : 0, 3);
	s->limited = tp_smooth(s->limited,
			       r->receiver_window_bytes && (__u64)r->flight_max_bytes * 16 >=
							       (__u64)r->receiver_window_bytes * 15
				   ? 256 << 8
				   : 0,
			       3);
}

/* BBR's PROBE_RTT: four packets, without a loss, and right after them as many as before
 * (Cardwell et al. 2016).  A starved flow grows only step by step. */
TP_INLINE void tp_shape_dip(struct tp_shape *s, const struct tp_round *r, __u32 window)
{
	if (window <= 5 * 16 && !tp_has_loss(r) && s->window_max > 12 * 16 && s->since_loss > 4) {
		s->in_dip = 1;
		return;
	}
	if (s->in_dip && window > 12 * 16 && window * 2 > s->window_max && !tp_has_loss(r))
		s->dips++;
	s->in_dip = 0;
}

/* A round has ended. */
TP_INLINE void tp_shape_round(struct tp_shape *s, const struct tp_round *r)
{
	__u32 window = tp_window_x16(r);

	if (!s->start_over)
		tp_shape_start(s, r, window);
	tp_shape_loss(s, r, window);
	if (s->start_over) {
		tp_shape_growth(s, r, window);
		tp_shape_ripple(s, r);
		tp_shape_queue_response(s, r, window);
		tp_shape_pace(s, r, tp_has_loss(r));
		tp_shape_probe_rtt(s, r, window, tp_has_loss(r));
	}
	tp_shape_queue(s, r, window);
	tp_shape_dip(s, r, window);
	s->window_max = tp_max64(window, s->window_max - (s->window_max >> 6));
	s->window[s->rounds & TP_ROUNDS_MASK] = window;
	s->queue[s->rounds & TP_ROUNDS_MASK] = r->sojourn_mean_us;
	s->rounds++;
}

#endif
