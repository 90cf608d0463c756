// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * bbr.bpf.c - BBR, version 1: congestion control by a model of the path.
 *
 * The model is two windowed filters: the highest delivery rate of ten rounds,
 * and the lowest RTT of ten seconds.  No single measurement can show both, since
 * one needs a full pipe and the other an empty queue, so the sender alternates.
 * Pacing at the bandwidth is the first control; a window of a small multiple of
 * the BDP is the second.
 *
 *   STARTUP    gain 2/ln 2: doubles the rate each round, until three rounds
 *              brought less than a quarter more.
 *   DRAIN      the inverse gain, until STARTUP's queue is gone.
 *   PROBE_BW   eight phases of a minimum RTT: 1.25, 0.75, and six times 1.
 *   PROBE_RTT  four packets for 200 ms and a round, when the lowest RTT is ten
 *              seconds old.
 *
 * Source     Cardwell et al., "BBR: Congestion-Based Congestion Control", ACM
 *            Queue 14(5), 2016; draft-cardwell-iccrg-bbr-congestion-control-00;
 *            aggregated acknowledgements: -02, section 4.5.5; the policer
 *            detector: Flach et al., "An Internet-Wide Analysis of Traffic
 *            Policing", SIGCOMM 2016.
 * Constants  of these texts, in bbr.h, each once.
 * Pacing     sk_pacing_rate; by the fq qdisc if there is one, else by TCP's
 *            own timer, at this module's request.
 * Limits     as published: flows with a long RTT get more than those with a
 *            short one, loss is no signal, and two windows of queue stand if
 *            many share a link.
 */
#include "lib/bbr_shell.h"
#include "bbr.h"

static __always_inline void tp_on_ack(struct sock *sk, const struct rate_sample *rs)
{
	struct tp_bbr_conn c = sample_of(sk, rs);

	bbr_ack(TP_PRIVATE(sk, struct tp_bbr), &c);
	put(sk, &c);
}

TP_CONG_CONTROL(bbr)

static __always_inline void tp_on_tx_start(struct sock *sk)
{
	struct tp_bbr_conn c = conn_of(sk);

	if (!tp_tcp(sk)->app_limited)
		return;
	bbr_restart(TP_PRIVATE(sk, struct tp_bbr), &c);
	put(sk, &c);
}

static __always_inline void tp_on_event(struct sock *sk, int event)
{
}

TP_CWND_EVENT(bbr)

SEC("struct_ops")
void BPF_PROG(bbr_init, struct sock *sk)
{
	struct tp_bbr_conn c = conn_of(sk);

	bbr_start(TP_PRIVATE(sk, struct tp_bbr), &c, tp_min_rtt_us(tp_tcp(sk)));
	c.ssthresh = TP_SSTHRESH_MAX;
	put(sk, &c);
	if (sk->sk_pacing_status == SK_PACING_NONE)
		sk->sk_pacing_status = SK_PACING_NEEDED;
}

SEC("struct_ops")
void BPF_PROG(bbr_state, struct sock *sk, __u8 new_state)
{
	struct tp_bbr_conn c = conn_of(sk);

	if (new_state == TCP_CA_Loss)
		bbr_timeout(TP_PRIVATE(sk, struct tp_bbr), &c);
}

/* Recovery begins: keep the window.  The threshold is for its readers (metrics). */
SEC("struct_ops")
__u32 BPF_PROG(bbr_ssthresh, struct sock *sk)
{
	const struct tcp_sock *tp = tp_tcp(sk);

	bbr_save_cwnd(TP_PRIVATE(sk, struct tp_bbr), tp->snd_cwnd);
	return tp->snd_ssthresh;
}

SEC("struct_ops")
__u32 BPF_PROG(bbr_undo_cwnd, struct sock *sk)
{
	struct tp_bbr_conn c = conn_of(sk);

	bbr_undo(TP_PRIVATE(sk, struct tp_bbr), &c);
	return c.cwnd;
}

/* Three windows of send buffer: one in flight, one to go, one while recovering. */
SEC("struct_ops")
__u32 BPF_PROG(bbr_sndbuf, struct sock *sk)
{
	return 3;
}

/*
 * No min_tso_segs.  A kernel that skips a callback takes what lies on its stack for the
 * answer (docs/measured/congestion-controls.md, "A kernel that skips callbacks"), and 0 for
 * the least burst cuts empty segments off: on such a host 5 of 12,000 connections stood
 * still.  The kernel's own least burst is 2 packets; BBR's is 1 below 1.2 Mbit/s, a gain
 * too small for this risk.
 */
TP_OPS("tp_bbr", .init = (void *)bbr_init, .cong_control = (void *)bbr_control,
       .cong_control_2 = (void *)bbr_control2, .set_state = (void *)bbr_state,
       .cwnd_event = (void *)bbr_event, .cwnd_event_tx_start = (void *)bbr_tx_start,
       .ssthresh = (void *)bbr_ssthresh, .undo_cwnd = (void *)bbr_undo_cwnd,
       .sndbuf_expand = (void *)bbr_sndbuf);
