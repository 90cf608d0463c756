/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * socket.h - the pilot's reads from a socket, with the kernel's scaling undone:
 * addresses, congestion control, and the measures at its end.
 */
#ifndef TCPILOT_PILOT_SOCKET_H
#define TCPILOT_PILOT_SOCKET_H

#include "../kernel/types.h"
#include "../abi/abi.h"
#include "../core/sample.h"
#include "../core/prefix.h"

TP_INLINE const struct sock *tp_sock_of(const struct tcp_sock *tp)
{
	return &tp->inet_conn.icsk_inet.sk;
}

TP_INLINE const struct sock_common *tp_common_of(const struct tcp_sock *tp)
{
	return &tp_sock_of(tp)->__sk_common;
}

TP_INLINE __u64 tp_netns_cookie(const struct tcp_sock *tp)
{
	return tp_common_of(tp)->skc_net.net->net_cookie;
}

TP_INLINE void tp_remote_btf(const struct tcp_sock *tp, __u32 addr[4])
{
	const struct sock_common *c = tp_common_of(tp);

	if (c->skc_family == AF_INET) {
		addr[0] = addr[1] = 0;
		addr[2] = TP_MAPPED;
		addr[3] = c->skc_daddr;
	} else {
		addr[0] = c->skc_v6_daddr.in6_u.u6_addr32[0];
		addr[1] = c->skc_v6_daddr.in6_u.u6_addr32[1];
		addr[2] = c->skc_v6_daddr.in6_u.u6_addr32[2];
		addr[3] = c->skc_v6_daddr.in6_u.u6_addr32[3];
	}
}

TP_INLINE void tp_local_btf(const struct tcp_sock *tp, __u32 addr[4])
{
	const struct sock_common *c = tp_common_of(tp);

	if (c->skc_family == AF_INET) {
		addr[0] = addr[1] = 0;
		addr[2] = TP_MAPPED;
		addr[3] = c->skc_rcv_saddr;
	} else {
		addr[0] = c->skc_v6_rcv_saddr.in6_u.u6_addr32[0];
		addr[1] = c->skc_v6_rcv_saddr.in6_u.u6_addr32[1];
		addr[2] = c->skc_v6_rcv_saddr.in6_u.u6_addr32[2];
		addr[3] = c->skc_v6_rcv_saddr.in6_u.u6_addr32[3];
	}
}

TP_INLINE __u16 tp_local_port(const struct tcp_sock *tp)
{
	return tp_common_of(tp)->skc_num;
}

TP_INLINE __u16 tp_remote_port(const struct tcp_sock *tp)
{
	return TP_BE32((__u32)tp_common_of(tp)->skc_dport) >> 16;
}

TP_INLINE __u32 tp_cc_key(const struct tcp_sock *tp)
{
	return tp->inet_conn.icsk_ca_ops->key;
}

/* The name of the algorithm in force, as two words, padded with zeros; says whether it could be
 * read. */
TP_INLINE int tp_read_cc_name(const struct tcp_sock *tp, __u64 name[2])
{
	return !bpf_probe_read_kernel(name, TP_CC_NAME_MAX, tp->inet_conn.icsk_ca_ops->name);
}

/* A congctl on the route is the administrator's, locked or not; the socket has
 * had its route since before it was established.
 *
 * The low bits of _metrics show who has the metrics: all routes without any (read-only), the
 * routes of one entry of the table (read-only and counted), or this route alone (neither).  The
 * last is a copy, made when something changes them: the MTU of an exception, or a transformation
 * by xfrm. */
TP_INLINE int tp_route_has_cc(const struct tcp_sock *tp)
{
	const struct dst_entry *dst;
	unsigned long metrics;
	__u32 cc_key = 0;

	dst = tp_sock_of(tp)->sk_dst_cache;
	if (!dst)
		return 0;
	metrics = dst->_metrics;
	if ((metrics & DST_METRICS_FLAGS) == DST_METRICS_READ_ONLY)
		return 0; /* the usual case, without a look into memory: all of these are 0 */
	metrics &= ~DST_METRICS_FLAGS;
	bpf_probe_read_kernel(&cc_key, sizeof(cc_key), (const __u32 *)metrics + RTAX_CC_ALGO - 1);
	return cc_key != 0;
}

