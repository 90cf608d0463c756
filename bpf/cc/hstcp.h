/* SPDX-License-Identifier: GPL-2.0-only */
/* hstcp.h - HighSpeed TCP's arithmetic; see hstcp.bpf.c. */
#ifndef TCPILOT_HSTCP_H
#define TCPILOT_HSTCP_H

#include "../lib/cwnd.h"

#define HSTCP_ROWS 73
#define HSTCP_ROOM 128 /* a power of two: older verifiers understand a mask best */
#define HSTCP_BETA_SHIFT 8

struct tp_hstcp {
	__u32 row;
};

/*
 * RFC 3649, appendix B: the largest window at which a(w) is the row's number
 * plus one, and b(w) there, times 2^8, by the formula of section 5.
 */
static const struct {
	__u32 window, beta;
} hstcp_table[HSTCP_ROOM] = {
    {38, 128},	 {118, 113},  {221, 105},  {347, 99},	{495, 94},   {663, 90},	  {851, 87},
    {1058, 84},	 {1284, 81},  {1529, 79},  {1793, 77},	{2076, 75},  {2378, 73},  {2699, 71},
    {3039, 70},	 {3399, 68},  {3778, 67},  {4177, 65},	{4596, 64},  {5036, 63},  {5497, 62},
    {5979, 61},	 {6483, 60},  {7009, 59},  {7558, 58},	{8130, 57},  {8726, 56},  {9346, 55},
    {9991, 54},	 {10661, 53}, {11358, 52}, {12082, 51}, {12834, 50}, {13614, 50}, {14424, 49},
    {15265, 48}, {16137, 47}, {17042, 47}, {17981, 46}, {18955, 45}, {19965, 45}, {21013, 44},
    {22101, 43}, {23230, 43}, {24402, 42}, {25618, 41}, {26881, 41}, {28193, 40}, {29557, 39},
    {30975, 39}, {32450, 38}, {33986, 37}, {35586, 37}, {37253, 36}, {38992, 36}, {40808, 35},
    {42707, 34}, {44694, 34}, {46776, 33}, {48961, 33}, {51258, 32}, {53677, 31}, {56230, 31},
    {58932, 30}, {61799, 30}, {64851, 29}, {68113, 28}, {71617, 28}, {75401, 27}, {79517, 26},
    {84035, 25}, {89053, 25}, {94717, 24},
};

/* The asm hides what is known of the row, so that the mask stays. */
TP_INLINE __u32 hstcp_masked(__u32 row)
{
	asm("" : "+r"(row));
	return row & (HSTCP_ROOM - 1);
}

TP_INLINE __u32 hstcp_window(__u32 row)
{
	return row < HSTCP_ROWS ? hstcp_table[hstcp_masked(row)].window : ~0U;
}

TP_INLINE __u32 hstcp_beta(__u32 row)
{
	return hstcp_table[hstcp_masked(tp_min(row, HSTCP_ROWS - 1))].beta;
}

/* The first row whose window is not exceeded, by halving; the last one holds above. */
TP_INLINE __u32 hstcp_row(__u32 cwnd)
{
	__u32 low = 0, high = HSTCP_ROWS - 1;

	for (int step = 0; step < 7 && low < high; step++) {
		__u32 middle = (low + high) / 2;

		if (cwnd > hstcp_window(middle))
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

TP_INLINE void hstcp_begin(struct tp_hstcp *h, const struct tp_ack *a)
{
	h->row = 0;
}

/* a(w) / w for each acknowledgement, section 5. */
TP_INLINE void hstcp_grow(struct tp_hstcp *h, struct tp_cwnd *w, const struct tp_ack *a)
{
	if (tp_in_slow_start(w)) {
		tp_slow_start(w, a->acked);
		return;
	}
	if (w->packets > hstcp_window(h->row) || (h->row && w->packets <= hstcp_window(h->row - 1)))
		h->row = hstcp_row(w->packets);
	w->credit += h->row + 1;
	if (w->credit >= w->packets) {
		w->credit -= w->packets;
		w->packets = tp_min(w->packets + 1, w->clamp);
	}
}

TP_INLINE __u32 hstcp_threshold(const struct tp_hstcp *h, const struct tp_cwnd *w)
{
	__u32 less = ((__u64)w->packets * hstcp_beta(h->row)) >> HSTCP_BETA_SHIFT;

	return tp_max(w->packets - less, TP_CWND_MIN);
}

#endif
