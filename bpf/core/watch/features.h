/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * features.h - a shape as the inputs of the trees.
 *
 * The laboratory trains on exactly these.  lab/tcplab/studies/watch/features.py and
 * crates/core/src/model/features.rs have their names, in this order.  A model names its features,
 * so their places here may change.  Fixed point as in shape.h.
 */
#ifndef TCPILOT_FEATURES_H
#define TCPILOT_FEATURES_H

#include "../bits.h"
#include "shape.h"

/* The feature was not seen yet. */
#define TP_NOT_SEEN (-32768)

/* A figure for each of the last rounds. */
struct tp_rounds {
	__u32 value[TP_SHAPE_ROUNDS];
};

/* Extremes over these rounds. */
struct tp_span {
	__u32 least;
	__u32 most;
	__u32 sum;
};

/* By arithmetic instead of branches, for the verifier: see ../bits.h. */
TP_APART int tp_find_span(const struct tp_rounds *rounds, __u32 count, struct tp_span *to)
{
	__u64 least = ~0U, most = 0, sum = 0;

	if (!rounds || !to)
		return 0;
	for (__u32 i = 0; i < TP_SHAPE_ROUNDS; i++) {
		__u64 value = rounds->value[i], counts = tp_is_less(i, count);
		__u64 low = tp_select(~0U, value, counts), high = tp_select(0, value, counts);

		least = tp_select(least, low, tp_is_less(low, least));
		most = tp_select(most, high, tp_is_less(most, high));
		sum += high;
	}
	to->least = count ? least : 0;
	to->most = most;
	to->sum = sum;
	return 0;
}

TP_INLINE struct tp_span tp_span_of(const __u32 values[TP_SHAPE_ROUNDS], __u32 count)
{
	struct tp_span span = {};

	tp_find_span((const struct tp_rounds *)values, count, &span);
	return span;
}

TP_INLINE __s32 tp_mean_of(const struct tp_shape *s, __u32 what)
{
	return (__s32)tp_select(TP_NOT_SEEN, s->mean[what], tp_is_zero(s->known[what]) ^ 1);
}

/* Growth per round in packets, x256, over four rounds, the last `ago` rounds before. */
TP_APART int tp_slope(const struct tp_shape *s, __u32 ago)
{
	__u32 now, then;

	if (!s)
		return TP_NOT_SEEN;
	now = s->window[(s->rounds - 1 - ago) & TP_ROUNDS_MASK];
	then = s->window[(s->rounds - 5 - ago) & TP_ROUNDS_MASK];
	if (s->rounds < ago + 5 || (s->losses && s->since_loss < ago + 6))
		return TP_NOT_SEEN;
	return tp_limited(((__s64)now - then) * 4, 32767);
}

/* Growth per round as a share of the window, x65536. */
TP_APART int tp_relative(int growth, __u32 window)
{
	if (growth == TP_NOT_SEEN || !window)
		return TP_NOT_SEEN;
	return tp_limited(tp_divide((__s64)growth * 4096, window), 32767);
}

TP_INLINE void tp_features_growth(const struct tp_shape *s, const struct tp_round *r, __u32 window,
				  __s32 *f)
{
	__u64 rtt_ms = r->min_rtt_us / 1000 + 1;
	__s32 slope = tp_slope(s, 0), slope_before = tp_slope(s, 4);

	f[23] = s->responses ? (__s32)s->response_last : -1;
	f[24] = tp_mean_of(s, TP_REFILL);
	f[25] = tp_mean_of(s, TP_GROWTH_SECOND);
	f[26] = tp_mean_of(s, TP_GROWTH_SECOND + 1);
	f[27] = tp_mean_of(s, TP_GROWTH_SECOND + 2);
	f[28] = tp_mean_of(s, TP_GROWTH_PLACE);
	f[29] = tp_mean_of(s, TP_GROWTH_PLACE + 1);
	f[30] = tp_mean_of(s, TP_GROWTH_PLACE + 2);
	f[31] = tp_mean_of(s, TP_GROWTH_PLACE + 3);
	f[32] = tp_mean_of(s, TP_GROWTH_RISING);
	f[33] = tp_mean_of(s, TP_GROWTH_FALLING);
	f[34] = tp_mean_of(s, TP_GROWTH_ALL);
	f[35] = tp_mean_of(s, TP_GROWTH_EPOCH);
	f[36] = slope;
	f[37] = slope_before;
	f[38] = slope == TP_NOT_SEEN || slope_before == TP_NOT_SEEN ? TP_NOT_SEEN
								    : slope - slope_before;
	f[39] = tp_relative(f[34], window);
	f[40] = tp_relative(f[35], window);
	f[41] = tp_relative(slope, window);
	/* Hybla's law is (RTT / 25 ms)² packets per round (Caini and Firrincieli 2004). */
	f[42] = f[34] == TP_NOT_SEEN
		    ? TP_NOT_SEEN
		    : tp_limited(tp_divide((__s64)f[34] * 625, rtt_ms * rtt_ms), 32767);
}

