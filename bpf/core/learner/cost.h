/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * cost.h - the cost of a connection, compared by epsilon-greedy.
 *
 * In come the measures of its path and of its algorithm there.  They include its
 * sample already.  Out go a cost and an outcome.
 */
#ifndef TCPILOT_CORE_LEARNER_COST_H
#define TCPILOT_CORE_LEARNER_COST_H

#include "../../abi/learner.h"
#include "../num.h"
#include "../window.h"

/*
 * Cost of a connection, 0 at the optimum (least RTT and highest rate at once):
 *
 *   (min_rtt - path.min_rtt) * S / path.min_rtt
 *     + (path.max_rate - rate) * S / path.max_rate
 *
 * min_rtt is this connection's, rate the highest of its arm.  The path's
 * figures include this sample, so no difference is negative.  If another CPU
 * changed them in between, a negative one counts as 0.
 */
TP_INLINE __u64 tp_cost(__u32 min_rtt_us, __u32 path_min_rtt_us, __u64 rate, __u64 path_rate)
{
	__u64 cost = 0;

	if (path_min_rtt_us && min_rtt_us > path_min_rtt_us)
		cost += (__u64)(min_rtt_us - path_min_rtt_us) * TP_COST_SCALE / path_min_rtt_us;
	if (path_rate > rate)
		cost += (path_rate - rate) * TP_COST_SCALE / path_rate;
	return cost;
}

struct tp_cost {
	__u64 cost;
	enum tp_outcome outcome;
};

/*
 * The cost of a connection.  rate and min_rtt_us are those of its algorithm
 * alone.  failed: the connection timed out with data under way, or had to be
 * rescued, so the algorithm's best rate of other times does not excuse it.  Then
 * its own rate counts, and 0 if it had none.  If the path has no rate to compare
 * with, a failure costs as much as a rate of 0 on a path that has one.
 *
 * An algorithm without a known rate, on a path that has one, is not charged: the
 * application limited its connections, and this is no evidence of a slow algorithm.
 */
TP_INLINE struct tp_cost tp_cost_of(const struct tp_costs *path, const struct tp_arm *arm,
				    __u64 rate, __u32 min_rtt_us, int failed)
{
	__u64 path_rate = tp_window_max(&path->max_delivery_rate);
	struct tp_cost c = {.outcome = TP_OUTCOME_COST};

	if (!failed)
		rate = tp_window_max(&arm->max_delivery_rate);
	if (!failed && !rate && path_rate) {
		c.outcome = TP_OUTCOME_REJECTED;
		return c;
	}
	c.cost = tp_cost(min_rtt_us, tp_window_min(&path->min_rtt_us), rate, path_rate);
	if (failed && !path_rate)
		c.cost += TP_COST_SCALE;
	return c;
}

#endif
