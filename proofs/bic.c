/* SPDX-License-Identifier: GPL-2.0-or-later */
/* bic.c - the proofs of bpf/cc/bic.bpf.c. */
#include "ranges.h"
#include "cc/bic.h"

static struct tp_bic any_state(void)
{
	return (struct tp_bic){any_bits(CWND_BITS)};
}

void prove_ack(void)
{
	struct tp_bic s = any_state();
	struct tp_cwnd before = any_window(), w = before;
	struct tp_ack a = any_ack();

	bic_grow(&s, &w, &a);
	check_window(&before, &w);
	/* twice Smax, or 5 % of the window, for each window acknowledged */
	check_growth(&before, &w, 33ULL * a.acked + 1);
}

void prove_ack_as_module(void)
{
	struct tp_bic s = any_state();
	struct tp_cwnd before = any_window(), w = before;
	struct tp_ack a = any_ack();

	a.acked = bic_module_counts(&w, a.acked);
	bic_grow(&s, &w, &a);
	check_window(&before, &w);
}

void prove_threshold(void)
{
	struct tp_bic s = any_state();
	struct tp_cwnd w = any_window();

	check_threshold(bic_threshold(&s, &w));
	__CPROVER_assert(s.max < 1U << CWND_BITS, "state: a window");
}
