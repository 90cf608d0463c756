/* SPDX-License-Identifier: GPL-2.0-or-later */
/* balia.c - the proofs of bpf/cc/balia.bpf.c. */
#include "coupled.h"
#include "cc/balia.h"

void prove_ack(void)
{
	struct tp_balia b = {any_rest()};
	struct tp_coupled c = any_coupled(1);
	struct tp_cwnd before = any_window(), w = before;
	struct tp_ack a = any_ack();

	balia_grow(&b, &w, &a, any_own(&c), &c);
	check_window(&before, &w);
	check_growth(&before, &w, 4ULL * a.acked + 1);
	check_rest(b.rest);
}

void prove_threshold(void)
{
	struct tp_coupled c = any_coupled(1);

	check_threshold(balia_kept(&c, any_own(&c), any_packets()));
	check_threshold(tp_half(any_packets()));
}
