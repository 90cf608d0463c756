/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * tune.h - the tunings of an established connection: set when it is, followed by
 * a callback per round trip where something has to be undone, judged at its end.
 *
 * The initial window (RFC 9959's words in enum tp_phase): it goes out over one
 * round trip, by a bound on the pacing rate that is lifted with the first
 * acknowledgement.  A loss before all of it is acknowledged is a retreat: the
 * window is clamped to half of what arrived till the loss is repaired, and the
 * path's brake halves the windows of those that come after.
 */
#ifndef TCPILOT_PILOT_TUNE_H
#define TCPILOT_PILOT_TUNE_H

#define GROUP_MOST 1024
#define NO_PACING (~0U)
#define NO_CLAMP 0x7fffffff

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* the loader: a slot of the table of paths each */
	__type(key, __u32);
	__type(value, struct tp_tuned);
} tuned SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct tp_police);
} police SEC(".maps");

static __always_inline const struct tcp_sock *tcp_of(struct bpf_sock_ops *ctx)
{
	struct bpf_sock *sk = ctx->sk;

	return sk ? bpf_skc_to_tcp_sock(sk) : 0;
}

static __always_inline const struct tp_tuning *tuning_of(__u32 policy, __u32 net)
{
	return &config()->tuning[within(policy, TP_MAX_POLICIES)][within(net, TP_NETS)];
}

/* What is known of a path, empty for one that has just taken the slot. */
static __always_inline struct tp_tuned *tuned_of(const struct tp_path *path, __u32 slot)
{
	struct tp_tuned *t = bpf_map_lookup_elem(&tuned, &slot);

	if (t && t->born_ns != path->born_ns) {
		__builtin_memset(t, 0, sizeof(*t));
		t->born_ns = path->born_ns;
	}
	return t;
}

static __always_inline __u32 held_out(const struct tp_tuning *g, __u16 local, __u16 remote)
{
	return tp_hold_out((__u32)local << 16 | remote, (__u32)cfg.hash_seed, g->hold_out_shift);
}

static __always_inline int is_on(const struct tp_tuning *g, const struct tp_tuned *t, __u32 held,
				 __u32 tune)
{
	return (g->features & ~t->off) >> tune & 1 && !tp_is_held(held, tune);
}

/* Sets a socket option; says whether the kernel took it.  A dry run only counts. */
static __always_inline int set_option(struct bpf_sock_ops *ctx, int level, int option, __u32 value,
				      __u32 tune)
{
	if (!cfg.dry_run && bpf_setsockopt(ctx, level, option, &value, sizeof(value))) {
		COUNT(refused[within(tune, TP_TUNES)]);
		return 0;
	}
	return 1;
}

/* The kernel takes no timer of less than two ticks. */
static __always_inline __u32 at_least_two_ticks(__u32 us)
{
	return ticks_per_s ? (__u32)tp_max(us, 2000000 / ticks_per_s) : us;
}

static __always_inline void count_set(struct tp_tuned *t, __u32 tune)
{
	COUNT(tuned[within(tune, TP_TUNES)]);
	__sync_fetch_and_add(&t->set[within(tune, TP_TUNES)], 1);
}

/* The halves of a window of this path that have not expired. */
static __always_inline __u32 saved_window(const struct tp_tuned *t, __u64 now_ns)
{
	__u32 age = tp_epoch(now_ns, cfg.ssthresh_window_ns) - t->epoch;

	if (age == 0)
		return tp_window_max32(&t->saved_packets);
	return age == 1 ? t->saved_packets.current : 0;
}

/* The connection's storage, made where there was none. */
static __always_inline struct tp_conn *storage_of(struct bpf_sock *sk, const struct tcp_sock *tp,
						  __u64 born_ns, __u8 flags)
{
	struct tp_conn *conn = bpf_sk_storage_get(&conns, sk, 0, 0);
	struct tp_conn fresh;

	if (conn && conn->open)
		return conn;
	fresh = kept_as_it_is(tp);
	fresh.path_born_ns = born_ns;
	fresh.flags = flags;
	remember(sk, &fresh);
	return bpf_sk_storage_get(&conns, sk, 0, 0);
}

