/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * features.h - a shape as the inputs of the trees.
 *
 * The laboratory trains on exactly these; lab/tcplab/studies/watch/features.py has their
 * names, in this order.  Fixed point as in shape.h.
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

	f[32] = s->responses ? (__s32)s->response_last : -1;
	f[33] = tp_mean_of(s, TP_REFILL);
	f[34] = tp_mean_of(s, TP_GROWTH_SECOND);
	f[35] = tp_mean_of(s, TP_GROWTH_SECOND + 1);
	f[36] = tp_mean_of(s, TP_GROWTH_SECOND + 2);
	f[37] = tp_mean_of(s, TP_GROWTH_PLACE);
	f[38] = tp_mean_of(s, TP_GROWTH_PLACE + 1);
	f[39] = tp_mean_of(s, TP_GROWTH_PLACE + 2);
	f[40] = tp_mean_of(s, TP_GROWTH_PLACE + 3);
	f[41] = tp_mean_of(s, TP_GROWTH_RISING);
	f[42] = tp_mean_of(s, TP_GROWTH_FALLING);
	f[43] = tp_mean_of(s, TP_GROWTH_ALL);
	f[44] = tp_mean_of(s, TP_GROWTH_EPOCH);
	f[45] = slope;
	f[46] = slope_before;
	f[47] = slope == TP_NOT_SEEN || slope_before == TP_NOT_SEEN ? TP_NOT_SEEN
								    : slope - slope_before;
	f[48] = tp_relative(f[43], window);
	f[49] = tp_relative(f[44], window);
	f[50] = tp_relative(slope, window);
	/* Hybla's law is (RTT / 25 ms)² packets per round (Caini and Firrincieli 2004). */
	f[51] = f[43] == TP_NOT_SEEN
		    ? TP_NOT_SEEN
		    : tp_limited(tp_divide((__s64)f[43] * 625, rtt_ms * rtt_ms), 32767);
}

TP_INLINE void tp_features_context(const struct tp_shape *s, const struct tp_round *r, __u32 known,
				   __s32 *f)
{
	struct tp_span own = tp_span_of(s->own, known);

	f[52] = own.least;
	f[53] = own.most;
	f[54] = tp_min64(s->since_loss, 255);
	f[55] = tp_min64(s->rounds - tp_min64(s->slow_start_rounds, s->rounds), 255);
	f[56] = tp_min64(s->responses, 16);
	f[57] = tp_mean_of(s, TP_LOST_ELSEWHERE);
	f[58] = tp_ratio(r->link_queue_us, r->min_rtt_us);
	f[59] = tp_ratio(s->window[(s->rounds - 1) & TP_ROUNDS_MASK], s->window_before);
	f[60] = tp_mean_of(s, TP_GROWTH_LOWER);
	f[61] = tp_mean_of(s, TP_GROWTH_HIGHER);
	f[62] = tp_mean_of(s, TP_GROWTH_SMALL);
	f[63] = tp_mean_of(s, TP_GROWTH_LARGE);
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

	f[64] = tp_mean_of(s, TP_OFF_CUBIC);
	f[65] = tp_quotient(all, tp_mean_of(s, TP_OF_HTCP));
	f[66] = tp_quotient(all, tp_mean_of(s, TP_OF_ILLINOIS));
	f[67] = tp_quotient(all, tp_mean_of(s, TP_OF_BIC));
	f[68] = tp_quotient(all, tp_highspeed_growth(window) * 256);
	f[69] = all == TP_NOT_SEEN
		    ? TP_NOT_SEEN
		    : tp_limited(tp_divide((__s64)all * 625, rtt_ms * rtt_ms), 32767);
	/* Rounds of an epoch over the window: a half for who grows by a packet and halves. */
	f[70] = s->epoch_us && r->rtt_us
		    ? tp_share((__u64)s->epoch_us * 16 / r->rtt_us, s->window_before)
		    : TP_NOT_SEEN;
	/* 0.4 T^3 over the window: the same for CUBIC at any rate. */
	f[71] = s->epoch_us ? tp_share(tp_min64(s->epoch_us / 1000, 30000) *
					   tp_min64(s->epoch_us / 1000, 30000) *
					   tp_min64(s->epoch_us / 1000, 30000) / 156250000,
				       s->window_before)
			    : TP_NOT_SEEN;
	f[72] = s->response_spread;
}

/* The shape of growth: a part of it over another. */
TP_INLINE void tp_features_bend(const struct tp_shape *s, __u32 window, __s32 *f)
{
	__s32 all = tp_mean_of(s, TP_GROWTH_ALL);

	f[73] = tp_quotient(f[9], f[8]);   /* long queue over short */
	f[74] = tp_quotient(f[61], f[60]); /* higher over lower */
	f[75] = tp_quotient(f[41], f[42]); /* rising over falling */
	f[76] = tp_quotient(f[37], all);   /* far below the window before */
	f[77] = tp_quotient(f[38], all);
	f[78] = tp_quotient(f[39], all);
	f[79] = tp_quotient(f[40], all);   /* beyond it */
	f[80] = tp_quotient(f[34], f[36]); /* in the first second over later */
	f[81] = tp_quotient(f[3], all);	   /* in rounds 2 and 3 */
	f[82] = tp_quotient(f[4], all);
	f[83] = tp_quotient(f[5], all);
	f[84] = tp_quotient(f[6], all);
	f[85] = tp_quotient(f[7], all);
	f[86] = tp_relative(f[8], window);
	f[87] = tp_relative(f[9], window);
	f[88] = tp_quotient(f[47], all);
}

/* The flow compared with its queue, its link, and its own rhythm. */
TP_INLINE void tp_features_place(const struct tp_shape *s, const struct tp_round *r, __u32 window,
				 __s32 *f)
{
	__u64 rate = (__u64)r->in_bytes * 1000000 / tp_max(r->duration_us, 1);
	__u64 bdp = (__u64)r->link_rate * r->min_rtt_us / 1000000;

	f[89] = s->backlog;
	f[90] = tp_share(s->backlog, window);
	f[91] = tp_share(f[52], window);
	f[92] = tp_share(f[53], window);
	f[93] = tp_share(rate, r->link_rate);
	f[94] = tp_share((__u64)window * r->segment_bytes / 16, bdp);
	f[95] = tp_mean_of(s, TP_RATE_OFF);
	f[96] = tp_mean_of(s, TP_GAP);
	f[97] = s->idle >> 8;
	f[98] = s->steady_rounds;
	f[99] = s->marked >> 8;
	f[100] = tp_share(s->own_queue, window);
	f[101] = s->deep.intervals + s->half.intervals;
	f[102] = tp_share(r->sojourn_max_us - tp_min(r->sojourn_min_us, r->sojourn_max_us),
			  r->link_queue_us);
	f[103] = tp_ratio(r->in_bytes, r->acked_bytes);
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
	f[28] = r->min_rtt_us ? (__s32)tp_min64((__u64)s->epoch_us / r->min_rtt_us, 1 << 16) : 0;
	f[29] = tp_ratio(mean, s->window_max);
	f[30] = r->acks ? (__s32)tp_ratio(r->in_packets, r->acks) : 0;
	f[31] = r->flags & TP_FLOW_ECT_SYN ? 1 : 0;
	tp_features_growth(s, r, mean, f);
	tp_features_context(s, r, known, f);
	tp_features_laws(s, r, mean, f);
	tp_features_bend(s, mean, f);
	tp_features_place(s, r, mean, f);
}

#endif
