/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * mptcp.h - finds the MPTCP connection of a subflow's TCP socket.
 *
 * Mainline MPTCP runs each subflow's congestion control by itself.  But the
 * subflow's context has the connection's token, and a map keyed by it lets the
 * subflows see each other.  A socket that is no subflow has no entry, and its
 * algorithm does the same as on a single path.
 */
#ifndef TCPILOT_MPTCP_H
#define TCPILOT_MPTCP_H

#include "cc.h"
#include "coupling.h"

struct tp_mptcp_key {
	__u64 netns; /* tokens are unique within it only */
	__u32 token;
	__u32 pad;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, struct tp_mptcp_key);
	__type(value, struct tp_coupled);
} coupled SEC(".maps");

/* 0: no subflow, or its handshake is not done. */
static __always_inline __u32 tp_token(struct sock *sk)
{
	struct mptcp_subflow_context *context;
	__u32 token = 0;

	if (!tp_tcp(sk)->is_mptcp)
		return 0;
	context = tp_icsk(sk)->icsk_ulp_data;
	bpf_core_read(&token, sizeof(token), &context->token);
	return token;
}

static __always_inline struct tp_coupled *tp_connection(struct sock *sk)
{
	static const struct tp_coupled empty;
	struct tp_mptcp_key key = {.token = tp_token(sk)};
	struct tp_coupled *found;

	if (!key.token)
		return 0;
	key.netns = BPF_CORE_READ(sk, __sk_common.skc_net.net, net_cookie);
	found = bpf_map_lookup_elem(&coupled, &key);
	if (found)
		return found;
	bpf_map_update_elem(&coupled, &key, &empty, BPF_NOEXIST);
	return bpf_map_lookup_elem(&coupled, &key);
}

/* The socket's own place.  Sockets without one share a place hidden from the others. */
static __always_inline struct tp_subflow *tp_own_subflow(struct tp_coupled *c, struct sock *sk)
{
	__u64 id = (__u64)sk;

	TP_EACH_SUBFLOW(i)
	if (c->sub[i].id == id)
		return &c->sub[i];
	TP_EACH_SUBFLOW(i)
	{
		if (c->sub[i].id)
			continue;
		c->sub[i] = (struct tp_subflow){.id = id};
		return &c->sub[i];
	}
	return &c->guest;
}

/* A loss or a time-out changes the window long before cong_avoid is called again, if ever. */
static __always_inline void tp_coupled_lost(struct sock *sk, __u32 cwnd)
{
	struct tp_coupled *c = tp_connection(sk);

	if (c)
		tp_own_subflow(c, sk)->cwnd = cwnd;
}

/*
 * The callbacks of a coupled algorithm:
 *   grow(state, window, acknowledgement, own subflow, connection)
 *   threshold(state, window, own subflow or 0, connection or 0) -> ssthresh
 * On a single path `grow` is not called, but reno's increase.
 */
#define TP_COUPLED_AVOID(prefix, type, grow)                                                       \
	SEC("struct_ops")                                                                          \
	void BPF_PROG(prefix##_avoid, struct sock *sk, __u32 una, __u32 acked)                     \
	{                                                                                          \
		struct tcp_sock *tp = tp_tcp(sk);                                                  \
		struct tp_ack a = tp_ack_of(tp, una, acked);                                       \
		struct tp_coupled *c = tp_connection(sk);                                          \
		struct tp_cwnd w = tp_cwnd_of(tp);                                                 \
		struct tp_subflow *own;                                                            \
                                                                                                   \
		if (!c) {                                                                          \
			if (tp_cwnd_limited(tp))                                                   \
				tp_reno_increase(&w, acked);                                       \
		} else {                                                                           \
			own = tp_own_subflow(c, sk);                                               \
			tp_refresh(c, own, a.now_us, w.packets, a.srtt_us);                        \
			if (tp_cwnd_limited(tp))                                                   \
				grow(TP_PRIVATE(sk, type), &w, &a, own, c);                        \
		}                                                                                  \
		tp_set_cwnd(tp, &w);                                                               \
	}

#define TP_COUPLED_STATE(prefix)                                                                   \
	SEC("struct_ops")                                                                          \
	void BPF_PROG(prefix##_state, struct sock *sk, __u8 new_state)                             \
	{                                                                                          \
		if (new_state == TCP_CA_Loss)                                                      \
			tp_coupled_lost(sk, tp_tcp(sk)->snd_cwnd);                                 \
	}

#define TP_COUPLED_RELEASE(prefix)                                                                 \
	SEC("struct_ops")                                                                          \
	void BPF_PROG(prefix##_release, struct sock *sk)                                           \
	{                                                                                          \
		struct tp_coupled *c = tp_connection(sk);                                          \
                                                                                                   \
		if (c)                                                                             \
			tp_own_subflow(c, sk)->id = 0;                                             \
	}

#endif
