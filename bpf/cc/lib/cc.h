/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * cc.h - the shell around a congestion control: how its programs reach the
 * socket, and the common pieces of struct_ops.
 *
 * An algorithm is bpf/cc/<name>.bpf.c.  It includes this, keeps its state in
 * the socket's 104 private bytes, and calls the arithmetic of <name>.h, which
 * knows nothing of sockets.  docs/use/own-algorithm.md shows how to write one.
 */
#ifndef TCPILOT_CC_H
#define TCPILOT_CC_H

#include "../../kernel/types.h"
#include <bpf/bpf_tracing.h>
#include "cwnd.h"

char _license[] SEC("license") = "GPL";

static __always_inline struct tcp_sock *tp_tcp(struct sock *sk)
{
	return (struct tcp_sock *)sk;
}

static __always_inline struct inet_connection_sock *tp_icsk(struct sock *sk)
{
	return (struct inet_connection_sock *)sk;
}

/* The algorithm's own state; the kernel has zeroed it before init. */
#define TP_PRIVATE(sk, type)                                                                       \
	({                                                                                         \
		_Static_assert(sizeof(type) <= 104, "state fits icsk_ca_priv");                    \
		(type *)tp_icsk(sk)->icsk_ca_priv;                                                 \
	})

static __always_inline __u8 tp_ca_state(struct sock *sk)
{
	return BPF_CORE_READ_BITFIELD(tp_icsk(sk), icsk_ca_state);
}

static __always_inline struct tp_cwnd tp_cwnd_of(const struct tcp_sock *tp)
{
	return (struct tp_cwnd){
	    .packets = tp->snd_cwnd,
	    .credit = tp->snd_cwnd_cnt,
	    .ssthresh = tp->snd_ssthresh,
	    .clamp = tp->snd_cwnd_clamp,
	};
}

static __always_inline void tp_set_cwnd(struct tcp_sock *tp, const struct tp_cwnd *w)
{
	tp->snd_cwnd = tp_max(w->packets, 1);
	tp->snd_cwnd_cnt = w->credit;
	tp->snd_ssthresh = w->ssthresh;
}

/*
 * RFC 7661, section 4.1: a window grows only if the window limited the
 * sender; in slow start the use of more than half of it is enough.
 */
static __always_inline int tp_cwnd_limited(const struct tcp_sock *tp)
{
	if (BPF_CORE_READ_BITFIELD(tp, is_cwnd_limited))
		return 1;
	return tp->snd_cwnd < tp->snd_ssthresh && tp->snd_cwnd < 2 * tp->max_packets_out;
}

static __always_inline __u32 tp_in_flight(const struct tcp_sock *tp)
{
	return tp->packets_out - tp->sacked_out - tp->lost_out + tp->retrans_out;
}

/* The least RTT of the kernel's window (tcp_min_rtt_wlen, 300 s); ~0: none yet. */
static __always_inline __u32 tp_min_rtt_us(const struct tcp_sock *tp)
{
	return tp->rtt_min.s[0].v;
}

/* The smoothed RTT, RFC 6298; 0: no sample yet. */
static __always_inline __u32 tp_srtt_us(const struct tcp_sock *tp)
{
	return tp->srtt_us >> 3;
}

/*
 * Both forms of cong_control; the loader keeps the one the kernel calls.
 * The algorithm defines tp_on_ack(sk, rs).
 */
