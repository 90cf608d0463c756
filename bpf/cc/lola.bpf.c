// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * lola.bpf.c - TCP LoLa: a queue of a few milliseconds, shared fairly.
 *
 * Cubic growth until there is a queue (1 ms); then all flows raise their share of
 * the queue by one function of time (fair flow balancing), until it exceeds the
 * target (5 ms); then they hold, long enough for all of them to see it, and reduce
 * by their packets in the queue, together.
 *
 * Source     Hock, Neumeister, Zitterbart, Bless, "TCP LoLa: Congestion Control
 *            for Low Latencies and High Throughput", LCN 2017, section III.
 * Constants  Q_low 1 ms, Q_target 5 ms, t_sync 250 ms, phi 35, gamma 973/1024, C
 *            0.4, slow start until 2 Q_low: the paper was not at hand; they are
 *            those of several agreeing implementations of it for ns-3.  They do
 *            not give the units of X(t) = (t/phi)^3: here milliseconds and
 *            bytes.  In packets, X would exceed the room of a link of 10 Mbit/s
 *            within a round trip of 40 ms.
 * Choices    a step of the balancing adds at most Q_target to the queue: slow
 *            links then keep near the target too (the paper's are of 10
 *            Gbit/s).  RTTs are taken over 20 ms at least.  It is paced, at the
 *            kernel's rate (1.2 windows a round trip).  The paper drops a base
 *            RTT that was not seen for 100 decreases; here it is 10 s, and it is
 *            looked at after a decrease, as there.  A loss takes 0.3, as CUBIC's.
 * Limits     gives way to queue-filling flows.
 */
#include "lib/cc.h"
#include "lola.h"

SEC("struct_ops")
void BPF_PROG(lola_init, struct sock *sk)
{
	struct tp_ack a = tp_ack_of(tp_tcp(sk), tp_tcp(sk)->snd_una, 0);

	lola_begin(TP_PRIVATE(sk, struct tp_lola), &a);
	/* so that another flow's burst is not taken for a standing queue */
	if (sk->sk_pacing_status == SK_PACING_NONE)
		sk->sk_pacing_status = SK_PACING_NEEDED;
}

TP_AVOID(lola, struct tp_lola, lola_grow)
TP_PKTS_ACKED(lola, struct tp_lola, lola_sample)
TP_UNDO(lola)

SEC("struct_ops")
__u32 BPF_PROG(lola_ssthresh, struct sock *sk)
{
	struct tp_cwnd w = tp_cwnd_of(tp_tcp(sk));

	return lola_threshold(TP_PRIVATE(sk, struct tp_lola), &w, tp_tcp(sk)->tcp_mstamp);
}

TP_OPS("tp_lola", .init = (void *)lola_init, .cong_avoid = (void *)lola_avoid,
       .pkts_acked = (void *)lola_acked, .ssthresh = (void *)lola_ssthresh,
       .undo_cwnd = (void *)lola_undo);