/* The route leads to an address of this host.  The kernel gives such a route the loopback device,
 * or the VRF with the address. */
TP_INLINE int tp_route_is_local(const struct tcp_sock *tp)
{
	const struct dst_entry *dst = tp_sock_of(tp)->sk_dst_cache;
	const struct net_device *dev;

	if (!dst)
		return 0;
	dev = dst->dev;
	if (!dev)
		return 0;
	if (dev->flags & IFF_LOOPBACK)
		return 1;
	return !!(BPF_CORE_READ_BITFIELD(dev, priv_flags) &
		  bpf_core_enum_value(enum netdev_priv_flags, IFF_L3MDEV_MASTER));
}

/* The incoming device of the handshake's last packet; 0: unknown. */
TP_INLINE int tp_came_by(const struct tcp_sock *tp)
{
	return tp_sock_of(tp)->sk_rx_dst_ifindex;
}

/* Both ends of an established connection are on this host.  Packets from the loopback device
 * show it, whatever the addresses: the host talks to an address of its own, or a firewall
 * hands the packets to a proxy, and the connection's route may lead elsewhere.  The route shows it
 * in a VRF: all packets come by it, and its sockets are bound. */
TP_INLINE int tp_stays_on_host(const struct tcp_sock *tp)
{
	int came_by = tp_came_by(tp);

	if (came_by == LOOPBACK_IFINDEX)
		return 1;
	return tp_common_of(tp)->skc_bound_dev_if && tp_route_is_local(tp);
}

/* The interface of a connection to a link-local address; 0 for other addresses.  Most sockets of
 * such connections are bound to it. */
TP_INLINE __u16 tp_link_of(const struct tcp_sock *tp, const __u32 remote[4])
{
	const struct dst_entry *dst;

	if (!tp_is_link_local(remote))
		return 0;
	if (tp_common_of(tp)->skc_bound_dev_if)
		return (__u16)tp_common_of(tp)->skc_bound_dev_if;
	if (tp_came_by(tp))
		return (__u16)tp_came_by(tp);
	dst = tp_sock_of(tp)->sk_dst_cache;
	return dst && dst->dev ? (__u16)dst->dev->ifindex : 0;
}

/* The route leaves by a wireless interface. */
TP_INLINE int tp_is_wireless(const struct tcp_sock *tp)
{
	const struct dst_entry *dst = tp_sock_of(tp)->sk_dst_cache;

	if (!bpf_core_field_exists(struct net_device, ieee80211_ptr)) /* no cfg80211 */
		return 0;
	return dst && dst->dev && dst->dev->ieee80211_ptr;
}

/* TCP_CONGESTION was set on this socket: by its application, by us, or by MPTCP. */
TP_INLINE int tp_cc_was_set(const struct tcp_sock *tp)
{
	return BPF_CORE_READ_BITFIELD(&tp->inet_conn, icsk_ca_setsockopt);
}

/* A socket of MPTCP: a subflow, or a connection without MPTCP at a listener of MPTCP.  The
 * latter is a plain one, but the kernel made its listener. */
TP_INLINE int tp_is_of_mptcp(const struct tcp_sock *tp)
{
	if (bpf_core_field_exists(struct tcp_sock, is_mptcp) && tp->is_mptcp)
		return 1;
	return BPF_CORE_READ_BITFIELD(tp_sock_of(tp), sk_kern_sock);
}

/* The algorithm in force is nobody's choice although it was set.
 *
 * If an application sets any option of an MPTCP socket, such as SO_KEEPALIVE, the kernel sets all
 * options on the subflows, and TCP_CONGESTION among them: to the default, unless the application
 * has set this one as well. */
