/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * learn.h - the pilot's arithmetic: windows, cost, update, choice, loss rule.
 *
 * Pure functions over the structures of abi.h, integers only, no helper calls:
 * the BPF program includes this, and crates/core compiles the
 * very same text for the host.
 *
 * The learner is the epsilon-greedy one of bpftune's tcp_conn tuner as its
 * manual page and article tell it, see docs/understand/algorithms.md.  Where that is known
 * to go wrong the text here departs from it and says so.
 */
#ifndef TCPILOT_LEARN_H
#define TCPILOT_LEARN_H

#include "../abi/abi.h"
#include "window.h"

TP_INLINE void tp_path_roll(struct tp_path *path, __u32 epoch)
{
	if (path->epoch == epoch)
		return;
	tp_window64_roll(&path->max_delivery_rate, path->epoch, epoch);
	tp_window64_roll(&path->sent_packets, path->epoch, epoch);
	tp_window64_roll(&path->lost_packets, path->epoch, epoch);
	tp_window32_roll(&path->min_rtt_us, path->epoch, epoch);
	path->epoch = epoch;
}

TP_INLINE void tp_arm_roll(struct tp_arm *arm, __u32 epoch)
{
	tp_window64_roll(&arm->max_delivery_rate, arm->epoch, epoch);
	tp_window32_roll(&arm->min_rtt_us, arm->epoch, epoch);
	arm->epoch = epoch;
}

/* The highest rate (147 Tbit/s) whose cost does not overflow. */
#define TP_RATE_MAX (~0ULL / TP_COST_SCALE)

/* Bytes per second of the kernel's rate sample; 0 when there is none.
 * Multiplied before it is divided: slow links keep their digits. */
TP_INLINE __u64 tp_delivery_rate(__u32 packets, __u32 interval_us, __u32 mss)
{
	__u64 bytes = (__u64)packets * mss;

	if (!interval_us)
		return 0;
	if (bytes > ~0ULL / 1000000)
		return TP_RATE_MAX;
	return tp_min64(bytes * 1000000 / interval_us, TP_RATE_MAX);
}

/* Ticks below which a connection's mean rate means nothing: the kernel counts no
 * finer. */
#define TP_BUSY_TICKS 5

/* Bytes per second of a whole connection, over the time in which it had data
 * under way; 0 where that was too short.  Rounded down, by up to one tick. */
TP_INLINE __u64 tp_busy_rate(__u64 bytes_acked, __u32 busy_ticks, __u32 ticks_per_s)
{
	if (busy_ticks < TP_BUSY_TICKS || !ticks_per_s)
		return 0;
	if (bytes_acked >> 50 || ticks_per_s >> 14) /* the product would overflow */
		return TP_RATE_MAX;
	return tp_min64(bytes_acked * ticks_per_s / (busy_ticks + 1), TP_RATE_MAX);
}

/* The kernel's "no sample yet" is all ones. */
TP_INLINE __u32 tp_valid_rtt_us(__u32 rtt_us)
{
	return rtt_us == ~0U ? 0 : rtt_us;
}

/*
 * Cost of a connection, 0 at the optimum (least RTT and highest rate at once):
 *
 *   (min_rtt - path.min_rtt) * S / path.min_rtt
 *     + (path.max_rate - rate) * S / path.max_rate
 *
 * min_rtt is this connection's, rate the highest of its arm.  The path's
 * figures include this sample, so no difference is negative; where another CPU
 * has been in between it counts as 0.
 */
TP_INLINE __u64 tp_cost(__u32 min_rtt_us, __u32 path_min_rtt_us, __u64 rate, __u64 path_rate)
{
	__u64 cost = 0;

	if (path_min_rtt_us && min_rtt_us > path_min_rtt_us)
		cost += (__u64)(min_rtt_us - path_min_rtt_us) * TP_COST_SCALE / path_min_rtt_us;
	if (path_rate > rate)
		cost += (path_rate - rate) * TP_COST_SCALE / path_rate;
	return cost;
}

/* cost += (sample - cost) / 2^shift; the first sample is taken whole.  That it
 * is the first is known by count: a cost of 0 is perfect, not unseen. */
TP_INLINE __u64 tp_update(__u64 cost, __u64 sample, __u32 samples, __u32 shift)
{
	if (!samples)
		return sample;
	if (sample > cost)
		return cost + ((sample - cost) >> (shift & 63));
	return cost - ((cost - sample) >> (shift & 63));
}

