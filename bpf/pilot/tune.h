/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * tune.h - the tunings of an established connection: set when it is, followed by
 * a callback per round trip where something has to be undone, judged at its end.
 *
 * The initial window (RFC 9959's words in enum tp_phase): it goes out over half
 * a round trip, by a bound on the pacing rate that is lifted with the first
 * acknowledgement.  A loss before all of it is acknowledged is a retreat: the
 * window is clamped to half of what arrived till the loss is repaired, and the
 * path's brake halves the windows of those that come after.
 */
#ifndef TCPILOT_PILOT_TUNE_H
#define TCPILOT_PILOT_TUNE_H

#define NO_PACING (~0U)
#define NO_CLAMP 0x7fffffff
/* Tunings that are set once a connection is established. */
#define TUNES_ESTABLISHED                                                                          \
	(1 << TP_TUNE_IW | 1 << TP_TUNE_RTO | 1 << TP_TUNE_QUICK_ACK | 1 << TP_TUNE_RATE_LIMIT)
#define TUNES_MET_LOWERED (1 << TP_TUNE_COUNT) /* some path's receive window is lowered */

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
	return &config()->tuning[tp_within(policy, TP_MAX_POLICIES)][tp_within(net, TP_NETS)];
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
	return tp_hold_out((__u32)local << 16 | remote, (__u32)cfg.hold_out_seed,
			   g->hold_out_shift);
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
		COUNT(refused[tp_within(tune, TP_TUNES)]);
		return 0;
	}
	return 1;
}

/* The kernel takes no timer of less than two ticks. */
static __always_inline __u32 at_least_two_ticks(__u32 us)
{
	return ticks_per_s ? (__u32)tp_max64(us, 2000000 / ticks_per_s) : us;
}

/* The kernel's least RTO, and what it delays an acknowledgement by at most. */
#define KERNELS_TICKS (ticks_per_s / 5)

static __always_inline int has_short_timer(const struct tcp_sock *tp)
{
	return tp->inet_conn.icsk_rto_min < KERNELS_TICKS;
}

static __always_inline int has_linear_timeouts(const struct tcp_sock *tp)
{
	return BPF_CORE_READ_BITFIELD(tp, thin_lto);
}

static __always_inline int is_used(const struct tp_path *path, enum tp_use use)
{
	return !tp_is_unused(path->used[use], path->connections);
}

static __always_inline void meet(__u32 features)
{
	if (features & ~tunes_met)
		__sync_fetch_and_or(&tunes_met, features);
}

static __always_inline void forget(__u32 features)
{
	__sync_fetch_and_and(&tunes_met, ~features);
}

/* Timers are shortened where they fire: from the first loss that any connection
 * had within the learner's window. */
static __always_inline void note_loss(void)
{
	counters.last_loss_ns = bpf_ktime_get_coarse_ns();
	meet(1 << TP_TUNE_RTO);
}

static __always_inline int is_lossy_time(void)
{
	if (!(tunes_met & 1 << TP_TUNE_RTO))
		return 0;
	if (bpf_ktime_get_coarse_ns() - counters.last_loss_ns < cfg.window_ns)
		return 1;
	forget(1 << TP_TUNE_RTO);
	return 0;
}

/* Of a small connection on a path where lately no tuning was of use nothing is
 * learned for them, but from one in 64. */
static __always_inline int is_quiet(const struct tp_path *path)
{
	__u32 asks = cfg.tunes & (TUNES_ESTABLISHED | 1 << TP_TUNE_RWND) & ~path->skips;

	if (!(path->connections & 63))
		return 0;
	return !(asks & ~(1 << TP_TUNE_RTO)) && !(asks && is_lossy_time());
}

static __always_inline void count_set(struct tp_tuned *t, __u32 tune)
{
	COUNT(tuned[tp_within(tune, TP_TUNES)]);
	__sync_fetch_and_add(&t->set[tp_within(tune, TP_TUNES)], 1);
}

/* The halves of a maximum of this path that have not expired. */
static __always_inline __u32 window_now(const struct tp_tuned *t, const struct tp_window32 *w,
					__u64 now_ns)
{
	__u32 age = tp_epoch(now_ns, cfg.ssthresh_window_ns) - t->epoch;

	if (age == 0)
		return tp_window_max32(w);
	return age == 1 ? w->current : 0;
}