/* Spreads the window, unless the application has a bound of its own. */
static __always_inline int pace_window(struct bpf_sock_ops *ctx, const struct tcp_sock *tp,
				       __u32 packets, __u32 rtt_us)
{
	if ((__u32)tp_sock_of(tp)->sk_max_pacing_rate != NO_PACING)
		return 0;
	return set_option(ctx, SOL_SOCKET, SO_MAX_PACING_RATE,
			  tp_window_rate(packets, tp->mss_cache, rtt_us), TP_TUNE_IW);
}

/* Says whether the connection has to be followed. */
static __always_inline int tune_window(struct bpf_sock_ops *ctx, struct bpf_sock *sk,
				       const struct tcp_sock *tp, const struct tp_path *path,
				       struct tp_tuned *t, const struct tp_tuning *g, __u8 flags)
{
	__u64 now_ns = bpf_ktime_get_coarse_ns();
	struct tp_iw in = {.saved_packets = saved_window(t, now_ns),
			   .flows = path->live_flows,
			   .rtt_us = tp->srtt_us >> 3,
			   .srtt_us = path->srtt_us,
			   .min_rtt_us = tp_window_min(&path->min_rtt_us),
			   .base_packets = tp->snd_cwnd,
			   .brake = tp_brake_now(t->brake, t->brake_ns, now_ns)};
	__u32 iw = tp_initial_window(g, &in);
	struct tp_conn *conn;

	if (iw == in.base_packets || !set_option(ctx, SOL_TCP, TCP_BPF_IW, iw, TP_TUNE_IW))
		return 0;
	count_set(t, TP_TUNE_IW);
	t->iw_packets = iw;
	t->iw_saved_packets = in.saved_packets;
	t->iw_flows = in.flows;
	if (cfg.dry_run || iw < in.base_packets)
		return 0;
	conn = storage_of(sk, tp, path->born_ns, flags);
	if (!conn)
		return 0;
	conn->tuned |= 1 << TP_TUNE_IW;
	conn->iw_packets = tp_min(iw, 0xffff);
	conn->phase = pace_window(ctx, tp, iw, in.rtt_us) ? TP_PHASE_PACED : TP_PHASE_UNVALIDATED;
	return 1;
}

static __always_inline void tune_min_rto(struct bpf_sock_ops *ctx, const struct tp_path *path,
					 struct tp_tuned *t, const struct tp_tuning *g)
{
	__u32 rto_us = tp_min_rto_us(path->srtt_us, t->rttvar_us, g->rto_floor_us);

	if (!rto_us || !t->rttvar_us)
		return;
	rto_us = at_least_two_ticks(rto_us);
	if (!set_option(ctx, SOL_TCP, TCP_BPF_RTO_MIN, rto_us, TP_TUNE_RTO))
		return;
	t->rto_min_us = rto_us;
	count_set(t, TP_TUNE_RTO);
}

/* Where a policer is known: no faster than it lets through. */
static __always_inline void pace_as_policed(struct bpf_sock_ops *ctx, const struct tcp_sock *tp,
					    struct tp_tuned *t)
{
	if (!t->limit_rate || bpf_ktime_get_coarse_ns() > t->limit_until_ns ||
	    (__u32)tp_sock_of(tp)->sk_max_pacing_rate != NO_PACING)
		return;
	if (set_option(ctx, SOL_SOCKET, SO_MAX_PACING_RATE, (__u32)t->limit_rate,
		       TP_TUNE_RATE_LIMIT))
		count_set(t, TP_TUNE_RATE_LIMIT);
}

/*
 * Returns the callbacks that it needs.
 *
 * This and the like below are functions of their own, which the verifier checks
 * once and not for each way that leads to them; so they find the socket again.
 */
