// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * template.bpf.c - additive increase, multiplicative decrease, with constants to
 * play with: reno has 1 and 1/2.
 *
 * Source     Chiu, Jain, "Analysis of the Increase and Decrease Algorithms for
 *            Congestion Avoidance in Computer Networks", 1989.
 * Constants  INCREASE packets an RTT, DECREASE_PERCENT after a loss.
 * Limits     it is an example.
 */
#include "cc.h"

#define INCREASE 2
#define DECREASE_PERCENT 60

/* What is remembered for each connection; 104 bytes at most. */
struct mine {
	__u32 losses;
};

/* For each acknowledgement, where the window limits the sender. */
static __always_inline void mine_grow(struct mine *m, struct tp_cwnd *w, const struct tp_ack *a)
{
	__u32 acked = tp_slow_start(w, a->acked);

	if (acked)
		tp_increase(w, w->packets / INCREASE, acked);
}

/* When packets were lost: the new threshold, which becomes the window. */
static __always_inline __u32 mine_threshold(struct mine *m, const struct tp_cwnd *w)
{
	m->losses++;
	return tp_scale(w->packets, DECREASE_PERCENT, 100);
}

TP_AVOID(mine, struct mine, mine_grow)
TP_SSTHRESH(mine, struct mine, mine_threshold)
TP_UNDO(mine)

TP_OPS("tp_mine", .cong_avoid = (void *)mine_avoid, .ssthresh = (void *)mine_ssthresh,
       .undo_cwnd = (void *)mine_undo);
