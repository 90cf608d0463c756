// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * bbr3.bpf.c - BBR, version 3: the model of version 1, bounded by losses.
 *
 * STARTUP and DRAIN as before, but STARTUP also ends at six acknowledgements with
 * losses in a round with a loss of more than 2 %.  Then a cycle of two to three
 * seconds: DOWN (0.9) until the queue and some headroom are free, CRUISE, REFILL
 * for a round, and UP (1.25).  UP raises the long-term bound on inflight until
 * more than 2 % are lost or the bandwidth no longer grows.  Losses while not
 * probing bound bandwidth and inflight by 0.7 until the next REFILL.
 *
 * Source     draft-ietf-ccwg-bbr-06, section 5.
 * Constants  the draft's, in bbr3_cycle.h.
 * Choices    the kernel does not keep with each packet what was in flight and
 *            lost when it was sent.  Losses are counted over a round; what was in
 *            flight is what was delivered since, the rate sample's volume.  The
 *            filter of aggregation has two halves of five rounds.
 * Limits     ECN is no signal, as in the draft.
 */
#include "lib/bbr_shell.h"
#include "bbr3.h"

/* Only for connections with losses: icsk_ca_priv is full. */
struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct tp_bbr3_undo);
} bbr3_before_loss SEC(".maps");

static __always_inline void tp_on_ack(struct sock *sk, const struct rate_sample *rs)
{
	struct tp_bbr3 *b = TP_PRIVATE(sk, struct tp_bbr3);
	struct tp_bbr_conn c = sample_of(sk, rs);

	bbr3_ack_model(b, &c);
	read_again(sk, rs, &c);
	bbr3_ack_cycle(b, &c);
	read_again(sk, rs, &c);
	bbr3_ack_control(b, &c);
	put(sk, &c);
}

TP_CONG_CONTROL(bbr3)

static __always_inline void tp_on_tx_start(struct sock *sk)
{
	struct tp_bbr_conn c = conn_of(sk);

	if (!tp_tcp(sk)->app_limited)
		return;
	bbr3_restart(TP_PRIVATE(sk, struct tp_bbr3), &c);
	put(sk, &c);
}

static __always_inline void tp_on_event(struct sock *sk, int event)
{
}

TP_CWND_EVENT(bbr3)

SEC("struct_ops")
void BPF_PROG(bbr3_init, struct sock *sk)
{
	struct tp_bbr_conn c = conn_of(sk);

	bbr3_start(TP_PRIVATE(sk, struct tp_bbr3), &c, tp_min_rtt_us(tp_tcp(sk)));
	c.ssthresh = TP_SSTHRESH_MAX;
	put(sk, &c);
	if (sk->sk_pacing_status == SK_PACING_NONE)
		sk->sk_pacing_status = SK_PACING_NEEDED;
}

SEC("struct_ops")
void BPF_PROG(bbr3_state, struct sock *sk, __u8 new_state)
{
	if (new_state == TCP_CA_Loss)
		bbr3_timeout(TP_PRIVATE(sk, struct tp_bbr3));
}

/* Recovery begins: keep the window.  The threshold is for its readers (metrics). */
SEC("struct_ops")
__u32 BPF_PROG(bbr3_ssthresh, struct sock *sk)
{
	const struct tcp_sock *tp = tp_tcp(sk);
	struct tp_bbr3_undo unkept;
	struct tp_bbr3_undo *u =
	    bpf_sk_storage_get(&bbr3_before_loss, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);

	bbr3_save(TP_PRIVATE(sk, struct tp_bbr3), u ? u : &unkept, tp->snd_cwnd);
	return tp->snd_ssthresh;
}

SEC("struct_ops")
__u32 BPF_PROG(bbr3_undo_cwnd, struct sock *sk)
{
	static const struct tp_bbr3_undo none;
	const struct tp_bbr3_undo *u = bpf_sk_storage_get(&bbr3_before_loss, sk, 0, 0);
	struct tp_bbr_conn c = conn_of(sk);

	bbr3_undo(TP_PRIVATE(sk, struct tp_bbr3), &c, u ? u : &none);
	return c.cwnd;
}

/* Three windows of send buffer: one in flight, one to go, one while recovering. */
SEC("struct_ops")
__u32 BPF_PROG(bbr3_sndbuf, struct sock *sk)
{
	return 3;
}

/* No min_tso_segs: see bbr.bpf.c. */
TP_OPS("tp_bbr3", .init = (void *)bbr3_init, .cong_control = (void *)bbr3_control,
       .cong_control_2 = (void *)bbr3_control2, .set_state = (void *)bbr3_state,
       .cwnd_event = (void *)bbr3_event, .cwnd_event_tx_start = (void *)bbr3_tx_start,
       .ssthresh = (void *)bbr3_ssthresh, .undo_cwnd = (void *)bbr3_undo_cwnd,
       .sndbuf_expand = (void *)bbr3_sndbuf);
