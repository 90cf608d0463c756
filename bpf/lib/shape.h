/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * shape.h - what the rounds of a flow tell of its congestion control.
 *
 * A flow's window, as seen from a router, is the most that was unacknowledged
 * in a round.  Three questions tell algorithms apart, and each is answered by
 * numbers that are smoothed over rounds, so that nothing hangs on one of them:
 *
 *  - What does a loss do?  The window after over the window before: a half for
 *    Reno (RFC 5681), 0.7 for CUBIC (RFC 9438), about 1 for BBR.
 *  - By which law does it grow after that, early and late in the epoch, with a
 *    queue and without?
 *  - What does a queue do?  Does it back off without a loss, how much of the
 *    queue is its own, does it come to rest?
 *
 * Fixed point: packets x16, ratios x256, growth in packets x256 per round.
 * Pure functions, also compiled for the host by tests and by the laboratory,
 * which trains on exactly these numbers.
 */
#ifndef TCPILOT_SHAPE_H
#define TCPILOT_SHAPE_H

#include "learn.h" /* TP_INLINE, tp_min, tp_max */

#define TP_ROUNDS_MASK (TP_SHAPE_ROUNDS - 1)
#define TP_RATIO_MAX 4096U

/* a / b x256, bounded; b 0 gives 0. */
TP_INLINE __u32 tp_ratio(__u64 a, __u64 b)
{
	return b ? tp_min(a * 256 / b, TP_RATIO_MAX) : 0;
}

/* Exponential smoothing, gain 1 / 2^shift. */
TP_INLINE __u32 tp_smooth(__u32 mean, __u32 sample, __u32 shift)
{
	return mean + ((__s32)(sample - mean) >> shift);
}

TP_INLINE __s32 tp_smooth_signed(__s32 mean, __s32 sample, __u32 shift)
{
	return mean + ((sample - mean) >> shift);
}

TP_INLINE int tp_has_loss(const struct tp_round *r)
{
	return r->dropped_packets || r->again_packets;
}

TP_INLINE __u32 tp_window_x16(const struct tp_round *r)
{
	return r->segment_bytes
		   ? tp_min((__u64)r->flight_max_bytes * 16 / r->segment_bytes, 1 << 24)
		   : 0;
}

/* Which part of an epoch: the first round, 2-3, 4-7, 8-15, 16-31, 32 and more. */
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
	__u32 before = s->window[(s->rounds - 1) & TP_ROUNDS_MASK];
	__u32 before2 = s->window[(s->rounds - 2) & TP_ROUNDS_MASK];

	if (s->rounds && before)
		s->slow_start_gain = tp_max(s->slow_start_gain, tp_ratio(window, before));
	if (!tp_has_loss(r) && (s->rounds < 2 || window * 8 >= before2 * 9)) {
		s->slow_start_rounds++;
		return;
	}
	s->start_over = 1;
	s->slow_start_exit = tp_ratio(r->sojourn_max_us, r->min_rtt_us);
	s->start_lossy = tp_has_loss(r);
}

/* A loss, and what it did; those of the start count too.  The window is looked
 * at in the second round without loss: the recovery is over then. */
TP_INLINE void tp_shape_loss(struct tp_shape *s, const struct tp_round *r, __u32 window)
{
	__u32 before = s->window[(s->rounds - 1) & TP_ROUNDS_MASK], response;

	if (tp_has_loss(r)) {
		if (!s->losses || s->since_loss) {
			s->losses++;
			if (s->losses > 1)
				s->epoch_us = s->losses == 2
						  ? s->since_loss_us
						  : tp_smooth(s->epoch_us, s->since_loss_us, 1);
			/* That of this round is blown up already: what the
			 * receiver holds behind the gap counts as in flight. */
			s->window_before = before ? before : window;
			s->lost_in_event = 0;
		}
		s->lost_in_event += r->again_packets;
		s->since_loss = 0;
		s->since_loss_us = 0;
		return;
	}
	s->since_loss++;
	s->since_loss_us = tp_min((__u64)s->since_loss_us + r->duration_us, 1U << 30);
	if (s->losses && s->since_loss == 2 && s->window_before) {
		response = tp_ratio(window, s->window_before);
		s->response = s->responses ? tp_smooth(s->response, response, 1) : response;
		s->responses++;
		s->base_response = tp_ratio(s->lost_in_event * 16ULL, s->window_before);
	}
}

/* The law of growth, in rounds without a loss behind rounds without one. */
TP_INLINE void tp_shape_growth(struct tp_shape *s, const struct tp_round *r, __u32 window)
{
	__u32 before = s->window[(s->rounds - 1) & TP_ROUNDS_MASK], phase, high;
	__s32 grown = ((__s32)window - (__s32)before) * 16;

	if ((s->losses && s->since_loss < 3) || !before)
		return;
	grown = grown > 65536 ? 65536 : grown < -65536 ? -65536 : grown;
	phase = tp_phase(s->since_loss - 2);
	if (phase < TP_SHAPE_PHASES) {
		if (s->growth_known & (1U << phase))
			s->growth[phase] = tp_smooth_signed(s->growth[phase], grown, 2);
		else
			s->growth[phase] = grown;
		s->growth_known |= 1U << phase;
	}
	high = (__u64)r->sojourn_mean_us * 2 > r->link_queue_us;
	if (high)
		s->growth_high = tp_smooth_signed(s->growth_high, grown, 3);
	else
		s->growth_low = tp_smooth_signed(s->growth_low, grown, 3);
	s->flat = tp_smooth(s->flat, grown > -128 && grown < 128 ? 256 << 8 : 0, 4);
	if (grown < -256 && (__u32)-grown > window / 2) /* a packet, and a 32nd of all */
		s->backoffs++;
	s->backoff_share = tp_smooth(s->backoff_share,
				     grown < -256 && (__u32)-grown > window / 2 ? 256 << 8 : 0, 5);
}

