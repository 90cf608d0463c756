/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * sample.h - the measures of one connection: how they are read, and how they enter those
 * of its path in the table for tunings.
 *
 * Called at a connection's end with the path's busy flag held.  Integers only, no
 * helper calls: the BPF program and crates/core compile the same text.
 */
#ifndef TCPILOT_CORE_SAMPLE_H
#define TCPILOT_CORE_SAMPLE_H

#include <linux/bpf.h>

#include "../abi/config.h"
#include "../abi/path.h"
#include "num.h"
#include "window.h"

/* The highest rate (147 Tbit/s): a million times as much does not overflow. */
#define TP_RATE_MAX (~0ULL / 1000000)

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

/* Fewer ticks give no mean rate: the kernel counts no finer. */
#define TP_BUSY_TICKS 5

/* Bytes per second of a whole connection, over the time in which it had data
 * under way; 0 if that was too short.  Rounded down, by up to one tick. */
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

#define TP_SSTHRESH_INFINITE 0x7fffffff

/* The kernel's threshold before slow start has ended is none. */
TP_INLINE __u32 tp_valid_ssthresh(__u32 packets)
{
	return packets >= TP_SSTHRESH_INFINITE ? 0 : packets;
}

/* Reads the kernel's counts of a connection.  tp_conn_rate computes its rate. */
TP_INLINE void tp_measure(const struct bpf_tcp_sock *ts, struct tp_sample *s)
{
	s->delivery_rate = 0;
	s->min_rtt_us = tp_valid_rtt_us(ts->rtt_min);
	s->srtt_us = ts->srtt_us >> 3;
	s->ssthresh_packets = tp_valid_ssthresh(ts->snd_ssthresh);
	s->sent_packets = ts->data_segs_out;
	s->lost_packets = ts->total_retrans;
}

TP_INLINE void tp_path_roll(struct tp_path *path, __u32 epoch)
{
	if (!tp_epoch_moved(path->epoch, epoch))
		return;
	tp_window64_roll(&path->max_delivery_rate, path->epoch, epoch);
	tp_window64_roll(&path->sent_packets, path->epoch, epoch);
	tp_window64_roll(&path->lost_packets, path->epoch, epoch);
	tp_window32_roll(&path->min_rtt_us, path->epoch, epoch);
	path->epoch = epoch;
}

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
	/* Below the floor a threshold shows a short flow, and not the path. */
	if (s->ssthresh_packets >= cfg->ssthresh_floor_packets && s->ssthresh_packets) {
		__u32 ssthresh_epoch = tp_epoch(now_ns, cfg->ssthresh_window_ns);

		tp_window32_roll(&path->ssthresh_packets, path->ssthresh_epoch, ssthresh_epoch);
		if (tp_epoch_moved(path->ssthresh_epoch, ssthresh_epoch))
			path->ssthresh_epoch = ssthresh_epoch;
		path->ssthresh_packets.current =
		    (__u32)tp_max64(path->ssthresh_packets.current, s->ssthresh_packets);
	}
}

/* Adds a rate alone, before the connection's end. */
TP_INLINE void tp_keep_rate(const struct tp_config *cfg, struct tp_path *path, __u64 rate,
			    __u64 now_ns)
{
	tp_path_roll(path, tp_epoch(now_ns, cfg->window_ns));
	path->max_delivery_rate.current = tp_max64(path->max_delivery_rate.current, rate);
}

/* Whether this is one connection in 2^shift, by its ports: of connections opened or
 * closed together, some are and some are not. */
TP_INLINE int tp_is_one_of(__u32 shift, __u32 local_port, __u32 remote_port)
{
	return (local_port ^ remote_port) * 0x9e3779b1 >> (32 - shift) ==
	       0; /* 2^32 / golden ratio */
}

/* One in four. */
TP_INLINE int tp_is_sampled(__u32 local_port, __u32 remote_port)
{
	return tp_is_one_of(2, local_port, remote_port);
}

#endif
