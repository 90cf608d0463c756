// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * vegas.bpf.c - Vegas: keeps two to four packets of its own in the queue.
 *
 * The window's packets per RTT on an empty path, less those really carried, wait in
 * queues.  Once a round the window is moved by a packet, to keep their number between
 * alpha and beta; slow start doubles every other round, to measure in the rounds
 * between, and ends when a queue begins.
 *
 * Source     Brakmo, Peterson, "TCP Vegas: End to End Congestion Avoidance on a
 *            Global Internet", IEEE JSAC 13(8), 1995: section 4 (the modified
 *            retransmission of its section 3 is the kernel's own business).
 * Constants  alpha 2, beta 4, gamma 1: the paper's Vegas-2,4, and the defaults of
 *            Linux's module (/sys/module/tcp_vegas/parameters).
 *            A round counts with three samples, as deployed.
 * Choices    a round's RTT is its least, not its mean: delayed acknowledgements
 *            only ever add.  Loss halves the window, as with Reno.  Linux's module doubles in
 *            each round of slow start, and so enters a long queue further.
 * Limits     gives way to anything that fills the queue; a base RTT measured over
 *            a standing queue is too long; a route that gets longer looks like
 *            congestion until the connection is idle.
 */
#include "lib/cc.h"
#include "vegas.h"

TP_INIT(vegas, struct tp_vegas, vegas_begin)
TP_AVOID(vegas, struct tp_vegas, vegas_grow)
TP_PKTS_ACKED(vegas, struct tp_vegas, vegas_sample)
TP_SET_STATE(vegas, struct tp_vegas, vegas_enter)
TP_SSTHRESH(vegas, struct tp_vegas, vegas_threshold)
TP_UNDO(vegas)

/* After idleness the path may be another one: measure again. */
static __always_inline void tp_on_tx_start(struct sock *sk)
{
	struct tp_ack a = tp_ack_of(tp_tcp(sk), tp_tcp(sk)->snd_una, 0);

	vegas_begin(TP_PRIVATE(sk, struct tp_vegas), &a);
}

static __always_inline void tp_on_event(struct sock *sk, int event)
{
	if (event == CA_EVENT_CWND_RESTART)
		tp_on_tx_start(sk);
}

TP_CWND_EVENT(vegas)

TP_OPS("tp_vegas", .init = (void *)vegas_init, .cong_avoid = (void *)vegas_avoid,
       .pkts_acked = (void *)vegas_acked, .set_state = (void *)vegas_state,
       .cwnd_event = (void *)vegas_event, .cwnd_event_tx_start = (void *)vegas_tx_start,
       .ssthresh = (void *)vegas_ssthresh, .undo_cwnd = (void *)vegas_undo);
