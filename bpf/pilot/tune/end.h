/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * end.h - learning for the tunings at a connection's end, and counts for the guard to compare.
 */
#ifndef TCPILOT_PILOT_TUNE_END_H
#define TCPILOT_PILOT_TUNE_END_H

#include "../../core/num.h"
#include "../../core/tune/tune.h"
#include "../../core/window.h"
#include "../socket.h"
#include "../visit.h"
#include "tuning.h"

#define GROUP_MOST 1024

static __always_inline void halve(struct tp_cohort *g)
{
	g->connections >>= 1;
	g->late >>= 1;
	g->sent_packets >>= 1;
	g->lost_packets >>= 1;
}

static __always_inline void count_group(struct tp_tuned *t, const struct tp_cohort *s, __u32 late,
					__u32 tune, int withheld)
{
	struct tp_cohort *g = withheld ? &t->without[tune] : &t->with[tune];

	if (g->connections >= GROUP_MOST) { /* the past counts half */
		halve(&t->with[tune]);
		halve(&t->without[tune]);
	}
	g->connections++;
	g->late += late;
	g->sent_packets += s->sent_packets;
	g->lost_packets += s->lost_packets;
}

/* The guard compares connections with a tuning to eligible ones without
 * it.  windowed: the initial window was tuned. */
static __always_inline void compare(const struct tcp_sock *tp, const struct bpf_tcp_sock *ts,
				    const struct tuning *t, __u32 tunings, int windowed, __u32 late)
{
	struct tp_cohort sent = {.sent_packets = ts->data_segs_out,
				 .lost_packets = ts->total_retrans};
	/* segments out of order show the peer's losses */
	struct tp_cohort received = {.sent_packets = ts->data_segs_in,
				     .lost_packets = tp->rcv_ooopack};

	for (__u32 i = 0; i < TP_TUNE_ACK_PRIORITY; i++) {
		if (!(tunings >> i & 1) || !t->known->set[i])
			continue;
		if (i == TP_TUNE_IW && !windowed && !tp_is_withheld(t->withheld, i))
			continue;
		count_group(t->known, i == TP_TUNE_RWND ? &received : &sent, late, i,
			    tp_is_withheld(t->withheld, i));
	}
}

static __always_inline void learn_windows(const struct tcp_sock *tp, const struct bpf_tcp_sock *ts,
					  struct tp_tuned *t, __u64 now_ns)
{
	__u32 epoch = tp_epoch(now_ns, cfg.ssthresh_window_ns), ssthresh = ts->snd_ssthresh;
	__u32 window = tp_window_shown(ssthresh >= TP_SSTHRESH_INFINITE ? 0 : ssthresh,
				       ts->snd_cwnd, ts->data_segs_out);

	tp_window32_roll(&t->saved_packets, t->epoch, epoch);
	tp_window32_roll(&t->receive_bytes, t->epoch, epoch);
	t->epoch = epoch;
	if (window >= cfg.ssthresh_floor_packets)
		t->saved_packets.current = (__u32)tp_max64(t->saved_packets.current, window);
	t->receive_bytes.current = (__u32)tp_max64(t->receive_bytes.current, tp->rcvq_space.space);
	/* a packet's memory is up to twice its data */
	t->receive_room_bytes = (__u32)tp_common_of(tp)->skc_net.net->ipv4.sysctl_tcp_rmem[2] / 2;
	t->receive_mss = tp->advmss;
}

static __always_inline void release_brake(struct tp_tuned *t)
{
	if (++t->clean < TP_BRAKE_CLEAN)
		return;
	t->clean = 0;
	if (t->brake)
		t->brake--;
}

/* SYNs are checked for the receive window only once some path has one to set. */
static __always_inline void meet_receive_window(const struct tp_path *path,
						const struct tp_tuned *t, const struct tp_tuning *g)
{
	__u32 receive = g->features & 1 << TP_TUNE_RWND;

	if (g->rwnd_least_bytes < TP_RWND_KERNEL && receive)
		meet(receive | TUNES_MET_LOWERED);
	else if (is_used(path, TP_USE_RECEIVE) &&
		 (g->link_mbit ||
		  (__u64)t->receive_bytes.current * g->rwnd_beta_x8 / 8 > TP_RWND_KERNEL))
		meet(receive);
}