/* More than 1/2^shift of the segments were retransmitted, and enough were sent
 * for that share to mean something. */
TP_INLINE int tp_loss_is_heavy(__u32 retransmitted, __u32 sent, __u32 min_sent, __u32 shift)
{
	return sent >= min_sent && ((__u64)retransmitted << (shift & 31)) > sent;
}

TP_INLINE __u32 tp_bits(__u32 mask)
{
	__u32 n = 0;

#pragma unroll
	for (int i = 0; i < TP_MAX_ARMS; i++)
		n += (mask >> i) & 1;
	return n;
}

/* Index of the nth (from 0) bit set in mask, which has more than n.
 *
 * Here and below conditions are arithmetic, not branches: the verifier follows
 * every branch, and eight arms with two outcomes each are too many. */
TP_INLINE __u8 tp_nth_bit(__u32 mask, __u32 n)
{
	__u32 found = 0;

#pragma unroll
	for (__u32 i = 0; i < TP_MAX_ARMS; i++) {
		__u32 bit = (mask >> i) & 1;
		__u32 n_is_0 = (~n & (n - 1)) >> 31; /* n is small, or gone below 0 */

		found += i * (bit & n_is_0);
		n -= bit;
	}
	return found;
}

/* 1 where x is 0, else 0. */
TP_INLINE __u32 tp_is_zero(__u64 x)
{
	return (__u32)((x | -x) >> 63) ^ 1;
}

/* Index of the only bit set in mask. */
TP_INLINE __u8 tp_only_bit(__u32 mask)
{
	return !!(mask & 0xaa) | !!(mask & 0xcc) << 1 | !!(mask & 0xf0) << 2;
}

TP_INLINE __u8 tp_draw(__u32 mask, __u32 random)
{
	__u32 n;

	if (!(mask & (mask - 1)) && mask)
		return tp_only_bit(mask);
	n = tp_bits(mask);
	return n ? tp_nth_bit(mask, random % n) : TP_NO_ARM;
}

/* Among the eligible: arms that have given no sample, but may yet. */
TP_INLINE __u32 tp_untried(const struct tp_path *path, __u32 eligible, __u32 max_unpaid)
{
	__u32 mask = 0;

#pragma unroll
	for (int i = 0; i < TP_MAX_ARMS; i++) {
		const struct tp_arm *arm = &path->arms[i];
		__u32 hopeful = (__u32)(((__u64)arm->unpaid - max_unpaid) >> 63);

		mask |= (tp_is_zero(arm->samples) & hopeful) << i;
	}
	return mask & eligible;
}

/* Among the eligible: the arms of least cost. */
TP_INLINE __u32 tp_cheapest(const struct tp_path *path, __u32 eligible)
{
	__u64 least = ~0ULL;
	__u32 mask = 0;

#pragma unroll
	for (int i = 0; i < TP_MAX_ARMS; i++)
		if ((eligible >> i & 1) && path->arms[i].samples)
			least = tp_min64(least, path->arms[i].cost);
#pragma unroll
	for (int i = 0; i < TP_MAX_ARMS; i++) {
		const struct tp_arm *arm = &path->arms[i];

		mask |= (tp_is_zero(arm->cost ^ least) & (tp_is_zero(arm->samples) ^ 1)) << i;
	}
	return mask & eligible;
}

/* Too few connections have told something of this path. */
TP_INLINE int tp_is_few(const struct tp_config *cfg, const struct tp_path *path)
{
	return path->instances < cfg->min_instances;
}

/* Arms to draw among, and the reason. */
struct tp_among {
	__u8 arms;
	__u8 why;
};

/* The choice without exploration: the least cost, where an arm without a sample
 * counts as least. */
TP_INLINE struct tp_among tp_greedy(const struct tp_config *cfg, const struct tp_path *path,
				    __u32 eligible)
{
	struct tp_among g = {.why = TP_WHY_NO_EVIDENCE};

	if ((g.arms = tp_untried(path, eligible, cfg->max_unpaid)))
		g.why = TP_WHY_UNTRIED;
	else if ((g.arms = tp_cheapest(path, eligible)))
		g.why = TP_WHY_GREEDY;
	return g;
}

struct tp_choice {
	__u8 arm;
	__u8 why;
};

