// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * prague.bpf.c - Prague: DCTCP made fit for the internet; the sender of L4S.
 *
 * Source     draft-briscoe-iccrg-prague-congestion-control-04: moving average of
 *            marks and response (2.4.2), additive increase and independence of
 *            the RTT (2.4.3, 2.4.4), pacing (2.4.1), loss as reno (2.3.2).
 * Constants  g 1/16, alpha 1 at first, virtual RTT 25 ms, from 500 rounds after slow
 *            start on.
 * Feedback   from kernel 7.0 on it asks for accurate ECN (RFC 9768), a count of
 *            marks.  Before, and if the peer refuses it, one echo stands for all
 *            marks of a round trip, unless the receiver runs dctcp or prague,
 *            whose echo is exact.
 * Limits     BPF cannot choose the ECN codepoint of data: up to 7.2 the kernel
 *            sets ECT(0), even if ECT_1_NEGOTIATION gave the SYN ECT(1).  So it
 *            works with a queue that marks every ECN-capable packet at a low
 *            threshold.  DualPI2 takes ECT(0) for classic traffic, unless something
 *            on the way has made ECT(1) of it.  No fall-back for classic AQMs.  A
 *            connection without negotiated ECN is handed to the kernel's reno
 *            (lib/needs_ecn.h).
 */
#include "lib/cc.h"
#include "lib/needs_ecn.h"
#include "lib/receiver_ecn.h"
#include "prague.h"

struct private
{
	struct tp_prague sender;
	struct tp_ce_state receiver;
};

static __always_inline struct private *private_of(struct sock *sk)
{
	return TP_PRIVATE(sk, struct private);
}

SEC("struct_ops")
void BPF_PROG(prague_init, struct sock *sk)
{
	struct tcp_sock *tp = tp_tcp(sk);

	if (tp_left_to_reno(sk))
		return;
	prague_begin(&private_of(sk)->sender, tp->delivered, tp->delivered_ce, tp->snd_nxt);
	tp_ce_begin(&private_of(sk)->receiver, tp);
	if (sk->sk_pacing_status == SK_PACING_NONE)
		sk->sk_pacing_status = SK_PACING_NEEDED;
}

/* All of the window's control: the kernel would halve at the first mark. */
static __always_inline void tp_on_ack(struct sock *sk, const struct rate_sample *rs)
{
	struct tcp_sock *tp = tp_tcp(sk);
	struct tp_prague *p = &private_of(sk)->sender;
	struct tp_ack a = tp_ack_of(tp, tp->snd_una, rs->acked_sacked);
	struct tp_cwnd w = tp_cwnd_of(tp);
	__u8 state = tp_ca_state(sk);

	prague_observe(p, &w, &a, tp->delivered, tp->delivered_ce);
	if (state == TCP_CA_Recovery || state == TCP_CA_Loss) {
		if (state == TCP_CA_Loss)
			w.packets = tp_min(w.packets + a.acked, w.ssthresh);
		else
			prague_recover(p, &w, tp_in_flight(tp), a.acked);
		p->marked = tp->delivered_ce;
	} else if (tp_cwnd_limited(tp) || tp->delivered_ce != p->marked) {
		prague_grow(p, &w, &a, tp->delivered_ce);
	}
	tp_set_cwnd(tp, &w);
	if (a.srtt_us)
		sk->sk_pacing_rate =
		    tp_min64(prague_pacing(&w, a.srtt_us, tp->mss_cache), sk->sk_max_pacing_rate);
}

TP_CONG_CONTROL(prague)

/* Loss halves; the echo's CWR is answered by prague_reduce instead. */
SEC("struct_ops")
__u32 BPF_PROG(prague_ssthresh, struct sock *sk)
{
	struct tcp_sock *tp = tp_tcp(sk);

	private_of(sk)->sender.loss_cwnd = tp->snd_cwnd;
	return tp->snd_cwnd;
}

SEC("struct_ops")
void BPF_PROG(prague_state, struct sock *sk, __u8 new_state)
{
	struct tcp_sock *tp = tp_tcp(sk);

	if ((new_state == TCP_CA_Recovery && tp_ca_state(sk) != TCP_CA_Recovery) ||
	    new_state == TCP_CA_Loss)
		tp->snd_ssthresh = tp_half(private_of(sk)->sender.loss_cwnd);
}

static __always_inline void tp_on_event(struct sock *sk, int event)
{
	if (event == CA_EVENT_ECN_IS_CE || event == CA_EVENT_ECN_NO_CE)
		tp_ce_event(sk, &private_of(sk)->receiver, event == CA_EVENT_ECN_IS_CE);
}

static __always_inline void tp_on_tx_start(struct sock *sk)
{
}

TP_CWND_EVENT(prague)

/* Section 2.4.1: no bursts.  The kernel sends a millisecond's worth at once, if that is more. */
SEC("struct_ops")
__u32 BPF_PROG(prague_burst, struct sock *sk)
{
	return PRAGUE_BURST_MIN;
}

SEC("struct_ops")
__u32 BPF_PROG(prague_undo, struct sock *sk)
{
	return tp_max(tp_tcp(sk)->snd_cwnd, private_of(sk)->sender.loss_cwnd);
}

TP_OPS("tp_prague",
       .flags = TCP_CONG_NEEDS_ECN | TCP_CONG_NEEDS_ACCECN | TCP_CONG_ECT_1_NEGOTIATION,
       .init = (void *)prague_init, .cong_control = (void *)prague_control,
       .cong_control_2 = (void *)prague_control2, .set_state = (void *)prague_state,
       .cwnd_event = (void *)prague_event, .cwnd_event_tx_start = (void *)prague_tx_start,
       .ssthresh = (void *)prague_ssthresh, .undo_cwnd = (void *)prague_undo,
       .min_tso_segs = (void *)prague_burst);
