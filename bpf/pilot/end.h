/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * end.h - what is learned when a connection ends: path and arm are charged with
 * what it has shown.  Learning takes the path's busy flag, and gives a sample up,
 * counted, rather than wait for long.
 */
#ifndef TCPILOT_PILOT_END_H
#define TCPILOT_PILOT_END_H

#define TRIES 64

static __always_inline int take(struct tp_path *path)
{
	for (int i = 0; i < TRIES; i++)
		if (!__sync_val_compare_and_swap(&path->busy, 0, 1))
			return 1;
	COUNT(trouble[TP_TROUBLE_CONTENDED]);
	return 0;
}

static __always_inline void release(struct tp_path *path)
{
	__sync_lock_test_and_set(&path->busy, 0);
}

/* The arm that this connection tells something of: not where the application
 * has chosen since. */
static __always_inline __u8 arm_to_charge(const struct tcp_sock *tp, const struct tp_conn *conn)
{
	if (conn)
		return tp_cc_key(tp) == conn->cc_key ? conn->arm : TP_NO_ARM;
	return tp_cc_was_set(tp) ? TP_NO_ARM : arm_in_force(tp);
}

/* What is too small to charge an arm tells only of RTT and loss.  On a busy path
 * one such connection in four is measured, if it lost nothing, and counts for
 * four; 0: this one is not. */
static __always_inline __u32 weight_of_small(const struct bpf_tcp_sock *ts,
					     const struct tp_path *path)
{
	if (ts->total_retrans || path->connections < 16)
		return 1;
	if (cfg.tunes & (1 << TP_TUNE_RWND | 1 << TP_TUNE_QUICK_ACK) &&
	    ts->bytes_received > TP_RWND_KERNEL)
		return 1; /* of what is received it tells more */
	return path->connections & 3 ? 0 : 4;
}

/* A rate that a tuned window made is not the congestion control's: the connection
 * tells of loss and RTT only. */
static __always_inline int is_creditable(const struct tp_conn *conn, __u32 sent_packets)
{
	return !cfg.tunes || !conn || !(conn->tuned & 1 << TP_TUNE_IW) ||
	       tp_is_creditable(sent_packets, conn->iw_packets);
}

/* Charges the arm with what it has shown.  A rescued connection counts as one in which
 * its arm failed: what came after was not its doing, and what it had shown by then was
 * its slow start.  By a rate that is not its own an arm does not become hopeless. */
static __always_inline void charge(const struct tp_conn *conn, struct tp_path *path, __u8 arm,
				   const struct tp_sample *s, int failed, __u64 now_ns)
{
	struct tp_cost c = {.outcome = TP_OUTCOME_EXCUSED};
	__u32 min_rtt_us = s->min_rtt_us;
	__u64 rate = s->delivery_rate;

	if (arm < TP_MAX_ARMS && is_creditable(conn, s->sent_packets)) {
		if (conn && (conn->flags & TP_CONN_RESCUED)) {
			rate = 0;
			min_rtt_us = conn->rescue_min_rtt_us;
			failed = 1;
		}
		tp_learn_arm(config(), arm_at(path, arm), rate, min_rtt_us, now_ns);
		c = tp_cost_of(path, arm_at(path, arm), rate, min_rtt_us, failed);
	}
	if (learner_charge(&config()->learner, &path->learner, arm, c.cost, c.outcome))
		COUNT(charged);
}

static __always_inline void learn(struct bpf_sock_ops *ctx, const struct tcp_sock *tp,
				  struct bpf_sock *sk, const struct tp_conn *conn,
				  struct tp_path *path, __u32 slot, __u32 policy)
{
	struct bpf_tcp_sock *ts = bpf_tcp_sock(sk);
	struct tp_tuned *t;
	int failed = tp_timed_out(tp);
	__u8 arm = TP_NO_ARM;
	struct tp_sample s;
	__u32 weight = 1;
	__u64 now_ns;
	int told;

