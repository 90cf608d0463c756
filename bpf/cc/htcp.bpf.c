// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * htcp.bpf.c - H-TCP: the longer since the last congestion, the faster the growth.
 *
 * Source     draft-leith-tcp-htcp-06: increase (3.1), backoff by the RTTs'
 *            ratio (3.2), reset of the backoff when the rate changed (3.3),
 *            scaling by the RTT (3.4).
 * Constants  the draft's: 1 s before growth rises, then 1 + 10 (D - 1 s) + (D -
 *            1 s)^2 / 4 packets, times 2 (1 - beta), also within that second; backoff
 *            0.5 to 0.8; 0.5 if the rate changed by more than a fifth; RTTs scaled
 *            to 100 ms.
 *            As deployed, since the draft leaves them open: the scale stays from
 *            a tenth to twice; below an RTT of 10 ms the backoff is a half; an
 *            RTT more than 20 ms above the longest does not count; the longest
 *            fades by a twentieth at each congestion; the rate is averaged with
 *            a weight of a quarter, and afresh for three RTTs after a congestion.
 * Limits     needs several seconds without loss to differ from reno.
 */
#include "lib/cc.h"
#include "htcp.h"

TP_INIT(htcp, struct tp_htcp, htcp_begin)
TP_AVOID(htcp, struct tp_htcp, htcp_grow)
TP_SET_STATE(htcp, struct tp_htcp, htcp_enter)

SEC("struct_ops")
void BPF_PROG(htcp_acked, struct sock *sk, const struct ack_sample *s)
{
	const struct tcp_sock *tp = tp_tcp(sk);

	htcp_sample(TP_PRIVATE(sk, struct tp_htcp), s->rtt_us, s->pkts_acked, tp->snd_cwnd,
		    tp->tcp_mstamp, tp_ca_state(sk));
}

SEC("struct_ops")
__u32 BPF_PROG(htcp_ssthresh, struct sock *sk)
{
	struct tp_cwnd w = tp_cwnd_of(tp_tcp(sk));
	__u32 now_ms = tp_tcp(sk)->tcp_mstamp / TP_USEC_PER_MSEC;

	return htcp_threshold(TP_PRIVATE(sk, struct tp_htcp), &w, now_ms);
}

SEC("struct_ops")
__u32 BPF_PROG(htcp_undo_cwnd, struct sock *sk)
{
	htcp_undo(TP_PRIVATE(sk, struct tp_htcp));
	return tp_max(tp_tcp(sk)->snd_cwnd, tp_tcp(sk)->prior_cwnd);
}

TP_OPS("tp_htcp", .init = (void *)htcp_init, .cong_avoid = (void *)htcp_avoid,
       .pkts_acked = (void *)htcp_acked, .set_state = (void *)htcp_state,
       .ssthresh = (void *)htcp_ssthresh, .undo_cwnd = (void *)htcp_undo_cwnd);
