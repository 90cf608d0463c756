// SPDX-License-Identifier: GPL-2.0-only
/*
 * vegas.bpf.c - Vegas: keeps two to four packets of its own in the queue.
 *
 * Source     Brakmo, Peterson, "TCP Vegas: End to End Congestion Avoidance on a
 *            Global Internet", JSAC 13(8), 1995, sections III.B and III.C.
 * Constants  alpha 2, beta 4, gamma 1 packets.
 * Limits     starves beside algorithms that fill the queue; a route that became
 *            longer looks like a queue.  The retransmission rules of the paper
 *            (III.A) are the kernel's business.
 */
#include "../lib/cc.h"
#include "vegas.h"

TP_INIT(vegas, struct tp_vegas, vegas_begin)
TP_AVOID(vegas, struct tp_vegas, vegas_grow)
TP_PKTS_ACKED(vegas, struct tp_vegas, vegas_sample)
TP_SET_STATE(vegas, struct tp_vegas, vegas_enter)
TP_SSTHRESH(vegas, struct tp_vegas, vegas_threshold)
TP_UNDO(vegas)

/* After idleness the path may be another one: measure anew. */
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