/*
 * The choice for a new connection: nothing before min_instances connections
 * told something; then one in epsilon draws among all eligible arms, and the
 * others among the greedy ones.  Ties are drawn.  random: 32 uniform bits, halves
 * used independently.
 */
TP_INLINE struct tp_choice tp_choose(const struct tp_config *cfg, const struct tp_path *path,
				     struct tp_among greedy, __u32 eligible, __u32 random)
{
	struct tp_choice c = {.arm = TP_NO_ARM, .why = TP_WHY_NO_ARM};
	__u32 among = greedy.arms;

	if (!eligible)
		return c;
	if (tp_is_few(cfg, path)) {
		c.why = TP_WHY_FEW;
		return c;
	}
	c.why = greedy.why;
	if (cfg->epsilon && (random & 0xffff) % cfg->epsilon == 0) {
		among = eligible;
		c.why = TP_WHY_EXPLORE;
	}
	c.arm = tp_draw(among, random >> 16);
	return c;
}

/* What one connection has shown, measured at its end. */
struct tp_sample {
	__u64 delivery_rate; /* of a connection that the application did not limit; 0: none */
	__u32 min_rtt_us;    /* 0: none */
	__u32 srtt_us;
	__u32 ssthresh_packets; /* 0: slow start never ended */
	__u32 sent_packets;
	__u32 lost_packets;
};

/* Adds a connection's sample to its path's measures. */
TP_INLINE void tp_learn_path(const struct tp_config *cfg, struct tp_path *path,
			     const struct tp_sample *s, __u64 now_ns)
{
	tp_path_roll(path, tp_epoch(now_ns, cfg->window_ns));
	path->max_delivery_rate.current =
	    tp_max64(path->max_delivery_rate.current, s->delivery_rate);
	path->min_rtt_us.current = (__u32)tp_min_nonzero(path->min_rtt_us.current, s->min_rtt_us);
	path->sent_packets.current += s->sent_packets;
	path->lost_packets.current += s->lost_packets;
	if (s->srtt_us)
		path->srtt_us = path->srtt_us
				    ? path->srtt_us - (path->srtt_us >> 3) + (s->srtt_us >> 3)
				    : s->srtt_us;
	/* Below the floor a threshold tells of a short flow, not of the path. */
	if (s->ssthresh_packets >= cfg->ssthresh_floor_packets && s->ssthresh_packets) {
		__u32 ssthresh_epoch = tp_epoch(now_ns, cfg->ssthresh_window_ns);

		tp_window32_roll(&path->ssthresh_packets, path->ssthresh_epoch, ssthresh_epoch);
		path->ssthresh_epoch = ssthresh_epoch;
		path->ssthresh_packets.current =
		    (__u32)tp_max64(path->ssthresh_packets.current, s->ssthresh_packets);
	}
}

/*
 * Charges an arm; says whether it did.  rate and min_rtt_us are what the arm
 * itself has shown.  failed: the connection timed out with data under way, or had
 * to be rescued, so the arm's best rate of other times does not excuse it: its
 * own counts, 0 when it had none, and where the path has no rate to compare with,
 * it is as if it had.
 *
 * An arm of which no rate is known, on a path that has one, is not charged: its
 * connections were limited by the application, and that is no evidence that
 * the arm is slow.
 */
TP_INLINE int tp_learn_arm(const struct tp_config *cfg, struct tp_path *path, struct tp_arm *arm,
			   __u64 rate, __u32 min_rtt_us, int failed, __u64 now_ns)
{
	__u64 path_rate = tp_window_max(&path->max_delivery_rate);
	__u64 sample;

	tp_arm_roll(arm, tp_epoch(now_ns, cfg->window_ns));
	arm->max_delivery_rate.current = tp_max64(arm->max_delivery_rate.current, rate);
	arm->min_rtt_us.current = (__u32)tp_min_nonzero(arm->min_rtt_us.current, min_rtt_us);
	if (!failed)
		rate = tp_window_max(&arm->max_delivery_rate);
	if (!failed && !rate && path_rate)
		return 0;
	sample = tp_cost(min_rtt_us, tp_window_min(&path->min_rtt_us), rate, path_rate);
	if (failed && !path_rate)
		sample += TP_COST_SCALE;
	arm->cost = tp_update(arm->cost, sample, arm->samples, cfg->learning_shift);
	arm->samples++;
	arm->unpaid = 0;
	return 1;
}

#endif
