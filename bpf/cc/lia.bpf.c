// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * lia.bpf.c - LIA: the subflows of an MPTCP connection grow together as one TCP.
 *
 * Source     RFC 6356, sections 3 and 4.
 * Constants  none.
 * Choices    a subflow without an acknowledgement for four retransmission time-outs
 *            leaves the sums until it gets one.
 * Limits     slow start is each subflow's own; of a connection with more than
 *            eight subflows eight are counted, and the others grow as slowly as
 *            these demand.  On a single path: reno.
 */
#include "lib/mptcp.h"
#include "lia.h"

TP_COUPLED_AVOID(lia, struct tp_lia, lia_grow)
TP_COUPLED_STATE(lia)
TP_COUPLED_RELEASE(lia)

SEC("struct_ops")
__u32 BPF_PROG(lia_ssthresh, struct sock *sk)
{
	__u32 kept = tp_half(tp_tcp(sk)->snd_cwnd);

	tp_coupled_lost(sk, kept);
	return kept;
}

TP_UNDO(lia)

TP_OPS("tp_lia", .cong_avoid = (void *)lia_avoid, .release = (void *)lia_release,
       .set_state = (void *)lia_state, .ssthresh = (void *)lia_ssthresh,
       .undo_cwnd = (void *)lia_undo);
