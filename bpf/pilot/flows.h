/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * flows.h - iterators over the connections of the reader's network namespace:
 * flows, behind `tcpilot flows`, writes a tp_flow for each.  Why a connection
 * without storage has its algorithm is found again the way it was found when it
 * was opened.  adopt counts, before the pilot is attached, those that a former
 * pilot took up: their sockets still have its callbacks, so their end will be seen.
 */
#ifndef TCPILOT_PILOT_FLOWS_H
#define TCPILOT_PILOT_FLOWS_H

static __always_inline __u8 why_of(const struct tcp_sock *tp, const struct tp_policy_config *policy)
{
	__u8 why = hands_off(tp, policy, known_in_force(tp));

	if (why != TP_WHY_UNSEEN)
		return why;
	return tp->bpf_sock_ops_cb_flags & BPF_SOCK_OPS_STATE_CB_FLAG ? TP_WHY_KEPT : TP_WHY_UNSEEN;
}

static __always_inline int is_steered_cgroup(const struct tcp_sock *tp)
{
	__u64 ids[TP_CGROUP_DEPTH] = {};

	if (!steered_cgroup)
		return 1;
	cgroup_line(tp, ids);
	return is_among(ids, steered_cgroup);
}

static __always_inline void flow_measures(const struct tcp_sock *tp, struct tp_flow *f)
{
	__u32 ssthresh = tp->snd_ssthresh;

	f->delivery_rate =
	    tp_delivery_rate(tp->rate_delivered, tp->rate_interval_us, tp->mss_cache);
	f->app_limited = BPF_CORE_READ_BITFIELD(tp, rate_app_limited);
	f->bytes_acked = tp->bytes_acked;
	f->srtt_us = tp->srtt_us >> 3;
	f->min_rtt_us = tp_valid_rtt_us(tp->rtt_min.s[0].v);
	f->sent_packets = tp->data_segs_out;
	f->lost_packets = tp->total_retrans;
	f->cwnd_packets = tp->snd_cwnd;
	f->ssthresh_packets = ssthresh >= TP_SSTHRESH_INFINITE ? 0 : ssthresh;
}

SEC("iter/tcp")
int flows(struct bpf_iter__tcp *ctx)
{
	struct sock_common *common = ctx->sk_common;
	const struct tp_policy_config *policy;
	struct tp_path_key key = {};
	struct tp_flow f = {};
	struct tcp_sock *tp;
	struct tp_conn *conn;

	if (!common || common->skc_state == BPF_TCP_LISTEN)
		return 0;
	tp = bpf_skc_to_tcp_sock(common);
	if (!tp || !is_steered_cgroup(tp))
		return 0;
	tp_remote_btf(tp, f.remote);
	policy = identify(tp, f.remote, &key);
	if (!policy)
		return 0;
	conn = bpf_sk_storage_get(&conns, tp, 0, 0);
	if (conn && conn->open) {
		f.arm = conn->arm;
		f.why = conn->why;
		f.flags = conn->flags;
		f.opened_ns = conn->opened_ns;
		f.tuned = conn->tuned;
		f.iw_packets = conn->iw_packets;
		f.phase = conn->phase;
	} else {
		f.arm = arm_in_force(tp);
		f.why = why_of(tp, policy);
		f.flags = TP_CONN_SIDE_UNKNOWN;
	}
	if (cfg.dry_run)
		f.flags |= TP_CONN_DRY_RUN;
	if (cfg.tunes && f.why < TP_WHY_APPLICATION)
		f.tuned |= tunings_of(tp, &key);
	f.netns_cookie = key.netns_cookie;
	f.policy = key.policy;
	f.netns_inum = tp_common_of(tp)->skc_net.net->ns.inum;
	tp_local_btf(tp, f.local);
	f.local_port = tp_local_port(tp);
	f.remote_port = tp_remote_port(tp);
	bpf_probe_read_kernel(f.cc, sizeof(f.cc), tp->inet_conn.icsk_ca_ops->name);
	flow_measures(tp, &f);
	bpf_seq_write(ctx->meta->seq, &f, sizeof(f));
	return 0;
}

SEC("iter/tcp")
int adopt(struct bpf_iter__tcp *ctx)
{
	struct sock_common *common = ctx->sk_common;
	const struct tp_policy_config *policy;
	struct tp_path_key key = {};
	struct tcp_sock *tp;
	struct tp_path *path;
	__u32 remote[4], slot;

	if (!common || common->skc_state != BPF_TCP_ESTABLISHED)
		return 0;
	tp = bpf_skc_to_tcp_sock(common);
	if (!tp || !is_steered_cgroup(tp) ||
	    !(tp->bpf_sock_ops_cb_flags & BPF_SOCK_OPS_STATE_CB_FLAG))
		return 0;
	tp_remote_btf(tp, remote);
	policy = identify(tp, remote, &key);
	if (!policy || policy->leave_alone)
		return 0;
	path = open_path(&key, &slot);
	if (!path)
		return 0;
	if (!path->born_ns)
		begin(path, tp, bpf_ktime_get_ns());
	__sync_fetch_and_add(&path->live_flows, 1);
	return 0;
}

#endif
