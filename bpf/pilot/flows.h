/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * flows.h - the iterator behind `tcpilot flows`: one tp_flow for each live
 * connection that has our storage, over all network namespaces at once.
 */
#ifndef TCPILOT_PILOT_FLOWS_H
#define TCPILOT_PILOT_FLOWS_H

static __always_inline void flow_addresses(const struct sock *sk, struct tp_flow *f)
{
	const struct sock_common *c = &sk->__sk_common;

	if (c->skc_family == AF_INET) {
		f->remote[2] = f->local[2] = TP_MAPPED;
		f->remote[3] = c->skc_daddr;
		f->local[3] = c->skc_rcv_saddr;
	} else {
		bpf_probe_read_kernel(f->remote, sizeof(f->remote), &c->skc_v6_daddr);
		bpf_probe_read_kernel(f->local, sizeof(f->local), &c->skc_v6_rcv_saddr);
	}
	f->local_port = c->skc_num;
	f->remote_port = TP_BE32((__u32)c->skc_dport) >> 16;
	f->netns_inum = c->skc_net.net->ns.inum;
}

SEC("iter/bpf_sk_storage_map")
int flows(struct bpf_iter__bpf_sk_storage_map *ctx)
{
	const struct tp_conn *conn = ctx->value;
	struct sock *sk = ctx->sk;
	struct tp_flow f = {};
	struct tp_sample s;
	struct tcp_sock *tp;

	if (!sk || !conn || (!conn->open && conn->why < TP_WHY_APPLICATION))
		return 0;
	tp = bpf_skc_to_tcp_sock(sk);
	if (!tp)
		return 0;
	flow_addresses(sk, &f);
	tp_measure(tp, &s);
	f.netns_cookie = conn->key.netns_cookie;
	f.policy = conn->key.policy;
	f.arm = conn->arm;
	f.why = conn->why;
	f.flags = conn->flags;
	f.opened_ns = conn->opened_ns;
	bpf_probe_read_kernel(f.cc, sizeof(f.cc), tp->inet_conn.icsk_ca_ops->name);
	f.delivery_rate = tp_delivery_rate(tp->rate_delivered, tp->rate_interval_us, tp->mss_cache);
	f.app_limited = BPF_CORE_READ_BITFIELD(tp, rate_app_limited);
	f.bytes_acked = tp->bytes_acked;
	f.srtt_us = s.srtt_us;
	f.min_rtt_us = s.min_rtt_us;
	f.sent_packets = s.sent_packets;
	f.lost_packets = s.lost_packets;
	f.cwnd_packets = tp->snd_cwnd;
	f.ssthresh_packets = s.ssthresh_packets;
	bpf_seq_write(ctx->meta->seq, &f, sizeof(f));
	return 0;
}

#endif