TP_INLINE void tp_features_context(const struct tp_shape *s, __s32 *f)
{
	f[43] = tp_mean_of(s, TP_LOST_ELSEWHERE);
	f[44] = tp_ratio(s->window[(s->rounds - 1) & TP_ROUNDS_MASK], s->window_before);
	f[45] = tp_mean_of(s, TP_GROWTH_LOWER);
	f[46] = tp_mean_of(s, TP_GROWTH_HIGHER);
	f[47] = tp_mean_of(s, TP_GROWTH_SMALL);
	f[48] = tp_mean_of(s, TP_GROWTH_LARGE);
}

/* a / b x256.  A divisor below an eighth is taken for one: the quotient of two noises is
 * nothing. */
TP_APART int tp_quotient(int a, int b)
{
	__u64 least = b > -32 && b < 32 ? 32 : b < 0 ? -(__s64)b : b;
	int found;

	if (a == TP_NOT_SEEN || b == TP_NOT_SEEN)
		return TP_NOT_SEEN;
	found = tp_limited(tp_divide((__s64)a * 256, least), 32767);
	return b < 0 && b <= -32 ? -found : found;
}

/* A share of a window, x256; the window has the value's unit. */
TP_APART int tp_share(__u64 value, __u64 window)
{
	return window ? tp_min64(value * 256 / window, 32767) : TP_NOT_SEEN;
}

/* Growth over growth by published laws (laws.h). */
TP_INLINE void tp_features_laws(const struct tp_shape *s, const struct tp_round *r, __u32 window,
				__s32 *f)
{
	__s32 all = tp_mean_of(s, TP_GROWTH_ALL);
	__u64 rtt_ms = tp_max64(r->rtt_us / 1000, 25);

	f[49] = tp_mean_of(s, TP_OFF_CUBIC);
	f[50] = tp_quotient(all, tp_mean_of(s, TP_OF_HTCP));
	f[51] = tp_quotient(all, tp_mean_of(s, TP_OF_ILLINOIS));
	f[52] = tp_quotient(all, tp_mean_of(s, TP_OF_BIC));
	f[53] = tp_quotient(all, tp_highspeed_growth(window) * 256);
	f[54] = all == TP_NOT_SEEN
		    ? TP_NOT_SEEN
		    : tp_limited(tp_divide((__s64)all * 625, rtt_ms * rtt_ms), 32767);
	/* Rounds of an epoch over the window: a half for who grows by a packet and halves. */
	f[55] = s->epoch_us && r->rtt_us
		    ? tp_share((__u64)s->epoch_us * 16 / r->rtt_us, s->window_before)
		    : TP_NOT_SEEN;
	/* 0.4 T^3 over the window: the same for CUBIC at any rate. */
	f[56] = s->epoch_us ? tp_share(tp_min64(s->epoch_us / 1000, 30000) *
					   tp_min64(s->epoch_us / 1000, 30000) *
					   tp_min64(s->epoch_us / 1000, 30000) / 156250000,
				       s->window_before)
			    : TP_NOT_SEEN;
	f[57] = s->response_spread;
}

