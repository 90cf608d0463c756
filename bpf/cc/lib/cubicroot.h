/* SPDX-License-Identifier: GPL-2.0-or-later */
/* cubicroot.h - cubic growth, C t^3, and its inverse: for CUBIC and for LoLa. */
#ifndef TCPILOT_CUBICROOT_H
#define TCPILOT_CUBICROOT_H

#include "cwnd.h"

/* RFC 9438, section 4.1: C = 0.4 packets per second cubed. */
#define TP_CUBIC_C_TENTHS 4ULL
#define TP_CUBIC_MS_MAX 1000000ULL

/*
 * The largest integer whose cube is not above `value`; a bit at a time.  In BPF
 * a global function: the verifier then knows nothing of `value`, and need not
 * follow all of the two million choices of the bits.
 */
TP_GLOBAL __u64 tp_cube_root(__u64 value)
{
	__u64 root = 0;

	for (int bit = 20; bit >= 0; bit--) {
		__u64 next = root | 1ULL << bit;

		if (next * next * next <= value)
			root = next;
	}
	return root;
}

/* Milliseconds after which growth has made up for so many packets: cbrt(packets / C). */
TP_INLINE __u32 tp_cubic_ms(__u32 packets)
{
	return tp_cube_root(tp_min64(packets, 1U << 30) * 10000000000ULL / TP_CUBIC_C_TENTHS);
}

#define TP_PARTS 1024ULL /* of a packet */

/* C (t - K)^3 + origin in parts of a packet, not below 0; C is 4096 parts in 1e10 ms^3. */
TP_INLINE __u64 tp_cubic_parts(__u32 t_ms, __u32 k_ms, __u32 origin)
{
	__u64 off = tp_min64(t_ms > k_ms ? t_ms - k_ms : k_ms - t_ms, TP_CUBIC_MS_MAX);
	__u64 delta = TP_CUBIC_C_TENTHS * off * off * off / (10000000000ULL / TP_PARTS);
	__u64 from = origin * TP_PARTS;

	if (t_ms > k_ms)
		return tp_min64(from + delta, TP_SSTHRESH_MAX * TP_PARTS);
	return delta >= from ? 0 : from - delta;
}

/*
 * RFC 9438, section 4.4: (target - cwnd) / cwnd for each packet acknowledged, half as
 * much again in a round at most.  `rest` is what is not a packet yet, and must be
 * carried: behind offloads an acknowledgement is much, in a large window it is little.
 */
TP_INLINE void tp_approach(struct tp_cwnd *w, __u64 *rest, __u64 target_parts, __u32 acked)
{
	__u64 unit = tp_max(w->packets, 1) * TP_PARTS;
	__u64 gap = target_parts > unit ? tp_min64(target_parts - unit, unit / 2) : 0;
	__u64 all = *rest + acked * gap;

	w->packets = tp_min64(w->packets + all / unit, w->clamp);
	*rest = all % unit;
}

#endif
