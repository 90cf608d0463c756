/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * socket.h - what the pilot reads from a socket, with the kernel's scaling
 * undone: addresses, congestion control, and the measures of its end.
 */
#ifndef TCPILOT_PILOT_SOCKET_H
#define TCPILOT_PILOT_SOCKET_H

#include "../lib/kernel.h"
#include "../abi.h"
#include "../lib/prefix.h"

TP_INLINE const struct sock *tp_sock_of(const struct tcp_sock *tp)
{
	return &tp->inet_conn.icsk_inet.sk;
}

/* A context field, read where it is written: the empty asm keeps the compiler
 * from merging the reads of two branches into one behind a computed pointer,
 * which the verifier refuses. */
#define TP_CTX(field)                                                                              \
	({                                                                                         \
		__u32 v_ = ctx->field;                                                             \
		asm volatile("" : "+r"(v_));                                                       \
		v_;                                                                                \
	})

TP_INLINE void tp_remote(struct bpf_sock_ops *ctx, __u32 addr[4])
{
	if (ctx->family == AF_INET) {
		addr[0] = addr[1] = 0;
		addr[2] = TP_MAPPED;
		addr[3] = TP_CTX(remote_ip4);
	} else {
		addr[0] = TP_CTX(remote_ip6[0]);
		addr[1] = TP_CTX(remote_ip6[1]);
		addr[2] = TP_CTX(remote_ip6[2]);
		addr[3] = TP_CTX(remote_ip6[3]);
	}
}

/* The context has the local port in host, the remote one in network order. */
TP_INLINE __u16 tp_remote_port(struct bpf_sock_ops *ctx)
{
	return (__u16)TP_BE32(ctx->remote_port);
}

TP_INLINE __u32 tp_netns_inum(const struct tcp_sock *tp)
{
	return tp_sock_of(tp)->__sk_common.skc_net.net->ns.inum;
}

TP_INLINE __u32 tp_cc_key(const struct tcp_sock *tp)
{
	return tp->inet_conn.icsk_ca_ops->key;
}

TP_INLINE int tp_cc_is(const struct tcp_sock *tp, const char name[TP_CC_NAME_MAX])
{
	char is[TP_CC_NAME_MAX] = {};

	if (bpf_probe_read_kernel(is, sizeof(is), tp->inet_conn.icsk_ca_ops->name))
		return 0;
#pragma unroll
	for (int i = 0; i < TP_CC_NAME_MAX; i++) {
		if (is[i] != name[i])
			return 0;
		if (!is[i])
			return 1;
	}
	return 1;
}

/* A congctl on the route is the administrator's, locked or not. */
TP_INLINE int tp_route_has_cc(const struct tcp_sock *tp)
{
	const struct dst_entry *dst;
	unsigned long metrics;
	__u32 cc_key = 0;

	if (BPF_CORE_READ_BITFIELD(&tp->inet_conn, icsk_ca_dst_locked))
		return 1;
	dst = tp_sock_of(tp)->sk_dst_cache;
	if (!dst)
		return 0;
	metrics = dst->_metrics & ~DST_METRICS_FLAGS;
	bpf_probe_read_kernel(&cc_key, sizeof(cc_key),
			      (const __u32 *)metrics + RTAX_CC_ALGO - 1);
	return cc_key != 0;
}

TP_INLINE int tp_application_has_cc(const struct tcp_sock *tp)
{
	return BPF_CORE_READ_BITFIELD(&tp->inet_conn, icsk_ca_setsockopt);
}

/* The last rate sample, 0 where the application, not the path, limited it. */
TP_INLINE __u64 tp_sock_rate(const struct tcp_sock *tp)
{
	if (BPF_CORE_READ_BITFIELD(tp, rate_app_limited))
		return 0;
	return tp_delivery_rate(tp->rate_delivered, tp->rate_interval_us, tp->mss_cache);
}

#define TP_SSTHRESH_INFINITE 0x7fffffff

TP_INLINE void tp_measure(const struct tcp_sock *tp, struct tp_sample *s)
{
	__u32 ssthresh = tp->snd_ssthresh;

	s->delivery_rate = tp_sock_rate(tp);
	s->min_rtt_us = tp_valid_rtt_us(tp->rtt_min.s[0].v);
	s->srtt_us = tp->srtt_us >> 3;
	s->ssthresh_packets = ssthresh >= TP_SSTHRESH_INFINITE ? 0 : ssthresh;
	s->sent_packets = tp->data_segs_out;
	s->lost_packets = tp->total_retrans;
}

/* The connection ended because nothing came back any more, while data was
 * under way.  A reset is no such verdict: clients give up for many reasons. */
TP_INLINE int tp_timed_out(const struct tcp_sock *tp)
{
	int err = tp_sock_of(tp)->sk_err;

	return (err == ETIMEDOUT || err == EHOSTUNREACH || err == ENETUNREACH) &&
	       tp->write_seq != tp->snd_una;
}

#endif
