// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * dctcp.bpf.c - DCTCP: reacts to how many packets were marked, not only whether.
 *
 * Source     RFC 8257: receiver (section 3.2), sender (3.3), loss (3.5).
 * Constants  the RFC's: g = 1/16, alpha 1 at first (section 4.2).
 * Limits     both ends must use it, and the network must mark at a low threshold;
 *            never with other traffic in one queue.  A connection without
 *            negotiated ECN is handed to the kernel's reno (lib/needs_ecn.h).
 *
 * The arithmetic is lib/ecn.h's.
 */
#include "lib/cc.h"
#include "lib/ecn.h"
#include "lib/needs_ecn.h"
#include "lib/receiver_ecn.h"

#define DCTCP_SHIFT 4
struct tp_dctcp {
	struct tp_ecn ecn;
	__u32 loss_cwnd;
	struct tp_ce_state receiver;
};

static __always_inline void begin_round(struct tcp_sock *tp, struct tp_dctcp *d)
{
	tp_ecn_round(&d->ecn, tp->delivered, tp->delivered_ce, tp->snd_nxt);
}

SEC("struct_ops")
void BPF_PROG(dctcp_init, struct sock *sk)
{
	struct tp_dctcp *d = TP_PRIVATE(sk, struct tp_dctcp);
	struct tcp_sock *tp = tp_tcp(sk);

	if (tp_left_to_reno(sk))
		return;
	*d = (struct tp_dctcp){.ecn.alpha = TP_ALPHA_MAX};
	tp_ce_begin(&d->receiver, tp);
	begin_round(tp, d);
}

SEC("struct_ops")
void BPF_PROG(dctcp_avoid, struct sock *sk, __u32 una, __u32 acked)
{
	struct tcp_sock *tp = tp_tcp(sk);
	struct tp_cwnd w = tp_cwnd_of(tp);

	if (!tp_cwnd_limited(tp))
		return;
	tp_reno_increase(&w, acked);
	tp_set_cwnd(tp, &w);
}

SEC("struct_ops")
void BPF_PROG(dctcp_ack, struct sock *sk, __u32 flags)
{
	const struct tcp_sock *tp = tp_tcp(sk);

	tp_ecn_update(&TP_PRIVATE(sk, struct tp_dctcp)->ecn, tp->delivered, tp->delivered_ce,
		      tp->snd_una, tp->snd_nxt, DCTCP_SHIFT);
}

SEC("struct_ops")
__u32 BPF_PROG(dctcp_ssthresh, struct sock *sk)
{
	struct tp_dctcp *d = TP_PRIVATE(sk, struct tp_dctcp);
	const struct tcp_sock *tp = tp_tcp(sk);

	d->loss_cwnd = tp->snd_cwnd;
	if (!(tp->ecn_flags & TCP_ECN_ANY))
		return tp_half(tp->snd_cwnd);
	return tp_ecn_threshold(&d->ecn, tp->snd_cwnd);
}

/* Loss is congestion as for everybody: a half (section 3.5). */
SEC("struct_ops")
void BPF_PROG(dctcp_state, struct sock *sk, __u8 new_state)
{
	struct tp_dctcp *d = TP_PRIVATE(sk, struct tp_dctcp);
	struct tcp_sock *tp = tp_tcp(sk);

	if (new_state == TCP_CA_Recovery && tp_ca_state(sk) != TCP_CA_Recovery) {
		d->loss_cwnd = tp->snd_cwnd;
		tp->snd_ssthresh = tp_half(tp->snd_cwnd);
	}
}

static __always_inline void tp_on_event(struct sock *sk, int event)
{
	struct tp_dctcp *d = TP_PRIVATE(sk, struct tp_dctcp);

	if (event == CA_EVENT_ECN_IS_CE || event == CA_EVENT_ECN_NO_CE)
		tp_ce_event(sk, &d->receiver, event == CA_EVENT_ECN_IS_CE);
	else if (event == CA_EVENT_LOSS) {
		d->loss_cwnd = tp_tcp(sk)->snd_cwnd;
		tp_tcp(sk)->snd_ssthresh = tp_half(d->loss_cwnd);
	}
}

static __always_inline void tp_on_tx_start(struct sock *sk)
{
}

TP_CWND_EVENT(dctcp)

SEC("struct_ops")
__u32 BPF_PROG(dctcp_undo, struct sock *sk)
{
	return tp_max(tp_tcp(sk)->snd_cwnd, TP_PRIVATE(sk, struct tp_dctcp)->loss_cwnd);
}

TP_OPS("tp_dctcp", .flags = TCP_CONG_NEEDS_ECN, .init = (void *)dctcp_init,
       .cong_avoid = (void *)dctcp_avoid, .in_ack_event = (void *)dctcp_ack,
       .set_state = (void *)dctcp_state, .cwnd_event = (void *)dctcp_event,
       .cwnd_event_tx_start = (void *)dctcp_tx_start, .ssthresh = (void *)dctcp_ssthresh,
       .undo_cwnd = (void *)dctcp_undo);
