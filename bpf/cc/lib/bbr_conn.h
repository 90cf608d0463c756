/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * bbr_conn.h - a connection as BBR, of either version, sees it, and the values BBR
 * sets.  bbr_shell.h fills it in from the socket.
 */
#ifndef TCPILOT_BBR_CONN_H
#define TCPILOT_BBR_CONN_H

#include "cwnd.h"

/* enum tcp_ca_state: states from this one on are recovery */
#define BBR_RECOVERY 3
#define BBR_LOSS 4

/* A connection at the arrival of an acknowledgement. */
struct tp_bbr_conn {
	__u64 now_us;
	__u32 delivered, lost, in_flight; /* packets */
	__u32 prior_delivered, prior_in_flight, acked, losses;
	__s32 sample_delivered, rtt_us; /* negative: none */
	__s64 interval_us;
	__u32 mss, clamp, srtt_us;
	__u32 queued_us; /* until the last packet given to the pacer leaves */
	__u32 pacing_shift, random;
	__u64 max_pacing_rate; /* SO_MAX_PACING_RATE; 0: none */
	__u8 app_limited, ack_delayed, state, cwnd_limited;
	/* values to set */
	__u32 cwnd, ssthresh;
	__u64 pacing_rate;
};

TP_INLINE __u32 bbr_now_ms(const struct tp_bbr_conn *c)
{
	return c->now_us / TP_USEC_PER_MSEC;
}

/* Bursts follow from the rate in force, so the application's limit counts before they do. */
TP_INLINE void bbr_pace(struct tp_bbr_conn *c, __u64 rate)
{
	c->pacing_rate = tp_min_nonzero(rate, c->max_pacing_rate);
}

#endif
