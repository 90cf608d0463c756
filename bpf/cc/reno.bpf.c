// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * reno.bpf.c - TCP's standard congestion control.
 *
 * Source     RFC 5681 (sections 3.1 and 3.2); recovery is the kernel's own,
 *            RFC 6582 and proportional rate reduction.
 * Constants  none beyond the RFC's: one packet per RTT, a half upon loss.
 * Limits     acknowledgements are counted in packets, not in bytes; there is no
 *            limit on a step (RFC 3465's L).
 *
 * The arithmetic is in lib/cwnd.h, since nearly every other one falls back to it.
 */
#include "lib/cc.h"

SEC("struct_ops")
void BPF_PROG(reno_avoid, struct sock *sk, __u32 ack, __u32 acked)
{
	struct tcp_sock *tp = tp_tcp(sk);
	struct tp_cwnd w;

	if (!tp_cwnd_limited(tp))
		return;
	w = tp_cwnd_of(tp);
	tp_reno_increase(&w, acked);
	tp_set_cwnd(tp, &w);
}

SEC("struct_ops")
__u32 BPF_PROG(reno_ssthresh, struct sock *sk)
{
	return tp_half(tp_tcp(sk)->snd_cwnd);
}

TP_UNDO(reno)

TP_OPS("tp_reno", .cong_avoid = (void *)reno_avoid, .ssthresh = (void *)reno_ssthresh,
       .undo_cwnd = (void *)reno_undo);