	if (!ts)
		return;
	told = failed || ts->bytes_acked >= cfg.min_flow_bytes;
	if (told)
		arm = arm_to_charge(tp, conn);
	else
		weight = weight_of_small(ts, path);
	if (!weight)
		return;
	note_uses(ts, path);
	tp_measure(ts, tp, &s);
	if (told && is_creditable(conn, ts->data_segs_out))
		s.delivery_rate = tp_conn_rate(ts, tp, ticks_per_s, 0);
	s.sent_packets *= weight;
	if (!take(path))
		return;
	now_ns = bpf_ktime_get_coarse_ns();
	path->updated_ns = now_ns;
	tp_learn_path(config(), path, &s, now_ns);
	t = cfg.tunes && !(weight > 1 && is_quiet(path)) ? tuned_of(path, slot) : 0;
	if (t)
		tune_learn(ctx, path, t, policy, conn && conn->tuned & 1 << TP_TUNE_IW);
	if (told && s.min_rtt_us)
		charge(conn, path, arm, &s, failed, now_ns);
	release(path);
}

static __always_inline void count_end(struct tp_path *path, const struct tp_conn *conn)
{
	if (conn && conn->path_born_ns && conn->path_born_ns != path->born_ns)
		COUNT(trouble[TP_TROUBLE_EVICTED]);
	else if (path->live_flows)
		__sync_fetch_and_add(&path->live_flows, -1);
	if (conn && conn->tuned & 1 << TP_TUNE_IW && path->windows)
		__sync_fetch_and_add(&path->windows, -1);
}

/*
 * Before a FIN what the data has shown is kept, where the last rate sample will
 * not tell it: where all was acknowledged, the FIN's own sample replaces it, and
 * where the application filled the send buffer, it counts as application-limited.
 * Maxima may be told twice.
 */
static __always_inline void keep_rate(const struct tcp_sock *tp, struct bpf_sock *sk,
				      const struct tp_conn *conn, struct tp_path *path)
{
	struct bpf_tcp_sock *ts = bpf_tcp_sock(sk);
	__u32 epoch = tp_epoch(bpf_ktime_get_coarse_ns(), cfg.window_ns);
	__u8 arm = arm_to_charge(tp, conn);
	__u64 rate = ts ? tp_conn_rate(ts, tp, ticks_per_s, tp_is_filled(tp)) : 0;

	if (!rate || !ts || !is_creditable(conn, ts->data_segs_out) || !take(path))
		return;
	tp_path_roll(path, epoch);
	path->max_delivery_rate.current = tp_max64(path->max_delivery_rate.current, rate);
	if (arm < TP_MAX_ARMS && !(conn && (conn->flags & TP_CONN_RESCUED))) {
		struct tp_arm *a = arm_at(path, arm);

		tp_arm_roll(a, epoch);
		a->max_delivery_rate.current = tp_max64(a->max_delivery_rate.current, rate);
	}
	release(path);
}

/* to: the state that the connection goes to, CLOSE or one that sends a FIN. */
static __always_inline void closed(struct bpf_sock_ops *ctx, struct bpf_sock *sk,
				   const struct tcp_sock *tp, __u32 to)
{
	const struct tp_policy_config *policy;
	struct tp_conn *conn = 0;
	struct tp_path_key key = {};
	struct tp_path *path;
	__u32 remote[4], slot;

	tp_remote(sk, remote);
	policy = identify(tp, remote, &key);
	path = policy ? find_path(&key, &slot) : 0;
	if (tp_cc_was_set(tp) || (cfg.tunes && !(path && !path->windows))) {
		/* else we changed nothing, and have no storage */
		conn = bpf_sk_storage_get(&conns, sk, 0, 0);
		if (conn && !conn->open)
			conn = 0;
		if (conn && to == BPF_TCP_CLOSE)
			conn->open = 0;
	}
	if (!path || policy->leave_alone)
		return;
	if (to != BPF_TCP_CLOSE) {
		keep_rate(tp, sk, conn, path);
		return;
	}
	COUNT(closed);
	count_end(path, conn);
	learn(ctx, tp, sk, conn, path, slot, key.policy);
}

#endif
