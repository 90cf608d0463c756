// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * wvegas.bpf.c - weighted Vegas: MPTCP subflows share ten packets of queue.
 *
 * Each subflow may keep as many packets in its queue as its share of the rate:
 * traffic leaves a path when its queue grows, before packets are lost.
 *
 * Source     Cao, Xu, Fu, "Delay-based Congestion Control for Multipath TCP",
 *            ICNP 2012, section IV; draft-xu-mptcp-congestion-control-05.
 * Constants  ten packets in all, two at least, gamma 1: the draft's.
 * Choices    a round's RTT is its least, not its mean.  A queue is drained only
 *            where more than twice the subflow's share waits: with the rule alone
 *            two links of 20 Mbit/s and 10 ms were used by 43 %, and where more
 *            than the share waits, two of 5 Mbit/s and 40 ms by 83 %, since a
 *            window that grows once a round is a packet too large at times.
 * Limits     as vegas.bpf.c.  On a single path: reno.
 */
#include "lib/mptcp.h"
#include "wvegas.h"

TP_INIT(wvegas, struct tp_wvegas, wvegas_begin)
TP_COUPLED_AVOID(wvegas, struct tp_wvegas, wvegas_grow)
TP_COUPLED_RELEASE(wvegas)
TP_PKTS_ACKED(wvegas, struct tp_wvegas, wvegas_sample)
TP_SET_STATE(wvegas, struct tp_wvegas, wvegas_enter)

SEC("struct_ops")
__u32 BPF_PROG(wvegas_ssthresh, struct sock *sk)
{
	__u32 kept = tp_half(tp_tcp(sk)->snd_cwnd);

	tp_coupled_lost(sk, kept);
	return kept;
}

TP_UNDO(wvegas)

TP_OPS("tp_wvegas", .init = (void *)wvegas_init, .release = (void *)wvegas_release,
       .cong_avoid = (void *)wvegas_avoid, .pkts_acked = (void *)wvegas_acked,
       .set_state = (void *)wvegas_state, .ssthresh = (void *)wvegas_ssthresh,
       .undo_cwnd = (void *)wvegas_undo);
