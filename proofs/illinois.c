/* SPDX-License-Identifier: GPL-2.0-or-later */
/* illinois.c - the proofs of bpf/cc/illinois.bpf.c. */
#include "rtt.h"
#include "cc/illinois.h"

static int holds(const struct tp_illinois *s)
{
	return s->alpha >= 1 && s->alpha <= 2 * ILLINOIS_ALPHA_MAX &&
	       s->beta <= 2 * ILLINOIS_BETA_MAX - 1 && s->unqueued < ILLINOIS_THETA;
}

static struct tp_illinois any_state(void)
{
	struct tp_illinois s = {
	    .rtt = any_rtt(),
	    .sum_us = any_bits(RTT_BITS + COUNT_BITS),
	    .max_us = any_bits(RTT_BITS + 1),
	    .alpha = any_bits(12),
	    .beta = any_bits(6),
	    .queued = any_bits(1),
	    .unqueued = any_bits(3),
	};

	__CPROVER_assume(s.max_us <= 1U << RTT_BITS);
	__CPROVER_assume(holds(&s) && (!s.rtt.samples || s.rtt.base_us <= s.max_us));
	/* the mean of the round's samples lies between the least and the greatest sample */
	average_n = s.sum_us;
	average_d = s.rtt.samples;
	average_least = s.rtt.base_us;
	average_most = s.max_us;
	return s;
}

void prove_ack(void)
{
	struct tp_illinois s = any_state();
	struct tp_cwnd before = any_window(), w = before;
	struct tp_ack a = any_ack();

	illinois_grow(&s, &w, &a);
	check_window(&before, &w);
	__CPROVER_assert(holds(&s), "state: alpha and beta");
	check_growth(&before, &w, 32ULL * a.acked + 1);
}

void prove_threshold(void)
{
	struct tp_illinois s = any_state();
	struct tp_cwnd w = any_window();

	check_threshold(illinois_threshold(&s, &w));
}

void prove_other_events(void)
{
	struct tp_illinois s = any_state();
	struct tp_cwnd w = any_window();
	struct tp_ack a = any_ack();

	illinois_sample(&s, any_sample_us(), a.acked, a.now_us);
	check_rtt(&s.rtt);
	illinois_enter(&s, &a, any_bits(3), &w);
	__CPROVER_assert(holds(&s), "state: alpha and beta");
}
