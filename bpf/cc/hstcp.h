/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * hstcp.h - HighSpeed TCP's response function, as the table of RFC 3649,
 * appendix B: row n, from 1, holds up to which window a(w) is n, and b(w) there.
 */
#ifndef TCPILOT_HSTCP_H
#define TCPILOT_HSTCP_H

#include "lib/cwnd.h"

#define HSTCP_ROWS 73

/* Formatted by column of the RFC's table, ten rows a line. */
/* clang-format off */
static const __u32 hstcp_window[HSTCP_ROWS] = {
	38, 118, 221, 347, 495, 663, 851, 1058, 1284, 1529,
	1793, 2076, 2378, 2699, 3039, 3399, 3778, 4177, 4596, 5036,
	5497, 5979, 6483, 7009, 7558, 8130, 8726, 9346, 9991, 10661,
	11358, 12082, 12834, 13614, 14424, 15265, 16137, 17042, 17981, 18955,
	19965, 21013, 22101, 23230, 24402, 25618, 26881, 28193, 29557, 30975,
	32450, 33986, 35586, 37253, 38992, 40808, 42707, 44694, 46776, 48961,
	51258, 53677, 56230, 58932, 61799, 64851, 68113, 71617, 75401, 79517,
	84035, 89053, 94717,
};
static const __u8 hstcp_b_percent[HSTCP_ROWS] = {
	50, 44, 41, 38, 37, 35, 34, 33, 32, 31,
	30, 29, 28, 28, 27, 27, 26, 26, 25, 25,
	24, 24, 23, 23, 22, 22, 22, 21, 21, 21,
	20, 20, 20, 19, 19, 19, 19, 18, 18, 18,
	17, 17, 17, 17, 16, 16, 16, 16, 15, 15,
	15, 15, 14, 14, 14, 14, 13, 13, 13, 13,
	13, 12, 12, 12, 12, 11, 11, 11, 10, 10,
	10, 10, 9,
};
/* clang-format on */

/* The row of a window: the first not exceeded by it, or the last. */
TP_INLINE __u32 hstcp_row(__u32 packets)
{
	__u32 row = 0;

#pragma unroll
	for (__u32 step = 64; step; step >>= 1)
		if (row + step < HSTCP_ROWS && packets > hstcp_window[row + step - 1])
			row += step;
	return row;
}

/* a(w): packets a round. */
TP_INLINE __u32 hstcp_a(__u32 packets)
{
	return hstcp_row(packets) + 1;
}

struct tp_hstcp {
	__u32 row; /* of congestion avoidance; 0, Reno's, until then */
};

TP_INLINE void hstcp_begin(struct tp_hstcp *s, const struct tp_ack *a)
{
	s->row = 0;
}

/*
 * RFC 3649, section 5: w = w + a(w)/w for each acknowledgement.  It stood for a
 * packet then.  An acknowledgement of today's stands for up to 44: packets count.
 */
TP_INLINE void hstcp_grow(struct tp_hstcp *s, struct tp_cwnd *w, const struct tp_ack *a)
{
	__u32 acked = tp_slow_start(w, a->acked);

	if (!acked)
		return;
	s->row = hstcp_row(w->packets);
	tp_add_parts(w, (__u64)acked * (s->row + 1), w->packets);
}

/* What Linux's module counts of an acknowledgement in congestion avoidance: one. */
TP_INLINE __u32 hstcp_module_counts(const struct tp_cwnd *w, __u32 acked)
{
	return tp_in_slow_start(w) ? acked : tp_min(acked, 1);
}

/*
 * RFC 3649, section 5: w = (1 - b(w)) w, but after slow start a half: it may have
 * gone to twice the path's capacity, which b(w) of such a window would leave.
 */
TP_INLINE __u32 hstcp_threshold(const struct tp_hstcp *s, const struct tp_cwnd *w)
{
	__u32 less = 0;

	if (s->row < HSTCP_ROWS)
		less = (__u64)w->packets * hstcp_b_percent[s->row] / 100;
	return tp_max(w->packets - less, TP_CWND_MIN);
}

#endif
