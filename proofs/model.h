/* SPDX-License-Identifier: GPL-2.0-or-later */
/* model.h - any acknowledgement for BBR, of either version. */
#ifndef TCPILOT_PROOFS_MODEL_H
#define TCPILOT_PROOFS_MODEL_H

#include "ranges.h"
#include "cc/lib/bbr_conn.h"
#include "cc/lib/pacing.h"

/*
 * A bandwidth times an RTT is a window, and no window has more than CWND_BITS.  The two exponents
 * bound all bandwidths and all RTTs of a state and its acknowledgement.
 */
static int rtt_bits, bw_bits;

TP_INLINE void any_path(void)
{
	rtt_bits = any_bits(5);
	bw_bits = any_bits(6);
	__CPROVER_assume(rtt_bits <= RTT_BITS && bw_bits >= 2 && bw_bits <= 32);
	__CPROVER_assume(rtt_bits + bw_bits <= CWND_BITS + TP_BW_SHIFT + 1);
}

TP_INLINE __u32 any_bw(void)
{
	__u32 bw = any_bits(32);

	__CPROVER_assume((__u64)bw >> bw_bits == 0);
	return bw;
}

TP_INLINE __u32 any_path_rtt_us(void)
{
	__u32 rtt_us = any_rtt_us();

	__CPROVER_assume(rtt_us >> rtt_bits == 0);
	return rtt_us;
}

TP_INLINE struct tp_bbr_conn any_conn(void)
{
	struct tp_bbr_conn c = {
	    .now_us = any_bits(TIME_BITS),
	    .delivered = any_bits(32),
	    .lost = any_bits(32),
	    .in_flight = any_bits(CWND_BITS),
	    .prior_delivered = any_bits(32),
	    .prior_in_flight = any_bits(CWND_BITS),
	    .acked = any_bits(ACKED_BITS),
	    .losses = any_bits(CWND_BITS),
	    .sample_delivered = any_bits(CWND_BITS),
	    .rtt_us = any_path_rtt_us(),
	    .interval_us = any_bits(RTT_BITS),
	    .mss = any_bits(MSS_BITS),
	    .clamp = any_bits(32),
	    .srtt_us = any_rtt_us(),
	    .queued_us = any_bits(RTT_BITS),
	    .pacing_shift = any_bits(5),
	    .random = any_bits(32),
	    .max_pacing_rate = any_bits(63),
	    .app_limited = any_bits(1),
	    .ack_delayed = any_bits(1),
	    .state = any_bits(3),
	    .cwnd_limited = any_bits(1),
	    .cwnd = any_packets(),
	    .ssthresh = any_bits(31),
	    .pacing_rate = any_bits(63),
	};

	__CPROVER_assume(c.clamp >= TP_CWND_MIN);
	if (any_bits(1))
		c.sample_delivered = c.interval_us = -1;
	if (any_bits(1))
		c.rtt_us = -1;
	/* the sample is of the same path, and the window's rate within BANDWIDTH_BITS */
	__CPROVER_assume(c.interval_us <= 0 || (__u64)c.sample_delivered << TP_BW_SHIFT >>
						   (bw_bits - 2) < (__u64)c.interval_us);
	__CPROVER_assume(!c.srtt_us || c.cwnd >> 8 <= c.srtt_us);
	__CPROVER_assume(c.cwnd >> 18 == 0);
	return c;
}

/* Offloads hold 127 packets at most (TP_BURST_MAX). */
static __u32 contract_tp_burst(__u64 pacing_rate, __u32 shift, __u32 mss)
{
	__u32 burst = any_bits(7);

	__CPROVER_assume(burst >= 1);
	return burst;
}

TP_INLINE void check_conn(const struct tp_bbr_conn *before, const struct tp_bbr_conn *after)
{
	__CPROVER_assert(after->cwnd >= TP_CWND_MIN || before->cwnd < TP_CWND_MIN,
			 "cwnd: at least 2");
	__CPROVER_assert(after->cwnd >= 1, "cwnd: at least 1");
}

#endif
