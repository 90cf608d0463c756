// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * yeah.bpf.c - YeAH ("Yet Another Highspeed"): Scalable TCP while the queue is
 * short, Reno while it is long, and it empties queues of its own making.
 *
 * Fast mode adds a packet per hundred acknowledged.  When more than Qmax packets
 * wait, or the queue adds an eighth to the RTT, it is slow: it grows as Reno, and
 * takes its queue out of the window.  It also counts how large Reno's window would be
 * and never goes below, so that it does not starve next to greedy flows.
 *
 * Source     Baiocchi, Castellani, Vacirca, "YeAH-TCP: Yet Another Highspeed TCP",
 *            PFLDnet 2007: section 2.
 * Constants  the paper's: Qmax 80, phi 8, Scalable TCP's hundredth.  A
 *            loss takes the queue, but an eighth of the window at least and a half at
 *            most, as the manual of ns-3 has it from the paper.  Those left open
 *            there as its authors deployed them: the whole queue is taken out; 16 slow
 *            rounds mean a rival, 50 fast ones none.
 * Limits     a base RTT measured over a standing queue is too long.
 */
#include "lib/cc.h"
#include "yeah.h"

TP_INIT(yeah, struct tp_yeah, yeah_begin)
TP_AVOID(yeah, struct tp_yeah, yeah_grow)
TP_PKTS_ACKED(yeah, struct tp_yeah, yeah_sample)
TP_SET_STATE(yeah, struct tp_yeah, yeah_enter)
TP_SSTHRESH(yeah, struct tp_yeah, yeah_threshold)
TP_UNDO(yeah)

/* After idleness the path may be another one: measure again. */
static __always_inline void tp_on_tx_start(struct sock *sk)
{
	struct tp_ack a = tp_ack_of(tp_tcp(sk), tp_tcp(sk)->snd_una, 0);

	yeah_begin(TP_PRIVATE(sk, struct tp_yeah), &a);
}

static __always_inline void tp_on_event(struct sock *sk, int event)
{
	if (event == CA_EVENT_CWND_RESTART)
		tp_on_tx_start(sk);
}

TP_CWND_EVENT(yeah)

TP_OPS("tp_yeah", .init = (void *)yeah_init, .cong_avoid = (void *)yeah_avoid,
       .pkts_acked = (void *)yeah_acked, .set_state = (void *)yeah_state,
       .cwnd_event = (void *)yeah_event, .cwnd_event_tx_start = (void *)yeah_tx_start,
       .ssthresh = (void *)yeah_ssthresh, .undo_cwnd = (void *)yeah_undo);
