/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * loss.h - a retransmission: where loss is heavy the connection is rescued, once.
 */
#ifndef TCPILOT_PILOT_LOSS_H
#define TCPILOT_PILOT_LOSS_H

/* The storage of a connection that the loss rule may act on, made where there
 * was none; 0: not ours. */
static __always_inline struct tp_conn *rescuable(struct bpf_sock *sk, const struct tcp_sock *tp,
						 struct tp_path_key *key)
{
	const struct tp_policy_config *policy;
	struct tp_conn *conn, fresh;
	__u32 remote[4];

	tp_remote(sk, remote);
	policy = identify(tp, remote, key);
	if (!policy)
		return 0;
	conn = bpf_sk_storage_get(&conns, sk, 0, 0);
	if (conn && conn->open)
		/* unless the application has chosen since */
		return tp_cc_key(tp) == conn->cc_key ? conn : 0;
	if (hands_off(tp, policy, known_in_force(tp)) != TP_WHY_UNSEEN)
		return 0;
	fresh = kept_as_it_is(tp);
	remember(sk, &fresh);
	return bpf_sk_storage_get(&conns, sk, 0, 0);
}

/* Switches a connection under heavy loss; says whether it was switched. */
static __always_inline int switch_to_rescue(struct bpf_sock_ops *ctx, const struct tcp_sock *tp,
					    struct tp_conn *conn)
{
	if (!config()->rescue_cc[0] || tp_cc_is(tp, config()->rescue_cc)) {
		COUNT(thin_only);
		return 0;
	}
	conn->rescue_min_rtt_us = tp_valid_rtt_us(tp->rtt_min.s[0].v);
	if (!cfg.dry_run) {
		if (!set_cc(ctx, config()->rescue_cc))
			return 0;
		conn->flags |= TP_CONN_RESCUED;
	}
	COUNT(rescues);
	conn->cc_key = tp_cc_key(tp);
	return 1;
}

static __always_inline void retransmitted(struct bpf_sock_ops *ctx, struct bpf_sock *sk,
					  const struct tcp_sock *tp)
{
	struct tp_path_key key = {};
	struct tp_conn *conn;
	struct tp_path *path;
	__u32 slot;
	int on = 1;

	if (!tp_loss_is_heavy(tp->total_retrans, tp->data_segs_out, cfg.loss_min_segments,
			      cfg.loss_shift))
		return;
	conn = rescuable(sk, tp, &key);
	if (!conn || (conn->flags & TP_CONN_LOSS_SEEN))
		return;
	conn->flags |= TP_CONN_LOSS_SEEN;
	if (cfg.rescue_thin && !cfg.dry_run &&
	    bpf_setsockopt(ctx, SOL_TCP, TCP_THIN_LINEAR_TIMEOUTS, &on, sizeof(on)))
		COUNT(trouble[TP_TROUBLE_THIN]);
	if (!switch_to_rescue(ctx, tp, conn))
		return;
	conn->why = TP_WHY_RESCUED;
	path = find_path(&key, &slot);
	if (!path)
		return;
	record_decision(sk, path, bpf_ktime_get_coarse_ns(), conn->arm, TP_WHY_RESCUED,
			conn->flags);
	if (conn->arm < TP_MAX_ARMS)
		__sync_fetch_and_add(&arm_at(path, conn->arm)->rescued, 1);
}

#endif
