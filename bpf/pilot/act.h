/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * act.h - the pilot's hands: every change that it makes to a connection.
 *
 * Everything else passes hands_t on without looking into it.  Another front end
 * has another hands_t, and these functions for it.
 */
#ifndef TCPILOT_PILOT_ACT_H
#define TCPILOT_PILOT_ACT_H

#include "../core/bits.h"
#include "../core/prefix.h"
#include "../kernel/skb.h"
#include "state.h"

typedef struct bpf_sock_ops hands_t;

#define NO_PACING (~0U)
#define NO_CLAMP 0x7fffffff

/* Addresses and ports, as far as a SYN shows them. */
struct syn {
	__u32 remote[4];
	__u16 local_port;
	__u16 remote_port;
};

static __always_inline void read_syn(hands_t *hands, struct syn *s)
{
	if (hands->family == AF_INET) {
		s->remote[2] = TP_MAPPED;
		s->remote[3] = hands->remote_ip4;
		asm volatile("" ::: "memory"); /* the context is read at fixed offsets only */
	} else {
		s->remote[0] = hands->remote_ip6[0];
		s->remote[1] = hands->remote_ip6[1];
		s->remote[2] = hands->remote_ip6[2];
		s->remote[3] = hands->remote_ip6[3];
	}
	s->local_port = hands->local_port;
	s->remote_port = TP_BE32(hands->remote_port);
}

static __always_inline __u64 netns_cookie_of(hands_t *hands)
{
	return bpf_get_netns_cookie(hands);
}

/* The connection's measures.  Read through tcp_sock they would cost twice as much: see socket.h. */
static __always_inline __u32 srtt_us_of(hands_t *hands)
{
	return hands->srtt_us >> 3;
}

static __always_inline __u32 ecn_flags_of(hands_t *hands)
{
	return hands->ecn_flags;
}

static __always_inline __u64 bytes_acked_of(hands_t *hands)
{
	return hands->bytes_acked;
}

static __always_inline __u32 retransmitted_by(hands_t *hands)
{
	return hands->total_retrans;
}

static __always_inline struct bpf_sock *socket_in(hands_t *hands)
{
	return hands->sk;
}

/* Whether the packet of an event came by the loopback device.  No field of the context shows it,
 * so the kernel's own form of the context is read.  A function of its own for its stack. */
__noinline int came_by_loopback(hands_t *hands)
{
	const struct bpf_sock_ops_kern *event = (const void *)hands;
	struct sk_buff *skb = 0;
	int ifindex = 0;

	if (bpf_core_read(&skb, sizeof(skb), &event->skb) || !skb)
		return 0;
	bpf_core_read(&ifindex, sizeof(ifindex), &skb->skb_iif);
	return ifindex == LOOPBACK_IFINDEX;
}

/* Adds callbacks to those that other programs have set. */
static __always_inline int subscribe(hands_t *hands, __u32 callbacks)
{
	return bpf_sock_ops_cb_flags_set(hands, hands->bpf_sock_ops_cb_flags | callbacks);
}

/* Callbacks of a connection that was taken up.  Another program may also ask for one of the two. */
#define OUR_CALLBACKS (BPF_SOCK_OPS_STATE_CB_FLAG | BPF_SOCK_OPS_RETRANS_CB_FLAG)

/* Whether the pilot took the connection up, as far as its callbacks show it. */
static __always_inline int is_taken_up(hands_t *hands)
{
	return (hands->bpf_sock_ops_cb_flags & OUR_CALLBACKS) == OUR_CALLBACKS;
}

static __always_inline void follow_round_trips(hands_t *hands)
{
	subscribe(hands, BPF_SOCK_OPS_RTT_CB_FLAG);
}

static __always_inline void stop_following(hands_t *hands)
{
	bpf_sock_ops_cb_flags_set(hands, hands->bpf_sock_ops_cb_flags & ~BPF_SOCK_OPS_RTT_CB_FLAG);
}

/* Says whether the kernel took it.  hands: hands_t, or an iterator's socket. */
static __always_inline int set_algorithm(void *hands, const char from[TP_CC_NAME_MAX])
{
	/* Names are aligned in tp_config; copied as bytes they cost eight times as much. */
	const __u64 *words = __builtin_assume_aligned(from, 8);
	__u64 name[2] = {words[0], words[1]};

	if (!bpf_setsockopt(hands, SOL_TCP, TCP_CONGESTION, name, sizeof(name)))
		return 1;
	COUNT(trouble[TP_TROUBLE_SET_FAILED]);
	return 0;
}

static __always_inline void set_linear_timeouts(void *hands, int on)
{
	if (bpf_setsockopt(hands, SOL_TCP, TCP_THIN_LINEAR_TIMEOUTS, &on, sizeof(on)))
		COUNT(trouble[TP_TROUBLE_THIN]);
}

/* Sets a socket option for a tuning; says whether the kernel took it.  A dry run only
 * counts. */
static __always_inline int set_option(hands_t *hands, int level, int option, __u32 value,
				      __u32 tune)
{
	if (!cfg.dry_run && bpf_setsockopt(hands, level, option, &value, sizeof(value))) {
		COUNT(refused[tp_within(tune, TP_TUNES)]);
		return 0;
	}
	return 1;
}

/* Answers the kernel's question at a SYN. */
static __always_inline void reply(hands_t *hands, __u32 value)
{
	if (!cfg.dry_run)
		hands->reply = value;
}

#endif