/* How much the rate swings over the last eight rounds. */
TP_INLINE void tp_shape_ripple(struct tp_shape *s, const struct tp_round *r)
{
	__u64 rate = (__u64)r->in_bytes * 1000 / (r->duration_us ? r->duration_us : 1);

	s->rate_max = tp_max(rate, s->rate_max - (s->rate_max >> 4));
	s->rate_min = s->rate_min && s->rate_min < rate ? s->rate_min + (s->rate_min >> 4) : rate;
	s->ripple = tp_smooth(
	    s->ripple, tp_ratio(s->rate_max - tp_min(s->rate_min, s->rate_max), s->rate_max) << 8,
	    4);
}

TP_INLINE void tp_shape_queue(struct tp_shape *s, const struct tp_round *r, __u32 window)
{
	__u32 over_us = r->rtt_us > r->min_rtt_us ? r->rtt_us - r->min_rtt_us : 0;
	__u32 own = r->rtt_us ? (__u64)window * over_us / r->rtt_us : 0;

	s->own_queue = tp_smooth(s->own_queue, tp_min(own, 1U << 20), 3);
	s->queue_share =
	    tp_smooth(s->queue_share, tp_ratio(r->sojourn_mean_us, r->link_queue_us) << 8, 3);
	s->burst = tp_smooth(s->burst, tp_ratio(r->burst_packets, r->in_packets) << 8, 3);
	s->again = tp_smooth(s->again, tp_has_loss(r) ? 256 << 8 : 0, 5);
	s->idle = tp_smooth(s->idle, r->gap_max_us > r->rtt_us / 2 ? 256 << 8 : 0, 3);
	s->limited = tp_smooth(s->limited,
			       r->receiver_window_bytes && (__u64)r->flight_max_bytes * 16 >=
							       (__u64)r->receiver_window_bytes * 15
				   ? 256 << 8
				   : 0,
			       3);
	/* BBR's PROBE_RTT: four packets, without a loss. */
	if (window <= 5 * 16 && !tp_has_loss(r) && s->window_max > 12 * 16 && s->since_loss > 4) {
		if (!s->in_dip)
			s->dips++;
		s->in_dip = 1;
	} else {
		s->in_dip = 0;
	}
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
	}
	tp_shape_queue(s, r, window);
	s->window_max = tp_max(window, s->window_max - (s->window_max >> 6));
	s->window[s->rounds & TP_ROUNDS_MASK] = window;
	s->queue[s->rounds & TP_ROUNDS_MASK] = r->sojourn_mean_us;
	s->rounds++;
}

/* Extremes over the rounds that are remembered. */
struct tp_span {
	__u32 least;
	__u32 most;
	__u32 sum;
};

TP_INLINE struct tp_span tp_span_of(const __u32 *values, __u32 count)
{
	struct tp_span span = {.least = ~0U};

	for (__u32 i = 0; i < TP_SHAPE_ROUNDS; i++) {
		if (i >= count)
			break;
		span.least = tp_min(span.least, values[i]);
		span.most = tp_max(span.most, values[i]);
		span.sum += values[i];
	}
	if (!count)
		span.least = 0;
	return span;
}

/* Their names, in lab/tcplab/watch/features.py, are in this order. */
TP_INLINE void tp_features(const struct tp_shape *s, const struct tp_round *r, __s32 *f)
{
	__u32 known = tp_min(s->rounds, TP_SHAPE_ROUNDS);
	struct tp_span windows = tp_span_of(s->window, known);
	struct tp_span queues = tp_span_of(s->queue, known);
	__u32 mean = known ? windows.sum / known : 0;

	f[0] = s->responses ? (__s32)s->response : -1;
	f[1] = s->responses ? (__s32)s->base_response : -1;
	f[2] = s->growth[0];
	f[3] = s->growth[1];
	f[4] = s->growth[2];
	f[5] = s->growth[3];
	f[6] = s->growth[4];
	f[7] = s->growth[5];
	f[8] = s->growth_low;
	f[9] = s->growth_high;
	f[10] = s->flat >> 8;
	f[11] = s->backoff_share >> 8;
	f[12] = s->own_queue;
	f[13] = s->queue_share >> 8;
	f[14] = s->burst >> 8;
	f[15] = s->ripple >> 8;
	f[16] = s->dips;
	f[17] = s->slow_start_gain;
	f[18] = s->slow_start_exit;
	f[19] = s->start_lossy;
	f[20] = s->slow_start_rounds;
	f[21] = s->epoch_us / 1000;
	f[22] = s->again >> 8;
	f[23] = tp_ratio(windows.most - windows.least, windows.most);
	f[24] = tp_ratio(queues.least, r->link_queue_us);
	f[25] = tp_ratio(queues.most, r->link_queue_us);
	f[26] = mean;
	f[27] = r->min_rtt_us / 1000;
	f[28] = r->min_rtt_us ? (__s32)tp_min((__u64)s->epoch_us / r->min_rtt_us, 1 << 16) : 0;
	f[29] = tp_ratio(mean, s->window_max);
	f[30] = r->acks ? (__s32)tp_ratio(r->in_packets, r->acks) : 0;
	f[31] = r->flags & TP_FLOW_ECT_SYN ? 1 : 0;
}

#endif