#define TP_CONG_CONTROL(prefix)                                                                    \
	SEC("struct_ops")                                                                          \
	void BPF_PROG(prefix##_control, struct sock *sk, __u32 ack, int flag,                      \
		      const struct rate_sample *rs)                                                \
	{                                                                                          \
		tp_on_ack(sk, rs);                                                                 \
	}                                                                                          \
	SEC("struct_ops")                                                                          \
	void BPF_PROG(prefix##_control2, struct sock *sk, const struct rate_sample *rs)            \
	{                                                                                          \
		tp_on_ack(sk, rs);                                                                 \
	}

/*
 * The start of sending after idleness: an event of its own from 7.1, when a
 * handler left in cwnd_event would not be called any more.  The algorithm
 * defines tp_on_tx_start(sk), and tp_on_event(sk, event) for the other events.
 */
#define TP_CWND_EVENT(prefix)                                                                      \
	SEC("struct_ops")                                                                          \
	void BPF_PROG(prefix##_event, struct sock *sk, int event)                                  \
	{                                                                                          \
		if (event == CA_EVENT_TX_START)                                                    \
			tp_on_tx_start(sk);                                                        \
		else                                                                               \
			tp_on_event(sk, event);                                                    \
	}                                                                                          \
	SEC("struct_ops")                                                                          \
	void BPF_PROG(prefix##_tx_start, struct sock *sk)                                          \
	{                                                                                          \
		tp_on_tx_start(sk);                                                                \
	}

static __always_inline struct tp_ack tp_ack_of(const struct tcp_sock *tp, __u32 una, __u32 acked)
{
	return (struct tp_ack){
	    .now_us = tp->tcp_mstamp,
	    .acked = acked,
	    .una = una,
	    .nxt = tp->snd_nxt,
	    .srtt_us = tp_srtt_us(tp),
	    .min_rtt_us = tp_min_rtt_us(tp),
	};
}

/*
 * The callbacks of algorithms that only grow a window and choose a threshold.  Each
 * calls a pure function:
 *   grow(state, window, acknowledgement)  if the window limits the sender
 *   threshold(state, window) -> ssthresh  when congestion begins
 *   sample(state, rtt_us, acked, now_us)  for each RTT sample; negative: none
 *   enter(state, acknowledgement, new_state, window)
 *   begin(state, acknowledgement)         at the start of a connection
 */
#define TP_AVOID(prefix, type, grow)                                                               \
	SEC("struct_ops")                                                                          \
	void BPF_PROG(prefix##_avoid, struct sock *sk, __u32 una, __u32 acked)                     \
	{                                                                                          \
		struct tcp_sock *tp = tp_tcp(sk);                                                  \
		struct tp_ack a = tp_ack_of(tp, una, acked);                                       \
		struct tp_cwnd w = tp_cwnd_of(tp);                                                 \
                                                                                                   \
		if (!tp_cwnd_limited(tp))                                                          \
			return;                                                                    \
		grow(TP_PRIVATE(sk, type), &w, &a);                                                \
		tp_set_cwnd(tp, &w);                                                               \
	}

/*
 * The same for algorithms whose module of Linux does not count packets: 1 in tp_as_module
 * (`tcpilot cc load --as-module`) has acknowledgements counted as the module does, by
 * counted(window, acked).  Its section is a map; the loader finds it by its name.
 */
#define TP_AVOID_COUNTED(prefix, type, grow, counted)                                              \
	const volatile __u8 tp_as_module SEC(".rodata.counting") = 0;                              \
	static __always_inline void prefix##_grow_counted(type *s, struct tp_cwnd *w,              \
							  struct tp_ack *a)                        \
	{                                                                                          \
		if (tp_as_module)                                                                  \
			a->acked = counted(w, a->acked);                                           \
		grow(s, w, a);                                                                     \
	}                                                                                          \
	TP_AVOID(prefix, type, prefix##_grow_counted)

#define TP_SSTHRESH(prefix, type, threshold)                                                       \
	SEC("struct_ops")                                                                          \
	__u32 BPF_PROG(prefix##_ssthresh, struct sock *sk)                                         \
	{                                                                                          \
		struct tp_cwnd w = tp_cwnd_of(tp_tcp(sk));                                         \
                                                                                                   \
		return threshold(TP_PRIVATE(sk, type), &w);                                        \
	}

#define TP_PKTS_ACKED(prefix, type, sample)                                                        \
	SEC("struct_ops")                                                                          \
	void BPF_PROG(prefix##_acked, struct sock *sk, const struct ack_sample *s)                 \
	{                                                                                          \
		sample(TP_PRIVATE(sk, type), s->rtt_us, s->pkts_acked, tp_tcp(sk)->tcp_mstamp);    \
	}

#define TP_SET_STATE(prefix, type, enter)                                                          \
	SEC("struct_ops")                                                                          \
	void BPF_PROG(prefix##_state, struct sock *sk, __u8 new_state)                             \
	{                                                                                          \
		struct tcp_sock *tp = tp_tcp(sk);                                                  \
		struct tp_ack a = tp_ack_of(tp, tp->snd_una, 0);                                   \
		struct tp_cwnd w = tp_cwnd_of(tp);                                                 \
                                                                                                   \
		enter(TP_PRIVATE(sk, type), &a, new_state, &w);                                    \
	}

#define TP_INIT(prefix, type, begin)                                                               \
	SEC("struct_ops")                                                                          \
	void BPF_PROG(prefix##_init, struct sock *sk)                                              \
	{                                                                                          \
		struct tcp_sock *tp = tp_tcp(sk);                                                  \
		struct tp_ack a = tp_ack_of(tp, tp->snd_una, 0);                                   \
                                                                                                   \
		begin(TP_PRIVATE(sk, type), &a);                                                   \
	}

/* A false loss: back to the window before it. */
#define TP_UNDO(prefix)                                                                            \
	SEC("struct_ops")                                                                          \
	__u32 BPF_PROG(prefix##_undo, struct sock *sk)                                             \
	{                                                                                          \
		const struct tcp_sock *tp = tp_tcp(sk);                                            \
		return tp_max(tp->snd_cwnd, tp->prior_cwnd);                                       \
	}

/* Members of every algorithm; the rest follows in the braces. */
#define TP_OPS(registered, ...)                                                                    \
	SEC(".struct_ops.link")                                                                    \
	struct tcp_congestion_ops ops = {.name = registered, __VA_ARGS__}

#endif