__noinline __u32 tune_established(struct bpf_sock_ops *ctx, struct tp_path *path, __u32 slot,
				  __u32 policy, __u32 flags)
{
	const struct tcp_sock *tp = tcp_of(ctx);
	struct bpf_sock *sk = ctx->sk;
	const struct tp_tuning *g;
	__u32 held, callbacks = 0;
	struct tp_tuned *t;

	if (!path || !sk || !tp)
		return 0;
	t = tuned_of(path, slot);
	if (!t)
		return 0;
	g = tuning_of(policy, t->net);
	if (!g->features)
		return 0;
	held = held_out(g, tp_local_port(tp), tp_remote_port(tp));
	if (is_on(g, t, held, TP_TUNE_IW) && tune_window(ctx, sk, tp, path, t, g, (__u8)flags))
		callbacks = BPF_SOCK_OPS_RTT_CB_FLAG;
	if (is_on(g, t, held, TP_TUNE_RATE_LIMIT))
		pace_as_policed(ctx, tp, t);
	if (is_on(g, t, held, TP_TUNE_RTO))
		tune_min_rto(ctx, path, t, g);
	if (is_on(g, t, held, TP_TUNE_QUICK_ACK) &&
	    set_option(ctx, SOL_TCP, TCP_BPF_DELACK_MAX, at_least_two_ticks(g->delack_us),
		       TP_TUNE_QUICK_ACK))
		count_set(t, TP_TUNE_QUICK_ACK);
	return callbacks;
}

/* The path of a connection that is under way. */
static __always_inline struct tp_path *path_of(struct bpf_sock *sk, const struct tcp_sock *tp,
					       struct tp_path_key *key, __u32 *slot)
{
	const struct tp_policy_config *policy;
	__u32 remote[4];

	tp_remote(sk, remote);
	policy = identify(tp, remote, key);
	return policy && !policy->leave_alone ? find_path(key, slot) : 0;
}

/* The first loss of a window that is not validated yet. */
static __always_inline void retreat(struct bpf_sock_ops *ctx, const struct tcp_sock *tp,
				    struct tp_conn *conn, struct tp_tuned *t)
{
	__u64 now_ns = bpf_ktime_get_coarse_ns();
	__u32 brake = tp_brake_now(t->brake, t->brake_ns, now_ns);

	if (conn->phase == TP_PHASE_PACED)
		set_option(ctx, SOL_SOCKET, SO_MAX_PACING_RATE, NO_PACING, TP_TUNE_IW);
	set_option(ctx, SOL_TCP, TCP_BPF_SNDCWND_CLAMP, (__u32)tp_max(tp->delivered / 2, 10),
		   TP_TUNE_IW);
	conn->phase = TP_PHASE_RETREAT;
	COUNT(retreats);
	__sync_fetch_and_add(&t->retreats, 1);
	t->brake = (__u8)tp_min(brake + 1, TP_BRAKE_MOST);
	t->brake_ns = now_ns;
	t->clean = 0;
}

static __always_inline void police_measures(const struct tcp_sock *tp, struct tp_police_now *n)
{
	n->now_us = bpf_ktime_get_ns() / 1000;
	n->bytes_acked = tp->bytes_acked;
	n->sent_packets = tp->data_segs_out;
	n->lost_packets = tp->total_retrans;
	n->srtt_us = tp->srtt_us >> 3;
	n->min_rtt_us = tp_valid_rtt_us(tp->rtt_min.s[0].v);
}

/* A loss where policers are looked for. */
static __always_inline void suspect_policer(struct bpf_sock_ops *ctx, struct bpf_sock *sk,
					    const struct tcp_sock *tp, struct tp_tuned *t,
					    const struct tp_tuning *g)
{
	struct tp_police *p, fresh = {};
	struct tp_police_now n;
	__u64 rate;

	p = bpf_sk_storage_get(&police, sk, &fresh, BPF_SK_STORAGE_GET_F_CREATE);
	if (!p || p->paced)
		return;
	police_measures(tp, &n);
	rate = tp_police_loss(p, &n);
	if (!rate) {
		bpf_sock_ops_cb_flags_set(ctx,
					  ctx->bpf_sock_ops_cb_flags | BPF_SOCK_OPS_RTT_CB_FLAG);
		return;
	}
	t->limit_rate = rate;
	t->limit_until_ns = bpf_ktime_get_coarse_ns() + g->probe_s * 1000000000ULL;
	pace_as_policed(ctx, tp, t);
	p->paced = 1;
}

