// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * cubic.bpf.c - CUBIC, with HyStart++.
 *
 * The window is a cubic function of the time since the last reduction: fast back
 * to the window of the last loss, slowly past it, then fast again.
 *
 * Source     RFC 9438 (sections 4.2 to 4.9, 5.8); slow start: RFC 9406.
 * Constants  the RFCs': C 0.4, beta 0.7, alpha 0.53.
 * Limits     kernels' own cubic leaves slow start by the older HyStart, and takes
 *            the least RTT, as here; the RFC says the smoothed one.  On paths below 4 ms
 *            slow start ends at smaller rises of the RTT than the RFC's (hystart.h).
 */
#include "lib/cc.h"
#include "cubic.h"

TP_INIT(cubic, struct tp_cubic, cubic_begin)
TP_AVOID(cubic, struct tp_cubic, cubic_grow)
TP_PKTS_ACKED(cubic, struct tp_cubic, cubic_sample)
TP_SET_STATE(cubic, struct tp_cubic, cubic_enter)
TP_SSTHRESH(cubic, struct tp_cubic, cubic_threshold)

SEC("struct_ops")
__u32 BPF_PROG(cubic_undo, struct sock *sk)
{
	const struct tcp_sock *tp = tp_tcp(sk);

	cubic_restore(TP_PRIVATE(sk, struct tp_cubic));
	return tp_max(tp->snd_cwnd, tp->prior_cwnd);
}

static __always_inline void tp_on_tx_start(struct sock *sk)
{
	const struct tcp_sock *tp = tp_tcp(sk);
	__u64 now_us = tp->tcp_mstamp;

	if (now_us > tp->delivered_mstamp)
		cubic_idle(TP_PRIVATE(sk, struct tp_cubic), now_us - tp->delivered_mstamp, now_us);
}

static __always_inline void tp_on_event(struct sock *sk, int event)
{
}

TP_CWND_EVENT(cubic)

TP_OPS("tp_cubic", .init = (void *)cubic_init, .cong_avoid = (void *)cubic_avoid,
       .pkts_acked = (void *)cubic_acked, .set_state = (void *)cubic_state,
       .cwnd_event = (void *)cubic_event, .cwnd_event_tx_start = (void *)cubic_tx_start,
       .ssthresh = (void *)cubic_ssthresh, .undo_cwnd = (void *)cubic_undo);
