/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * laws.h - how fast a window would grow by the published laws, to compare a flow's with.
 *
 * A growth in packets per round says little by itself: CUBIC and H-TCP grow by the clock,
 * Hybla by the round trip, HighSpeed and BIC by the window, Illinois by the queue.  The
 * quotient of a flow's growth and a law's is near 1 if the law is the flow's, at any rate
 * and round trip.
 *
 * Fixed point: windows are packets x16, growth is packets x256 per round.
 * Pure functions.
 */
#ifndef TCPILOT_LAWS_H
#define TCPILOT_LAWS_H

#include "../bits.h"
#include "../num.h"

#define TP_CUBIC_MS_MOST 30000
#define TP_HIGHSPEED_ROWS 16

/* The largest integer whose cube is not above value, up to 65,535; by arithmetic, for the verifier.
 */
TP_APART int tp_cube_root_of(__u64 value)
{
	__u64 root = 0;

	for (int bit = 15; bit >= 0; bit--) {
		__u64 next = root | 1ULL << bit;

		root = tp_select(root, next, tp_is_less(value, next * next * next) ^ 1);
	}
	return root;
}

/* CUBIC's K, the time until its window is as before the loss: cbrt(packets / 0.4) seconds
 * (RFC 9438, section 4.2). */
TP_INLINE __u32 tp_cubic_k_ms(__u32 lost_x16)
{
	__u64 ms = tp_cube_root_of(tp_min64(lost_x16, 1 << 17) * 156250000ULL);

	return tp_min(ms, TP_CUBIC_MS_MOST);
}

/* CUBIC's window ms after the loss: origin + 0.4 (t - K)^3, and what it grows to in a
 * Reno-friendly way, 0.53 packets a round (RFC 9438, section 4.3). */
TP_INLINE __s64 tp_cubic_window(__u32 origin, __u32 after, __u32 k_ms, __u32 ms, __u32 rounds)
{
	__u64 late = ms > k_ms, off = late ? ms - k_ms : k_ms - ms;
	__s64 friendly = after + (__u64)tp_min(rounds, 65535) * 17 / 2, curve;

	off = tp_min64(off, TP_CUBIC_MS_MOST);
	off = off * off * off / 156250000;
	curve = late ? origin + off : (__s64)origin - (__s64)off;
	return tp_max_signed(curve, friendly);
}

/* H-TCP: 2 (1 - beta) (1 + 10 D + D^2 / 4), D seconds beyond the first since the loss; times the
 * round trip over 100 ms (Leith and Shorten 2008).  response is beta x256. */
TP_INLINE __u32 tp_htcp_growth(__u32 since_us, __u32 min_rtt_us, __u32 response)
{
	__u64 over_ms = since_us > 1000000 ? tp_min(since_us - 1000000, 60000000) / 1000 : 0;
	__u64 factor = 256 + (over_ms * 2560 + over_ms * over_ms * 64 / 1000) / 1000;

	factor = factor * tp_clamp(min_rtt_us, 10000, 200000) / 100000;
	factor = tp_max64(factor, 256);
	return tp_min64(factor * 2 * (256 - tp_min(response, 255)) / 256, 1 << 20);
}

/* Illinois: from 10 packets a round without a queue to 0.3 with the longest (Liu, Basar and
 * Srikant 2008).  share is the queue over the longest, x256. */
TP_INLINE __u32 tp_illinois_growth(__u32 share)
{
	return 2560 * 1024 / (1024 + tp_min(share, 256) * 131);
}

/* BIC: a fourth of the way back to the window before the loss, at most 16 packets; then away
 * from it by a third of the distance (Xu, Harfoush and Rhee 2004). */
TP_INLINE __u32 tp_bic_growth(__u32 window, __u32 before)
{
	__u32 packets = window >= before ? (window - before) * 16 / 3 : (before - window) * 16 / 4;

	return tp_clamp(packets, 51, 16 * 256);
}

/* HighSpeed's a(w), packets a round: the rows of RFC 3649, appendix B. */
TP_APART int tp_highspeed_growth(__u32 window)
{
	static const __u16 rows[TP_HIGHSPEED_ROWS] = {
	    38, 118, 221, 347, 495, 663, 851, 1058, 1284, 1529, 1793, 2076, 2378, 2699, 3039, 3399};
	__u32 packets = window / 16, found = 1;

	for (__u32 i = 0; i < TP_HIGHSPEED_ROWS; i++)
		found += tp_is_less(rows[i], packets);
	return found;
}

#endif