/* At each retransmission, before the loss rule. */
__noinline int tune_loss(struct bpf_sock_ops *ctx)
{
	const struct tcp_sock *tp = tcp_of(ctx);
	struct bpf_sock *sk = ctx->sk;
	struct tp_path_key key = {};
	const struct tp_tuning *g;
	struct tp_conn *conn;
	struct tp_path *path;
	struct tp_tuned *t;
	__u32 slot, held;

	if (!sk || !tp)
		return 0;
	path = path_of(sk, tp, &key, &slot);
	if (!path)
		return 0;
	t = tuned_of(path, slot);
	if (!t)
		return 0;
	conn = bpf_sk_storage_get(&conns, sk, 0, 0);
	if (conn && conn->open &&
	    (conn->phase == TP_PHASE_PACED || conn->phase == TP_PHASE_UNVALIDATED))
		retreat(ctx, tp, conn, t);
	g = tuning_of(key.policy, t->net);
	held = held_out(g, tp_local_port(tp), tp_remote_port(tp));
	if (is_on(g, t, held, TP_TUNE_THIN) && tp->total_retrans <= 1 &&
	    set_option(ctx, SOL_TCP, TCP_THIN_LINEAR_TIMEOUTS, 1, TP_TUNE_THIN))
		count_set(t, TP_TUNE_THIN);
	if (is_on(g, t, held, TP_TUNE_RATE_LIMIT))
		suspect_policer(ctx, sk, tp, t, g);
	return 0;
}

/* Steps of the initial window; says whether it is done with. */
static __always_inline int follow_window(struct bpf_sock_ops *ctx, const struct tcp_sock *tp,
					 struct tp_conn *conn)
{
	if (conn->phase == TP_PHASE_PACED) {
		set_option(ctx, SOL_SOCKET, SO_MAX_PACING_RATE, NO_PACING, TP_TUNE_IW);
		conn->phase = TP_PHASE_UNVALIDATED;
	}
	if (conn->phase == TP_PHASE_UNVALIDATED && tp->delivered >= conn->iw_packets)
		conn->phase = TP_PHASE_NORMAL;
	if (conn->phase == TP_PHASE_RETREAT && tp->inet_conn.icsk_ca_state == TCP_CA_Open) {
		set_option(ctx, SOL_TCP, TCP_BPF_SNDCWND_CLAMP, NO_CLAMP, TP_TUNE_IW);
		conn->phase = TP_PHASE_NORMAL;
	}
	return conn->phase == TP_PHASE_NORMAL;
}

/* A policer's rate is believed until its time is over; then the connection that
 * is paced by it is let go, and finds it again if it is still there. */
static __always_inline void follow_policer(struct bpf_sock_ops *ctx, struct bpf_sock *sk,
					   const struct tcp_sock *tp, struct tp_police *p)
{
	struct tp_path_key key = {};
	struct tp_path *path;
	struct tp_tuned *t;
	__u32 slot;

	if (!p->paced) {
		tp_police_round_trip(p);
		return;
	}
	path = path_of(sk, tp, &key, &slot);
	t = path ? tuned_of(path, slot) : 0;
	if (t && bpf_ktime_get_coarse_ns() <= t->limit_until_ns)
		return;
	set_option(ctx, SOL_SOCKET, SO_MAX_PACING_RATE, NO_PACING, TP_TUNE_RATE_LIMIT);
	p->paced = 0;
}

/* The callback of each round trip. */
__noinline int tune_round_trip(struct bpf_sock_ops *ctx)
{
	const struct tcp_sock *tp = tcp_of(ctx);
	struct bpf_sock *sk = ctx->sk;
	struct tp_police *p = 0;
	struct tp_conn *conn;
	int done = 1;

	if (!sk || !tp)
		return 0;
	conn = bpf_sk_storage_get(&conns, sk, 0, 0);
	if (conn && conn->open && conn->phase != TP_PHASE_NORMAL)
		done = follow_window(ctx, tp, conn);
	if (cfg.tunes & 1 << TP_TUNE_RATE_LIMIT)
		p = bpf_sk_storage_get(&police, sk, 0, 0);
	if (p)
		follow_policer(ctx, sk, tp, p);
	else if (done)
		bpf_sock_ops_cb_flags_set(ctx,
					  ctx->bpf_sock_ops_cb_flags & ~BPF_SOCK_OPS_RTT_CB_FLAG);
	return 0;
}

static __always_inline void halve(struct tp_group *g)
{
	g->connections >>= 1;
	g->late >>= 1;
	g->sent_packets >>= 1;
	g->lost_packets >>= 1;
}

