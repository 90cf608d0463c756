/* SPDX-License-Identifier: GPL-2.0-or-later */
/* hybla.c - the proofs of bpf/cc/hybla.bpf.c. */
#include "ranges.h"
#include "cc/hybla.h"

static struct tp_hybla any_state(void)
{
	return (struct tp_hybla){any_rtt_us(), any_bits(HYBLA_SHIFT),
				 any_bits(CWND_BITS + 2 * HYBLA_SHIFT), any_bits(1)};
}

void prove_ack(void)
{
	struct tp_hybla s = any_state();
	struct tp_cwnd before = any_window(), w = before;
	struct tp_ack a = any_ack();

	if (any_bits(1))
		a.acked = hybla_module_counts(&w, a.acked);
	hybla_grow(&s, &w, &a);
	check_window(&before, &w);
	/* in congestion avoidance rho^2 / w packets for each, and rho is 16 at most */
	if (!tp_in_slow_start(&before))
		check_growth(&before, &w, 1024ULL * a.acked + 1);
}

void prove_threshold(void)
{
	struct tp_hybla s = any_state();
	struct tp_cwnd w = any_window();

	check_threshold(hybla_threshold(&s, &w));
}
