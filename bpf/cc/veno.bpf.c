// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * veno.bpf.c - Veno: Reno that asks Vegas's question to judge a loss.
 *
 * With fewer than beta packets of its own in the queue, a loss is taken for random
 * (a radio link's) and costs a fifth of the window; otherwise it is congestion's
 * and costs a half, and the window grows at half Reno's pace before that.
 *
 * Source     Fu, Liew, "TCP Veno: TCP Enhancement for Transmission Over Wireless
 *            Access Networks", IEEE JSAC 21(2), 2003: section II.
 * Constants  beta 3, a fifth, growth in every other round: the paper's, checked with the
 *            manual of ns-3.
 * Limits     the base RTT is the connection's least, and is not forgotten at each
 *            loss, as the paper has it; if others keep a queue standing, random loss looks like
 *            congestion, and the growth stays halved.
 */
#include "lib/cc.h"
#include "veno.h"

TP_INIT(veno, struct tp_veno, veno_begin)
TP_AVOID(veno, struct tp_veno, veno_grow)
TP_PKTS_ACKED(veno, struct tp_veno, veno_sample)
TP_SSTHRESH(veno, struct tp_veno, veno_threshold)
TP_UNDO(veno)

/* After idleness the path may be another one: measure again. */
static __always_inline void tp_on_tx_start(struct sock *sk)
{
	struct tp_ack a = tp_ack_of(tp_tcp(sk), tp_tcp(sk)->snd_una, 0);

	veno_begin(TP_PRIVATE(sk, struct tp_veno), &a);
}

static __always_inline void tp_on_event(struct sock *sk, int event)
{
	if (event == CA_EVENT_CWND_RESTART)
		tp_on_tx_start(sk);
}

TP_CWND_EVENT(veno)

TP_OPS("tp_veno", .init = (void *)veno_init, .cong_avoid = (void *)veno_avoid,
       .pkts_acked = (void *)veno_acked, .cwnd_event = (void *)veno_event,
       .cwnd_event_tx_start = (void *)veno_tx_start, .ssthresh = (void *)veno_ssthresh,
       .undo_cwnd = (void *)veno_undo);
