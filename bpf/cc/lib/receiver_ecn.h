/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * receiver_ecn.h - the receiver's side of DCTCP and Prague: an exact echo.
 *
 * RFC 8257, section 3.2: when marking begins or ends while an acknowledgement is
 * delayed, earlier data is acknowledged at once, with the echo it deserves.
 */
#ifndef TCPILOT_RECEIVER_ECN_H
#define TCPILOT_RECEIVER_ECN_H

#include "cc.h"

#define TCP_ECN_DEMAND_CWR 4 /* tcp_sock.ecn_flags: echo until the sender has reduced */
#define ICSK_ACK_TIMER 2     /* icsk_ack.pending: a delayed acknowledgement waits */
#define ICSK_ACK_NOW 16

struct tp_ce_state {
	__u32 prior_rcv_nxt; /* end of the last state */
	__u8 ce;
};

static __always_inline void tp_ce_begin(struct tp_ce_state *r, const struct tcp_sock *tp)
{
	r->prior_rcv_nxt = tp->rcv_nxt;
	r->ce = 0;
}

static __always_inline void tp_ce_echo(struct tcp_sock *tp, __u8 ce)
{
	if (ce)
		tp->ecn_flags |= TCP_ECN_DEMAND_CWR;
	else
		tp->ecn_flags &= ~TCP_ECN_DEMAND_CWR;
}

static __always_inline void tp_ce_event(struct sock *sk, struct tp_ce_state *r, __u8 ce)
{
	struct tcp_sock *tp = tp_tcp(sk);

	/* The kernel counts marks for the sender itself then, and ECE is a bit of its counter. */
	if (tp->ecn_flags & TCP_ECN_ACCURATE)
		return;
	if (r->ce != ce) {
		if (tp_icsk(sk)->icsk_ack.pending & ICSK_ACK_TIMER) {
			tp_ce_echo(tp, r->ce);
			bpf_tcp_send_ack(tp, r->prior_rcv_nxt);
		}
		tp_icsk(sk)->icsk_ack.pending |= ICSK_ACK_NOW;
	}
	r->prior_rcv_nxt = tp->rcv_nxt;
	r->ce = ce;
	tp_ce_echo(tp, ce);
}

#endif