static __always_inline __u32 saved_window(const struct tp_tuned *t, __u64 now_ns)
{
	return window_now(t, &t->saved_packets, now_ns);
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

/*
 * Turns the kernel's pacing on, and bounds it.  On accept the kernel computes its
 * rate from the window only now.  On connect it did so when the SYN was
 * acknowledged: from the window that tune_syn.h had set for that; where that was
 * none, pacing would keep ten packets' rate for a round trip, and is left off.
 */
static __always_inline int pace_window(struct bpf_sock_ops *ctx, const struct tcp_sock *tp,
				       __u32 rate, __u8 flags)
{
	if (flags & TP_CONN_ACTIVE && tp_sock_of(tp)->sk_pacing_rate < rate)
		return 0;
	return set_option(ctx, SOL_SOCKET, SO_MAX_PACING_RATE, rate, TP_TUNE_IW);
}

/* Says whether the connection has to be followed. */
static __always_inline int tune_window(struct bpf_sock_ops *ctx, struct bpf_sock *sk,
				       const struct tcp_sock *tp, struct tp_path *path,
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
	int paced = 0;

	if (iw == in.base_packets)
		return 0;
	if (iw > in.base_packets && (__u32)tp_sock_of(tp)->sk_max_pacing_rate == NO_PACING) {
		paced = pace_window(ctx, tp, tp_window_rate(iw, tp->mss_cache, in.rtt_us), flags);
		if (!paced) /* one burst, so no more than the kernel itself hands over at once */
			iw = (__u32)tp_min64(iw, tp_burst_packets(tp->mss_cache));
	}
	if (!set_option(ctx, SOL_TCP, TCP_BPF_IW, iw, TP_TUNE_IW))
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
	if (!(conn->tuned & 1 << TP_TUNE_IW))
		__sync_fetch_and_add(&path->windows, 1);
	conn->tuned |= 1 << TP_TUNE_IW;
	conn->iw_packets = tp_min64(iw, 0xffff);
	conn->phase = paced ? TP_PHASE_PACED : TP_PHASE_UNVALIDATED;
	return 1;
}

/* On connect at the SYN: the kernel takes it into its variation with the first
 * measurement of the RTT.  On accept that was made before anybody is asked, and
 * the kernel's 200 ms fade by a quarter per round trip. */
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

/* Where a policer is known: no faster than it lets through; says whether that was
 * set.  An application's own bound stays. */
static __always_inline int pace_as_policed(struct bpf_sock_ops *ctx, const struct tcp_sock *tp,
					   struct tp_tuned *t)
{
	if (!t->limit_rate || bpf_ktime_get_coarse_ns() > t->limit_until_ns ||
	    (__u32)tp_sock_of(tp)->sk_max_pacing_rate != NO_PACING ||
	    !set_option(ctx, SOL_SOCKET, SO_MAX_PACING_RATE, (__u32)t->limit_rate,
			TP_TUNE_RATE_LIMIT))
		return 0;
	count_set(t, TP_TUNE_RATE_LIMIT);
	return !cfg.dry_run;
}

/* The same for a new connection, which is followed to lift it in time. */
static __always_inline int start_policed(struct bpf_sock_ops *ctx, struct bpf_sock *sk,
					 const struct tcp_sock *tp, struct tp_tuned *t)
{
	struct tp_police *p;

	if (!pace_as_policed(ctx, tp, t))
		return 0;
	p = bpf_sk_storage_get(&police, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
	if (p)
		p->paced = 1;
	return 1;
}

/*
 * This and the like below are functions of their own, which the verifier checks
 * once and not for each way that leads to them; so they find the socket again.
 */
__noinline int tune_established(struct bpf_sock_ops *ctx, __u32 slot, __u32 policy, __u32 flags)
{
	const struct tcp_sock *tp = tcp_of(ctx);
	struct bpf_sock *sk = ctx->sk;
	const struct tp_tuning *g;
	__u32 held, follow = 0;
	struct tp_path *path;
	struct tp_tuned *t;

	path = path_at(slot);
	if (!path || !sk || !tp)
		return 0;
	t = tuned_of(path, slot);
	if (!t)
		return 0;
	g = tuning_of(policy, t->net);
	held = held_out(g, tp_local_port(tp), tp_remote_port(tp));
	if (is_on(g, t, held, TP_TUNE_RATE_LIMIT) && start_policed(ctx, sk, tp, t))
		follow = 1; /* and no window beyond the kernel's */
	else if (is_used(path, TP_USE_WINDOW) && is_on(g, t, held, TP_TUNE_IW) &&
		 tune_window(ctx, sk, tp, path, t, g, (__u8)flags))
		follow = 1;
	if (!(flags & TP_CONN_ACTIVE) && is_lossy_time() && is_on(g, t, held, TP_TUNE_RTO))
		tune_min_rto(ctx, path, t, g);
	if (is_used(path, TP_USE_ACKS) && is_on(g, t, held, TP_TUNE_QUICK_ACK) &&
	    set_option(ctx, SOL_TCP, TCP_BPF_DELACK_MAX, at_least_two_ticks(g->delack_us),
		       TP_TUNE_QUICK_ACK))
		count_set(t, TP_TUNE_QUICK_ACK);
	if (follow)
		bpf_sock_ops_cb_flags_set(ctx,
					  ctx->bpf_sock_ops_cb_flags | BPF_SOCK_OPS_RTT_CB_FLAG);
	return 0;
}

#endif
