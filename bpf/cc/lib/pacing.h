/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * pacing.h - bandwidth in fixed point, pacing rates, and the cost of bursts.
 *
 * A bandwidth is packets per microsecond times 2^24: 0.7 kbit/s to 2.9 Tbit/s
 * with 1448-byte packets in 32 bits.  Gains are times 2^8.
 */
#ifndef TCPILOT_PACING_H
#define TCPILOT_PACING_H

#include "cwnd.h"

#define TP_BW_SHIFT 24
#define TP_BW_UNIT (1ULL << TP_BW_SHIFT)
#define TP_GAIN_SHIFT 8
#define TP_GAIN_UNIT (1U << TP_GAIN_SHIFT)

/* Below this rate, a burst is one packet: 1.2 Mbit/s, draft-cardwell-00, section 4.2.2. */
#define TP_SLOW_RATE 150000ULL
#define TP_BURST_MAX 127U
#define TP_GSO_BYTES_MAX 65215U /* 64 KiB less headers */

TP_INLINE __u64 tp_bandwidth(__u64 packets, __u64 interval_us)
{
	return interval_us ? (packets << TP_BW_SHIFT) / interval_us : 0;
}

/* Packets delivered by a bandwidth in some time. */
TP_INLINE __u64 tp_delivers(__u64 bw, __u64 interval_us)
{
	return (bw * interval_us) >> TP_BW_SHIFT;
}

/*
 * Bytes per second, `margin` percent below the gain's: what goes out a little
 * slower than the bottleneck never builds a queue by rounding.
 */
TP_INLINE __u64 tp_pacing_rate(__u64 bw, __u32 mss, __u32 gain, __u32 margin)
{
	__u64 rate = bw * mss * gain >> TP_GAIN_SHIFT;
	__u64 scale = TP_USEC_PER_SEC / 100 * (100 - margin);

	/* From 4 Tbit/s on the product would not fit; a few bits less are exact enough there. */
	if (rate >> 43)
		return (rate >> 8) * scale >> (TP_BW_SHIFT - 8);
	return rate * scale >> TP_BW_SHIFT;
}

/* The least burst worth a segmentation offload, packets. */
TP_INLINE __u32 tp_burst_min(__u64 pacing_rate)
{
	return pacing_rate < TP_SLOW_RATE ? 1 : 2;
}

/* A burst: `2^-shift` seconds of data, packets. */
TP_INLINE __u32 tp_burst(__u64 pacing_rate, __u32 shift, __u32 mss)
{
	__u64 bytes = tp_min64(pacing_rate >> (shift & 31), TP_GSO_BYTES_MAX);

	return tp_min(tp_max(mss ? bytes / mss : 0, tp_burst_min(pacing_rate)), TP_BURST_MAX);
}

#endif
