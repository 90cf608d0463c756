/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * tune_follow.h - tuned connections under way: the phases of an initial window,
 * and the search for a policer.  At each retransmission, and once per round trip
 * where something has to be followed.
 */
#ifndef TCPILOT_PILOT_TUNE_FOLLOW_H
#define TCPILOT_PILOT_TUNE_FOLLOW_H

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
	set_option(ctx, SOL_TCP, TCP_BPF_SNDCWND_CLAMP, (__u32)tp_max64(tp->delivered / 2, 10),
		   TP_TUNE_IW);
	conn->phase = TP_PHASE_RETREAT;
	COUNT(retreats);
	__sync_fetch_and_add(&t->retreats, 1);
	t->brake = (__u8)tp_min64(brake + 1, TP_BRAKE_MOST);
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
					    const struct tcp_sock *tp, struct tp_path *path,
					    struct tp_tuned *t, const struct tp_tuning *g)
{
	struct tp_police *p;
	struct tp_police_now n;
	__u64 rate;

	p = bpf_sk_storage_get(&police, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
	if (!p || p->paced)
		return;
	police_measures(tp, &n);
	rate = tp_police_loss(p, &n);
	if (!rate) {
		bpf_sock_ops_cb_flags_set(ctx,
					  ctx->bpf_sock_ops_cb_flags | BPF_SOCK_OPS_RTT_CB_FLAG);
		return;
	}
	path->skips &= ~(1 << TP_TUNE_RATE_LIMIT);
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
	note_loss();
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
	if (is_on(g, t, held, TP_TUNE_RTO) && !has_short_timer(tp))
		tune_min_rto(ctx, path, t, g);
	if (is_on(g, t, held, TP_TUNE_THIN) && !has_linear_timeouts(tp) &&
	    set_option(ctx, SOL_TCP, TCP_THIN_LINEAR_TIMEOUTS, 1, TP_TUNE_THIN))
		count_set(t, TP_TUNE_THIN);
	if (is_on(g, t, held, TP_TUNE_RATE_LIMIT))
		suspect_policer(ctx, sk, tp, path, t, g);
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

#endif