/* The shape of growth: a part of it over another. */
TP_INLINE void tp_features_bend(const struct tp_shape *s, __u32 window, __s32 *f)
{
	__s32 all = tp_mean_of(s, TP_GROWTH_ALL);

	f[58] = tp_quotient(f[9], f[8]);   /* long queue over short */
	f[59] = tp_quotient(f[46], f[45]); /* higher over lower */
	f[60] = tp_quotient(f[32], f[33]); /* rising over falling */
	f[61] = tp_quotient(f[28], all);   /* far below the window before */
	f[62] = tp_quotient(f[29], all);
	f[63] = tp_quotient(f[30], all);
	f[64] = tp_quotient(f[31], all);   /* beyond it */
	f[65] = tp_quotient(f[25], f[27]); /* in the first second over later */
	f[66] = tp_quotient(f[3], all);	   /* in rounds 2 and 3 */
	f[67] = tp_quotient(f[4], all);
	f[68] = tp_quotient(f[5], all);
	f[69] = tp_quotient(f[6], all);
	f[70] = tp_quotient(f[7], all);
	f[71] = tp_relative(f[8], window);
	f[72] = tp_relative(f[9], window);
	f[73] = tp_quotient(f[38], all);
}

/* The flow compared with its queue, its link, and its own rhythm. */
TP_INLINE void tp_features_place(const struct tp_shape *s, const struct tp_round *r, __u32 window,
				 __s32 *f)
{
	__u64 rate = (__u64)r->in_bytes * 1000000 / tp_max(r->duration_us, 1);
	struct tp_span own = tp_span_of(s->own, tp_min64(s->rounds, TP_SHAPE_ROUNDS));

	f[74] = tp_share(s->backlog, window);
	f[75] = tp_share(own.least, window);
	f[76] = tp_share(own.most, window);
	f[77] = tp_share(rate, r->link_rate);
	f[78] = tp_mean_of(s, TP_RATE_OFF);
	f[79] = tp_mean_of(s, TP_GAP);
	f[80] = s->idle >> 8;
	f[81] = s->steady_rounds;
	f[82] = s->marked >> 8;
	f[83] = tp_share(s->own_queue, window);
	f[84] = s->deep.intervals + s->half.intervals;
	f[85] = tp_ratio(r->in_bytes, r->acked_bytes);
}

TP_INLINE void tp_features(const struct tp_shape *s, const struct tp_round *r, __s32 *f)
{
	__u32 known = tp_min64(s->rounds, TP_SHAPE_ROUNDS);
	struct tp_span windows = tp_span_of(s->window, known);
	struct tp_span queues = tp_span_of(s->queue, known);
	__u32 mean = known ? windows.sum / known : 0;

	f[0] = s->responses ? s->mean[TP_RESPONSE] : -1;
	f[1] = s->responses ? (__s32)s->base_response : -1;
	f[2] = tp_mean_of(s, TP_GROWTH_PHASE);
	f[3] = tp_mean_of(s, TP_GROWTH_PHASE + 1);
	f[4] = tp_mean_of(s, TP_GROWTH_PHASE + 2);
	f[5] = tp_mean_of(s, TP_GROWTH_PHASE + 3);
	f[6] = tp_mean_of(s, TP_GROWTH_PHASE + 4);
	f[7] = tp_mean_of(s, TP_GROWTH_PHASE + 5);
	f[8] = tp_mean_of(s, TP_GROWTH_SHORT);
	f[9] = tp_mean_of(s, TP_GROWTH_LONG);
	f[10] = s->flat >> 8;
	f[11] = s->backoff_share >> 8;
	f[12] = s->queue_share >> 8;
	f[13] = s->burst >> 8;
	f[14] = s->ripple >> 8;
	f[15] = s->dips;
	f[16] = s->again >> 8;
	f[17] = tp_ratio(windows.most - windows.least, windows.most);
	f[18] = tp_ratio(queues.least, r->link_queue_us);
	f[19] = tp_ratio(queues.most, r->link_queue_us);
	f[20] = r->min_rtt_us ? (__s32)tp_min64((__u64)s->epoch_us / r->min_rtt_us, 1 << 16) : 0;
	f[21] = tp_ratio(mean, s->window_max);
	f[22] = r->flags & TP_FLOW_ECT_SYN ? 1 : 0;
	tp_features_growth(s, r, mean, f);
	tp_features_context(s, f);
	tp_features_laws(s, r, mean, f);
	tp_features_bend(s, mean, f);
	tp_features_place(s, r, mean, f);
}

#endif