TP_INLINE int tp_is_default_of_mptcp(const struct tcp_sock *tp)
{
	return tp_is_of_mptcp(tp) && tp->inet_conn.icsk_ca_ops ==
					 tp_common_of(tp)->skc_net.net->ipv4.tcp_congestion_control;
}

/*
 * Reads through a BTF pointer (tcp_sock) are guarded, eight instructions each;
 * those through bpf_sock and bpf_tcp_sock are not.  So the fields read for every
 * connection come from there if they are there.
 */
TP_INLINE void tp_remote(const struct bpf_sock *sk, __u32 addr[4])
{
	if (sk->family == AF_INET) {
		addr[0] = addr[1] = 0;
		addr[2] = TP_MAPPED;
		addr[3] = sk->dst_ip4;
		asm volatile("" ::: "memory"); /* a socket is read at fixed offsets only */
	} else {
		addr[0] = sk->dst_ip6[0];
		addr[1] = sk->dst_ip6[1];
		addr[2] = sk->dst_ip6[2];
		addr[3] = sk->dst_ip6[3];
	}
}

/* The last rate sample, in bytes per second; 0 if the application limited it, and
 * not the path.  A sample of a single packet shows the RTT, and not a rate: for
 * example that of a FIN after all data was acknowledged, which does not count as
 * application-limited. */
TP_INLINE __u64 tp_last_rate(const struct bpf_tcp_sock *ts, const struct tcp_sock *tp)
{
	if (ts->rate_delivered <= 1 || BPF_CORE_READ_BITFIELD(tp, rate_app_limited))
		return 0;
	return tp_delivery_rate(ts->rate_delivered, ts->rate_interval_us, ts->mss_cache);
}

/* Whether all data was acknowledged. */
TP_INLINE int tp_is_idle(const struct tcp_sock *tp)
{
	return tp->write_seq == tp->snd_una;
}

/* Whether the application keeps the send buffer filled: then it waits for the path. */
TP_INLINE int tp_is_filled(const struct tcp_sock *tp)
{
	return 2 * (__s64)tp_sock_of(tp)->sk_wmem_queued >= tp_sock_of(tp)->sk_sndbuf;
}

/* Ticks with data under way, until now. */
TP_INLINE __u32 tp_busy_ticks(const struct tcp_sock *tp)
{
	__u32 busy = tp->chrono_stat[0] + tp->chrono_stat[1] + tp->chrono_stat[2];

	if (BPF_CORE_READ_BITFIELD(tp, chrono_type))
		busy += (__u32)bpf_jiffies64() - tp->chrono_start;
	return busy;
}

/*
 * The judged rate of a connection: its mean while data was under way.
 * A single sample, however recent, is mostly luck if packets are lost.  If the
 * connection was too short for the kernel's clock, the last sample counts.
 *
 * 0 if the application limited it.  The kernel also calls every sample behind a
 * full send buffer application-limited, although the application waits then: filled.
 *
 * It is a function of its own: most connections do not need it, but would pay for its registers.
 */
static __noinline __u64 tp_conn_rate(const struct bpf_tcp_sock *ts, const struct tcp_sock *tp,
				     __u32 ticks_per_s, int filled)
{
	__u64 last = tp_last_rate(ts, tp);
	__u64 mean;

	if (!last && !filled)
		return 0;
	mean = tp_busy_rate(ts->bytes_acked, tp_busy_ticks(tp), ticks_per_s);
	return mean ? mean : last;
}

/* Whether the connection ended because nothing came back any more, while data was
 * under way.  A reset does not count: clients give up for many reasons. */
TP_INLINE int tp_timed_out(const struct tcp_sock *tp)
{
	int err = tp_sock_of(tp)->sk_err;

	return (err == ETIMEDOUT || err == EHOSTUNREACH || err == ENETUNREACH) &&
	       tp->write_seq != tp->snd_una;
}

#endif
