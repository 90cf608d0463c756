/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * rtt.h - RTT samples, a round at a time, for the algorithms by delay.
 *
 * base_us is the least RTT ever, an estimate of the path without a queue; the
 * rest is of the current round.  A round ends when data sent after its start is
 * acknowledged.
 */
#ifndef TCPILOT_RTT_H
#define TCPILOT_RTT_H

#include "cwnd.h"

#define TP_NO_RTT 0x7fffffffU
#define TP_RTT_SAMPLES_MIN 3 /* fewer may all be delayed acknowledgements */

struct tp_rtt {
	__u32 base_us;
	__u32 min_us; /* of the round */
	__u32 samples;
	__u32 end; /* sequence number at which the round is over */
};

TP_INLINE void tp_rtt_round(struct tp_rtt *r, __u32 nxt)
{
	r->min_us = TP_NO_RTT;
	r->samples = 0;
	r->end = nxt;
}

TP_INLINE void tp_rtt_start(struct tp_rtt *r, __u32 nxt)
{
	r->base_us = TP_NO_RTT;
	tp_rtt_round(r, nxt);
}

TP_INLINE void tp_rtt_sample(struct tp_rtt *r, __s32 rtt_us)
{
	if (rtt_us < 0)
		return;
	rtt_us++; /* 0 would divide */
	r->base_us = tp_min(r->base_us, rtt_us);
	r->min_us = tp_min(r->min_us, rtt_us);
	r->samples++;
}

TP_INLINE int tp_rtt_round_over(const struct tp_rtt *r, __u32 una)
{
	return tp_before(r->end, una);
}

TP_INLINE int tp_rtt_known(const struct tp_rtt *r)
{
	return r->samples >= TP_RTT_SAMPLES_MIN && r->base_us && r->min_us;
}

/*
 * The packets of a window waiting in queues: the packets sent, less the content
 * of the empty path, (cwnd/base - cwnd/rtt) * base (Brakmo, Peterson 1995,
 * section III.B).
 */
TP_INLINE __u32 tp_queued(__u32 packets, __u32 rtt_us, __u32 base_us)
{
	if (!rtt_us || base_us >= rtt_us)
		return 0;
	return (__u64)packets * (rtt_us - base_us) / rtt_us;
}

#endif
