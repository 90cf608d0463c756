/* SPDX-License-Identifier: GPL-2.0-or-later */
/* hstcp.c - the proofs of bpf/cc/hstcp.bpf.c. */
#include "ranges.h"
#include "cc/hstcp.h"

static struct tp_hstcp any_state(void)
{
	struct tp_hstcp s = {any_bits(7)};

	__CPROVER_assume(s.row < HSTCP_ROWS);
	return s;
}

void prove_ack(void)
{
	struct tp_hstcp s = any_state();
	struct tp_cwnd before = any_window(), w = before;
	struct tp_ack a = any_ack();

	if (any_bits(1))
		a.acked = hstcp_module_counts(&w, a.acked);
	hstcp_grow(&s, &w, &a);
	check_window(&before, &w);
	/* a(w) is 73 at most */
	check_growth(&before, &w, 74ULL * a.acked + 1);
	__CPROVER_assert(s.row < HSTCP_ROWS, "state: a row of the table");
}

void prove_threshold(void)
{
	struct tp_hstcp s = any_state();
	struct tp_cwnd w = any_window();

	check_threshold(hstcp_threshold(&s, &w));
}
