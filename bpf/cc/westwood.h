/* SPDX-License-Identifier: GPL-2.0-only */
/* westwood.h - Westwood+'s arithmetic; see westwood.bpf.c. */
#ifndef TCPILOT_WESTWOOD_H
#define TCPILOT_WESTWOOD_H

#include "../lib/cwnd.h"

#define WESTWOOD_INTERVAL_US 50000 /* least time over which the rate is taken */

struct tp_westwood {
	__u64 since_us;
	__u32 delivered;	  /* packets, at that time */
	__u32 rate_fast, rate;	  /* packets per second, filtered once and twice */
	__u32 rtt_us, min_rtt_us; /* the last RTT, and the least since the last time-out */
	__u8 first, restart_rtt;
};

TP_INLINE void westwood_begin(struct tp_westwood *s, const struct tp_ack *a, __u32 delivered)
{
	*s = (struct tp_westwood){};
	s->since_us = a->now_us;
	s->delivered = delivered;
	s->first = 1;
	s->rtt_us = s->min_rtt_us = 20 * WESTWOOD_INTERVAL_US;
}

TP_INLINE void westwood_sample(struct tp_westwood *s, __s32 rtt_us, __u32 acked, __u64 now_us)
{
	if (rtt_us > 0)
		s->rtt_us = rtt_us;
}

/* Equation 4: an RTT's worth of data, low-pass filtered with 7/8. */
TP_INLINE void westwood_measure(struct tp_westwood *s, __u32 delivered, __u64 now_us)
{
	__u64 elapsed_us = now_us - s->since_us;
	__u32 rate;

	s->min_rtt_us = s->restart_rtt ? s->rtt_us : tp_min(s->min_rtt_us, s->rtt_us);
	s->restart_rtt = 0;
	if (elapsed_us <= tp_max(s->rtt_us, WESTWOOD_INTERVAL_US))
		return;
	rate = (__u64)(delivered - s->delivered) * TP_USEC_PER_SEC / elapsed_us;
	s->rate_fast = s->first ? rate : (7 * (__u64)s->rate_fast + rate) / 8;
	s->rate = s->first ? rate : (7 * (__u64)s->rate + s->rate_fast) / 8;
	s->first = 0;
	s->since_us = now_us;
	s->delivered = delivered;
}

/* What the path carried without a queue: rate times least RTT. */
TP_INLINE __u32 westwood_window(const struct tp_westwood *s)
{
	return tp_max((__u64)s->rate * s->min_rtt_us / TP_USEC_PER_SEC, TP_CWND_MIN);
}

#endif