/* The tunings that a connection on this path need not be checked for, as bits. */
static __always_inline __u8 to_skip(const struct tp_path *path, const struct tp_tuned *t,
				    const struct tp_tuning *g)
{
	__u32 skips = ~g->features | t->off;

	if (!is_used(path, TP_USE_WINDOW))
		skips |= 1 << TP_TUNE_IW;
	if (!is_used(path, TP_USE_ACKS))
		skips |= 1 << TP_TUNE_QUICK_ACK;
	if (!t->limit_rate || bpf_ktime_get_coarse_ns() > t->limit_until_ns)
		skips |= 1 << TP_TUNE_RATE_LIMIT;
	if (!is_used(path, TP_USE_RECEIVE) && g->rwnd_least_bytes >= TP_RWND_KERNEL)
		skips |= 1 << TP_TUNE_RWND;
	return (__u8)skips;
}

/* Notes at each end which tunings were of use, or would have been. */
static __always_inline void note_uses(const struct bpf_tcp_sock *ts, struct tp_path *path)
{
	__u16 number = (__u16)path->connections;

	if (cfg.tunes & 1 << TP_TUNE_RTO &&
	    ts->total_retrans) /* perhaps of a SYN: no event reports it */
		note_loss();
	if (cfg.tunes & 1 << TP_TUNE_IW && ts->data_segs_out > TP_FIRST_WINDOW) {
		path->used[TP_USE_WINDOW] = number;
		path->skips &= ~(1 << TP_TUNE_IW);
		meet(1 << TP_TUNE_IW);
	}
	if (cfg.tunes & 1 << TP_TUNE_QUICK_ACK && ts->data_segs_in > 1) {
		path->used[TP_USE_ACKS] = number;
		path->skips &= ~(1 << TP_TUNE_QUICK_ACK);
	}
	if (cfg.tunes & 1 << TP_TUNE_RWND && ts->bytes_received > TP_RWND_KERNEL) {
		path->used[TP_USE_RECEIVE] = number;
		path->skips &= ~(1 << TP_TUNE_RWND);
	}
}

/* Guesses the path's kind of network, again now and then. */
static __always_inline void infer_net(const struct tcp_sock *tp, const struct tp_path *path,
				      struct tp_tuned *t)
{
	struct tp_net_measures m = {.min_rtt_us = tp_window_min(&path->min_rtt_us),
				    .rate = tp_window_max(&path->max_delivery_rate),
				    .rttvar_us = t->rttvar_us};
	struct tp_net_found found;

	if (path->connections < 3 || (path->connections >= 16 && path->connections & 12))
		return;
	m.wireless = tp_is_wireless(tp);
	found = tp_infer_net(&m);
	t->net = found.net;
	t->net_why = found.why;
}

/* The tunings for which this connection can be compared. */
static __always_inline __u32 to_compare(const struct bpf_tcp_sock *ts, const struct tp_path *path,
					const struct tp_tuning *g)
{
	__u32 tunings = g->features & ~path->skips;

	if (!is_lossy_time())
		tunings &= ~(1 << TP_TUNE_RTO);
	if (!ts->total_retrans)
		tunings &= ~(1 << TP_TUNE_THIN);
	return tunings;
}

/* With the path's busy flag held, after the path itself has learned.  windowed:
 * the connection's initial window was tuned. */
__noinline int tune_learn(hands_t *hands, struct tp_path *path, struct tp_tuned *t, __u32 policy,
			  int windowed)
{
	struct visit v = begin_visit(hands, 0);
	struct tuning tuning = {.known = t};
	struct bpf_tcp_sock *ts;
	__u32 tunings;

	ts = v.sk ? bpf_tcp_sock(v.sk) : 0;
	if (!path || !t || !v.tp || !ts)
		return 0;
	learn_windows(v.tp, ts, t, bpf_ktime_get_coarse_ns());
	if (ts->srtt_us)
		t->rttvar_us = tp_rttvar(t->rttvar_us, v.tp->mdev_us >> 2);
	infer_net(v.tp, path, t);
	if (windowed && !ts->total_retrans)
		release_brake(t);
	tuning.settings = tuning_of(policy, t->net);
	path->skips = to_skip(path, t, tuning.settings);
	meet_receive_window(path, t, tuning.settings);
	tunings = to_compare(ts, path, tuning.settings);
	if (!tunings)
		return 0;
	tuning.withheld = withheld_from(tuning.settings, tp_local_port(v.tp), tp_remote_port(v.tp));
	compare(v.tp, ts, &tuning, tunings, windowed,
		ts->srtt_us >> 3 > 2 * (__u64)tp_window_min(&path->min_rtt_us));
	return 0;
}

#endif