static __always_inline void count_group(struct tp_tuned *t, const struct bpf_tcp_sock *ts, int late,
					__u32 tune, int held)
{
	struct tp_group *g = held ? &t->without[tune] : &t->with[tune];

	if (g->connections >= GROUP_MOST) { /* the past counts half */
		halve(&t->with[tune]);
		halve(&t->without[tune]);
	}
	g->connections++;
	g->late += late;
	g->sent_packets += ts->data_segs_out;
	g->lost_packets += ts->total_retrans;
}

/* The guard compares connections with a tuning and those held out from it. */
static __always_inline void compare(const struct tcp_sock *tp, const struct bpf_tcp_sock *ts,
				    int windowed, const struct tp_tuning *g, struct tp_tuned *t,
				    __u32 min_rtt_us)
{
	__u32 held = held_out(g, tp_local_port(tp), tp_remote_port(tp));
	int late = ts->srtt_us >> 3 > 2 * (__u64)min_rtt_us;

	for (__u32 i = 0; i < TP_TUNE_ACK_PRIORITY; i++) {
		if (!(g->features >> i & 1) || !t->set[i])
			continue;
		if (i == TP_TUNE_IW && !windowed && !tp_is_held(held, i))
			continue;
		count_group(t, ts, late, i, tp_is_held(held, i));
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
		t->saved_packets.current = (__u32)tp_max(t->saved_packets.current, window);
	t->receive_bytes.current = (__u32)tp_max(t->receive_bytes.current, tp->rcvq_space.space);
}

static __always_inline int is_wireless(const struct tcp_sock *tp)
{
	const struct dst_entry *dst = tp_sock_of(tp)->sk_dst_cache;

	if (!bpf_core_field_exists(struct net_device, ieee80211_ptr)) /* no cfg80211 */
		return 0;
	return dst && dst->dev && dst->dev->ieee80211_ptr;
}

static __always_inline void release_brake(struct tp_tuned *t)
{
	if (++t->clean < TP_BRAKE_CLEAN)
		return;
	t->clean = 0;
	if (t->brake)
		t->brake--;
}

/* With the path's busy flag held, after the path itself has learned.  windowed:
 * the connection's initial window was tuned. */
__noinline int tune_learn(struct bpf_sock_ops *ctx, struct tp_path *path, struct tp_tuned *t,
			  __u32 policy, int windowed)
{
	const struct tcp_sock *tp = tcp_of(ctx);
	struct tp_net_measures m = {};
	struct bpf_sock *sk = ctx->sk;
	struct bpf_tcp_sock *ts;
	__u32 net;

	ts = sk ? bpf_tcp_sock(sk) : 0;
	if (!path || !t || !tp || !ts)
		return 0;
	learn_windows(tp, ts, t, bpf_ktime_get_coarse_ns());
	if (ts->srtt_us)
		t->rttvar_us = tp_rttvar(t->rttvar_us, tp->mdev_us >> 2);
	m.min_rtt_us = tp_window_min(&path->min_rtt_us);
	m.rate = tp_window_max(&path->max_delivery_rate);
	m.rttvar_us = t->rttvar_us;
	m.wireless = is_wireless(tp);
	if (path->connections >= 3) {
		net = tp_infer_net(&m);
		t->net = (__u8)net;
		t->net_why = (__u8)(net >> 8);
	}
	if (windowed && !ts->total_retrans)
		release_brake(t);
	compare(tp, ts, windowed, tuning_of(policy, t->net), t, m.min_rtt_us);
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
	if (t->rto_min_us && is_on(g, t, held, TP_TUNE_RTO))
		bits |= 1 << TP_TUNE_RTO;
	if (is_on(g, t, held, TP_TUNE_QUICK_ACK))
		bits |= 1 << TP_TUNE_QUICK_ACK;
	if (tp->total_retrans && is_on(g, t, held, TP_TUNE_THIN))
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

	if (!t || t->born_ns != from->born_ns)
		return 1;
	if (from->off != t->off || from->brake != t->brake) { /* judged anew from here on */
		__builtin_memset(t->with, 0, sizeof(t->with));
		__builtin_memset(t->without, 0, sizeof(t->without));
	}
	t->off = from->off;
	if (from->brake > t->brake) {
		t->brake = from->brake;
		t->brake_ns = bpf_ktime_get_ns();
	}
	return 0;
}

#endif
