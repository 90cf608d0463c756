// SPDX-License-Identifier: GPL-2.0-only
/*
 * westwood.bpf.c - Westwood+: after a loss, the window that fits the measured rate.
 *
 * Source     Grieco, Mascolo, "Performance Evaluation and Comparison of Westwood+,
 *            New Reno, and Vegas TCP Congestion Control", CCR 34(2), 2004,
 *            section 2: the rate is sampled once an RTT, after its predecessor's
 *            samples of single acknowledgements overestimated it.
 * Constants  the filter's 7/8; 50 ms at least for a sample.
 * Limits     a rate that was below the bottleneck's, because the application had
 *            nothing to send, leads to a small window after the next loss.
 */
#include "../lib/cc.h"
#include "westwood.h"

SEC("struct_ops")
void BPF_PROG(westwood_init, struct sock *sk)
{
	struct tcp_sock *tp = tp_tcp(sk);
	struct tp_ack a = tp_ack_of(tp, tp->snd_una, 0);

	westwood_begin(TP_PRIVATE(sk, struct tp_westwood), &a, tp->delivered);
}

SEC("struct_ops")
void BPF_PROG(westwood_avoid, struct sock *sk, __u32 una, __u32 acked)
{
	struct tcp_sock *tp = tp_tcp(sk);
	struct tp_cwnd w = tp_cwnd_of(tp);

	if (!tp_cwnd_limited(tp))
		return;
	tp_reno_increase(&w, acked);
	tp_set_cwnd(tp, &w);
}

SEC("struct_ops")
void BPF_PROG(westwood_ack, struct sock *sk, __u32 flags)
{
	const struct tcp_sock *tp = tp_tcp(sk);

	westwood_measure(TP_PRIVATE(sk, struct tp_westwood), tp->delivered, tp->tcp_mstamp);
}

TP_PKTS_ACKED(westwood, struct tp_westwood, westwood_sample)

SEC("struct_ops")
__u32 BPF_PROG(westwood_ssthresh, struct sock *sk)
{
	return tp_half(tp_tcp(sk)->snd_cwnd);
}

/* A recovery ends with that window; after a time-out slow start ends there. */
static __always_inline void tp_on_event(struct sock *sk, int event)
{
	struct tp_westwood *s = TP_PRIVATE(sk, struct tp_westwood);
	struct tcp_sock *tp = tp_tcp(sk);

	if (event == CA_EVENT_COMPLETE_CWR) {
		tp->snd_cwnd = tp->snd_ssthresh = westwood_window(s);
	} else if (event == CA_EVENT_LOSS) {
		tp->snd_ssthresh = westwood_window(s);
		s->restart_rtt = 1;
	}
}

static __always_inline void tp_on_tx_start(struct sock *sk)
{
}

TP_CWND_EVENT(westwood)
TP_UNDO(westwood)

TP_OPS("tp_westwood", .init = (void *)westwood_init, .cong_avoid = (void *)westwood_avoid,
       .in_ack_event = (void *)westwood_ack, .pkts_acked = (void *)westwood_acked,
       .cwnd_event = (void *)westwood_event, .cwnd_event_tx_start = (void *)westwood_tx_start,
       .ssthresh = (void *)westwood_ssthresh, .undo_cwnd = (void *)westwood_undo);
