/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * tune_end.h - what the tunings learn at a connection's end, and what the guard
 * compares; for the daemon: which tunings a connection has, and its guard's orders.
 */
#ifndef TCPILOT_PILOT_TUNE_END_H
#define TCPILOT_PILOT_TUNE_END_H

#define GROUP_MOST 1024

static __always_inline void halve(struct tp_cohort *g)
{
	g->connections >>= 1;
	g->late >>= 1;
	g->sent_packets >>= 1;
	g->lost_packets >>= 1;
}

static __always_inline void count_group(struct tp_tuned *t, const struct tp_cohort *s, __u32 late,
					__u32 tune, int held)
{
	struct tp_cohort *g = held ? &t->without[tune] : &t->with[tune];

	if (g->connections >= GROUP_MOST) { /* the past counts half */
		halve(&t->with[tune]);
		halve(&t->without[tune]);
	}
	g->connections++;
	g->late += late;
	g->sent_packets += s->sent_packets;
	g->lost_packets += s->lost_packets;
}

/* The guard compares connections with a tuning and those held out from it, of those
 * that would have had it. */
static __always_inline void compare(const struct tcp_sock *tp, const struct bpf_tcp_sock *ts,
				    int windowed, const struct tp_tuning *g, struct tp_tuned *t,
				    __u32 tunings, __u32 min_rtt_us)
{
	__u32 held = held_out(g, tp_local_port(tp), tp_remote_port(tp));
	__u32 late = ts->srtt_us >> 3 > 2 * (__u64)min_rtt_us;
	struct tp_cohort sent = {.sent_packets = ts->data_segs_out,
				 .lost_packets = ts->total_retrans};
	/* what came out of order tells of the peer's losses */
	struct tp_cohort received = {.sent_packets = ts->data_segs_in,
				     .lost_packets = tp->rcv_ooopack};

	for (__u32 i = 0; i < TP_TUNE_ACK_PRIORITY; i++) {
		if (!(tunings >> i & 1) || !t->set[i])
			continue;
		if (i == TP_TUNE_IW && !windowed && !tp_is_held(held, i))
			continue;
		count_group(t, i == TP_TUNE_RWND ? &received : &sent, late, i, tp_is_held(held, i));
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

/* A SYN is looked at for its receive window only once there is one to set. */
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

/* What a connection on this path need not be looked at for. */
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

/* At each end: which tunings were of use, or would have been. */
static __always_inline void note_uses(const struct bpf_tcp_sock *ts, struct tp_path *path)
{
	__u16 number = (__u16)path->connections;

	if (cfg.tunes & 1 << TP_TUNE_RTO &&
	    ts->total_retrans) /* perhaps a SYN, which no event tells */
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

/* With the path's busy flag held, after the path itself has learned.  windowed:
 * the connection's initial window was tuned. */
__noinline int tune_learn(struct bpf_sock_ops *ctx, struct tp_path *path, struct tp_tuned *t,
			  __u32 policy, int windowed)
{
	const struct tcp_sock *tp = tcp_of(ctx);
	struct tp_net_measures m = {};
	struct bpf_sock *sk = ctx->sk;
	const struct tp_tuning *g;
	struct bpf_tcp_sock *ts;
	__u32 net, tunings;

	ts = sk ? bpf_tcp_sock(sk) : 0;
	if (!path || !t || !tp || !ts)
		return 0;
	learn_windows(tp, ts, t, bpf_ktime_get_coarse_ns());
	if (ts->srtt_us)
		t->rttvar_us = tp_rttvar(t->rttvar_us, tp->mdev_us >> 2);
	m.min_rtt_us = tp_window_min(&path->min_rtt_us);
	m.rate = tp_window_max(&path->max_delivery_rate);
	m.rttvar_us = t->rttvar_us;
	if (path->connections >= 3 && (path->connections < 16 || !(path->connections & 12))) {
		m.wireless = tp_is_wireless(tp);
		net = tp_infer_net(&m);
		t->net = (__u8)net;
		t->net_why = (__u8)(net >> 8);
	}
	if (windowed && !ts->total_retrans)
		release_brake(t);
	g = tuning_of(policy, t->net);
	path->skips = to_skip(path, t, g);
	meet_receive_window(path, t, g);
	tunings = g->features & ~path->skips;
	if (!is_lossy_time())
		tunings &= ~(1 << TP_TUNE_RTO);
	if (!ts->total_retrans)
		tunings &= ~(1 << TP_TUNE_THIN);
	if (tunings)
		compare(tp, ts, windowed, g, t, tunings, m.min_rtt_us);
	return 0;
}

/* For the list of connections: what is set without being remembered. */
static __always_inline __u8 tunings_of(const struct tcp_sock *tp, const struct tp_path_key *key)
{
	const struct tp_tuning *g;
	struct tp_path *path;
	struct tp_tuned *t;
	__u32 slot, held;
	__u8 bits = 0;

	path = find_path(key, &slot);
	t = path ? tuned_of(path, slot) : 0;
	if (!t)
		return 0;
	g = tuning_of(key->policy, t->net);
	held = held_out(g, tp_local_port(tp), tp_remote_port(tp));
	if (has_short_timer(tp) && is_on(g, t, held, TP_TUNE_RTO))
		bits |= 1 << TP_TUNE_RTO;
	if (t->rwnd_packets && is_on(g, t, held, TP_TUNE_RWND))
		bits |= 1 << TP_TUNE_RWND;
	if (tp->inet_conn.icsk_delack_max < KERNELS_TICKS && is_on(g, t, held, TP_TUNE_QUICK_ACK))
		bits |= 1 << TP_TUNE_QUICK_ACK;
	if (has_linear_timeouts(tp) && is_on(g, t, held, TP_TUNE_THIN))
		bits |= 1 << TP_TUNE_THIN;
	if (t->limit_rate && tp_sock_of(tp)->sk_max_pacing_rate == t->limit_rate)
		bits |= 1 << TP_TUNE_RATE_LIMIT;
	return bits;
}

/* For the daemon: what its guard has decided of a path. */
SEC("syscall")
int put_order(struct tp_order *from)
{
	__u32 slot = from->slot;
	struct tp_tuned *t = bpf_map_lookup_elem(&tuned, &slot);
	struct tp_path *path = path_at(slot);

	if (!t || !path || t->born_ns != from->born_ns)
		return 1;
	if (from->off != t->off || from->brake != t->brake) { /* judged anew from here on */
		__builtin_memset(t->with, 0, sizeof(t->with));
		__builtin_memset(t->without, 0, sizeof(t->without));
	}
	t->off = from->off;
	path->skips = 0;
	if (from->brake > t->brake) {
		t->brake = from->brake;
		t->brake_ns = bpf_ktime_get_ns();
	}
	return 0;
}

#endif
