// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * olia.bpf.c - OLIA: as LIA, and Pareto-optimal: another path gets the share that one cannot use.
 *
 * Source     Khalili, Gast, Popovic, Upadhyay, Le Boudec, "MPTCP Is Not
 *            Pareto-Optimal: Performance Issues and a Possible Solution", CoNEXT
 *            2012, section 4; draft-khalili-mptcp-congestion-control-05.
 * Constants  none.
 * Limits     as lia.bpf.c; l counts packets, not bytes.
 */
#include "lib/mptcp.h"
#include "olia.h"

TP_COUPLED_AVOID(olia, struct tp_olia, olia_grow)
TP_COUPLED_STATE(olia)
TP_COUPLED_RELEASE(olia)

SEC("struct_ops")
__u32 BPF_PROG(olia_ssthresh, struct sock *sk)
{
	__u32 kept = olia_threshold(TP_PRIVATE(sk, struct tp_olia), tp_tcp(sk)->snd_cwnd);

	tp_coupled_lost(sk, kept);
	return kept;
}

TP_UNDO(olia)

TP_OPS("tp_olia", .cong_avoid = (void *)olia_avoid, .release = (void *)olia_release,
       .set_state = (void *)olia_state, .ssthresh = (void *)olia_ssthresh,
       .undo_cwnd = (void *)olia_undo);
