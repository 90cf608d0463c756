// SPDX-License-Identifier: GPL-2.0-only
/*
 * lia.bpf.c - LIA: the subflows of an MPTCP connection grow together as one TCP.
 *
 * Source     RFC 6356, sections 3 and 4.
 * Constants  none.
 * Limits     slow start is each subflow's own; a connection that runs on more
 *            than eight subflows couples seven of them.  On a single path: reno.
 */
#include "lib/mptcp.h"
#include "lia.h"

TP_COUPLED_AVOID(lia, struct tp_lia, lia_grow)
TP_COUPLED_RELEASE(lia)

SEC("struct_ops")
__u32 BPF_PROG(lia_ssthresh, struct sock *sk)
{
	return tp_half(tp_tcp(sk)->snd_cwnd);
}

TP_UNDO(lia)

TP_OPS("tp_lia", .cong_avoid = (void *)lia_avoid, .release = (void *)lia_release,
       .ssthresh = (void *)lia_ssthresh, .undo_cwnd = (void *)lia_undo);
