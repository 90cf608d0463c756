// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * westwood.bpf.c - Westwood+: Reno, but the repair of a loss ends with the window
 * for the measured rate, instead of a half.
 *
 * The rate counts packets delivered in a round trip, selectively acknowledged
 * packets included, averaged over rounds; times the least RTT it is the window
 * that fills the path and leaves the queue empty.  Random loss changes it little.
 *
 * Source     Grieco, Mascolo, "Performance evaluation and comparison of
 *            Westwood+, New Reno, and Vegas TCP congestion control", ACM CCR
 *            34(2), 2004: section 2.
 * Constants  the average takes an eighth of each sample, as deployed (the paper:
 *            a tenth), and is averaged once more in the same way.
 * Choices    as deployed, seen by tracing Linux's module: a sample covers 50 ms at least (the
 *            paper: a round trip), since on a short path a round trip is one burst;
 *            while a loss is repaired the window is halved as Reno's, and the rate measured
 *            then counts; the fitting window is set afterwards (the paper: at
 *            the loss).  The least RTT is measured again after a time-out, when the path may be
 *            another one, and the first sample is the average's start (S. Mascolo,
 *            end2end-interest, 18 July 2006).
 * Limits     growth is Reno's; a long queue at the beginning hides the least RTT.
 */
#include "lib/cc.h"
#include "westwood.h"

SEC("struct_ops")
void BPF_PROG(westwood_init, struct sock *sk)
{
	const struct tcp_sock *tp = tp_tcp(sk);

	westwood_begin(TP_PRIVATE(sk, struct tp_westwood), tp->tcp_mstamp, tp->delivered);
}

/* By delivered, not by the cumulative acknowledgement: the latter stands still while a loss is
 * repaired. */
SEC("struct_ops")
void BPF_PROG(westwood_acked, struct sock *sk, const struct ack_sample *sample)
{
	const struct tcp_sock *tp = tp_tcp(sk);

	westwood_sample(TP_PRIVATE(sk, struct tp_westwood), sample->rtt_us, tp->delivered,
			tp->tcp_mstamp);
}

TP_AVOID(westwood, struct tp_westwood, westwood_grow)
TP_SSTHRESH(westwood, struct tp_westwood, westwood_threshold)
TP_UNDO(westwood)

SEC("struct_ops")
void BPF_PROG(westwood_event, struct sock *sk, int event)
{
	struct tp_westwood *s = TP_PRIVATE(sk, struct tp_westwood);
	struct tp_cwnd w = tp_cwnd_of(tp_tcp(sk));

	if (event == CA_EVENT_COMPLETE_CWR)
		westwood_repaired(s, &w);
	else if (event == CA_EVENT_LOSS)
		westwood_timed_out(s, &w);
	else
		return;
	tp_set_cwnd(tp_tcp(sk), &w);
}

TP_OPS("tp_westwood", .init = (void *)westwood_init, .cong_avoid = (void *)westwood_avoid,
       .pkts_acked = (void *)westwood_acked, .cwnd_event = (void *)westwood_event,
       .ssthresh = (void *)westwood_ssthresh, .undo_cwnd = (void *)westwood_undo);
