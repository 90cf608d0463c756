// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * balia.bpf.c - BALIA: balances how friendly and how responsive MPTCP is.
 *
 * Source     Peng, Walid, Hwang, Low, "Multipath TCP: Analysis, Design, and
 *            Implementation", ToN 24(1), 2016, section V;
 *            draft-walid-mptcp-congestion-control-04, section 3.
 * Constants  of the text: 1/2, 4/5, 3/2.
 * Limits     as lia.bpf.c.
 */
#include "lib/mptcp.h"
#include "balia.h"

TP_COUPLED_AVOID(balia, struct tp_balia, balia_grow)
TP_COUPLED_STATE(balia)
TP_COUPLED_RELEASE(balia)

SEC("struct_ops")
__u32 BPF_PROG(balia_ssthresh, struct sock *sk)
{
	struct tp_coupled *c = tp_connection(sk);
	__u32 cwnd = tp_tcp(sk)->snd_cwnd, kept = tp_half(cwnd);

	if (c) {
		struct tp_subflow *own = tp_own_subflow(c, sk);

		kept = balia_kept(c, own, cwnd);
		own->cwnd = kept;
	}
	return kept;
}

TP_UNDO(balia)

TP_OPS("tp_balia", .cong_avoid = (void *)balia_avoid, .release = (void *)balia_release,
       .set_state = (void *)balia_state, .ssthresh = (void *)balia_ssthresh,
       .undo_cwnd = (void *)balia_undo);
