/* SPDX-License-Identifier: GPL-2.0-or-later */
/* bbr_shell.h - between the socket and struct tp_bbr_conn, for both versions of BBR. */
#ifndef TCPILOT_BBR_SHELL_H
#define TCPILOT_BBR_SHELL_H

#include "cc.h"
#include "bbr_conn.h"

static __always_inline __u32 queued_us(const struct tcp_sock *tp)
{
	__u64 now_ns = tp->tcp_clock_cache;
	__u64 departs_ns = tp->tcp_wstamp_ns;

	return departs_ns > now_ns ? (departs_ns - now_ns) / 1000 : 0;
}

static __always_inline struct tp_bbr_conn conn_of(struct sock *sk)
{
	const struct tcp_sock *tp = tp_tcp(sk);

	return (struct tp_bbr_conn){
	    .now_us = tp->tcp_mstamp,
	    .delivered = tp->delivered,
	    .lost = tp->lost,
	    .in_flight = tp_in_flight(tp),
	    .mss = tp->mss_cache,
	    .clamp = tp->snd_cwnd_clamp,
	    .srtt_us = tp_srtt_us(tp),
	    .queued_us = queued_us(tp),
	    .pacing_shift = sk->sk_pacing_shift,
	    .max_pacing_rate = sk->sk_max_pacing_rate,
	    .state = tp_ca_state(sk),
	    .cwnd_limited = tp_cwnd_limited(tp),
	    .cwnd = tp->snd_cwnd,
	    .ssthresh = tp->snd_ssthresh,
	    .pacing_rate = sk->sk_pacing_rate,
	};
}

static __always_inline void put(struct sock *sk, const struct tp_bbr_conn *c)
{
	struct tcp_sock *tp = tp_tcp(sk);

	tp->snd_cwnd = c->cwnd;
	tp->snd_ssthresh = c->ssthresh;
	sk->sk_pacing_rate = c->pacing_rate;
}

static __always_inline struct tp_bbr_conn sample_of(struct sock *sk, const struct rate_sample *rs)
{
	struct tp_bbr_conn c = conn_of(sk);

	c.prior_delivered = rs->prior_delivered;
	c.prior_in_flight = rs->prior_in_flight;
	c.acked = rs->acked_sacked;
	c.losses = rs->losses;
	c.sample_delivered = rs->delivered;
	c.interval_us = rs->interval_us;
	c.rtt_us = rs->rtt_us;
	c.app_limited = rs->is_app_limited;
	c.ack_delayed = rs->is_ack_delayed;
	c.random = bpf_get_prandom_u32();
	return c;
}

/*
 * As TP_FORGET: puts the window, and reads what the steps compare most.  Its values are the same,
 * and the verifier knows nothing of them any more.
 */
static __always_inline void read_again(struct sock *sk, const struct rate_sample *rs,
				       struct tp_bbr_conn *c)
{
	tp_tcp(sk)->snd_cwnd = c->cwnd;
	TP_FORGET();
	c->cwnd = tp_tcp(sk)->snd_cwnd;
	c->in_flight = tp_in_flight(tp_tcp(sk));
	c->acked = rs->acked_sacked;
	c->losses = rs->losses;
	c->sample_delivered = rs->delivered;
	c->interval_us = rs->interval_us;
	c->app_limited = rs->is_app_limited;
}

#endif
