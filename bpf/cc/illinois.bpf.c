// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * illinois.bpf.c - Illinois: loss decides whether to grow or to shrink, the delay
 * decides by how much.
 *
 * Far from congestion the window grows by up to ten packets a round and a loss
 * takes an eighth; with a full queue it grows by 0.3 and a loss takes a half.  So
 * the window's curve is concave, near its limit most of the time.
 *
 * Source     Liu, Basar, Srikant, "TCP-Illinois: A loss- and delay-based
 *            congestion control algorithm for high-speed networks", VALUETOOLS
 *            2006; Performance Evaluation 65, 2008: sections 2 and 3.
 * Constants  the paper's: alpha up to 10, beta 1/8 to 1/2, delays of 1, 10 and
 *            80 % of the greatest, theta 5.  As deployed, the paper's in brackets: alpha
 *            not below 0.3 (0.1), Reno below 15 packets (10).  Both as the manual of ns-3
 *            lists them, and /sys/module/tcp_illinois/parameters.
 * Limits     the greatest delay is never forgotten until the connection is idle:
 *            one outlier makes later queues look small.
 */
#include "lib/cc.h"
#include "illinois.h"

TP_INIT(illinois, struct tp_illinois, illinois_begin)
TP_AVOID(illinois, struct tp_illinois, illinois_grow)
TP_PKTS_ACKED(illinois, struct tp_illinois, illinois_sample)
TP_SET_STATE(illinois, struct tp_illinois, illinois_enter)
TP_SSTHRESH(illinois, struct tp_illinois, illinois_threshold)
TP_UNDO(illinois)

/* After idleness the path may be another one: measure again. */
static __always_inline void tp_on_tx_start(struct sock *sk)
{
	struct tp_ack a = tp_ack_of(tp_tcp(sk), tp_tcp(sk)->snd_una, 0);

	illinois_begin(TP_PRIVATE(sk, struct tp_illinois), &a);
}

static __always_inline void tp_on_event(struct sock *sk, int event)
{
	if (event == CA_EVENT_CWND_RESTART)
		tp_on_tx_start(sk);
}

TP_CWND_EVENT(illinois)

TP_OPS("tp_illinois", .init = (void *)illinois_init, .cong_avoid = (void *)illinois_avoid,
       .pkts_acked = (void *)illinois_acked, .set_state = (void *)illinois_state,
       .cwnd_event = (void *)illinois_event, .cwnd_event_tx_start = (void *)illinois_tx_start,
       .ssthresh = (void *)illinois_ssthresh, .undo_cwnd = (void *)illinois_undo);
