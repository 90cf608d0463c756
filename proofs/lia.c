/* SPDX-License-Identifier: GPL-2.0-or-later */
/* lia.c - the proofs of bpf/cc/lia.bpf.c. */
#include "coupled.h"
#include "cc/lia.h"

void prove_ack(void)
{
	struct tp_lia l = {0};
	struct tp_coupled c = any_coupled(1);
	struct tp_cwnd before = any_window(), w = before;
	struct tp_ack a = any_ack();

	lia_grow(&l, &w, &a, any_own(&c), &c);
	check_window(&before, &w);
	check_growth(&before, &w, a.acked + 1);
}

void prove_contract_rates(void)
{
	struct tp_coupled c = any_coupled(1);
	struct tp_rates r = tp_rates_of(&c);

	__CPROVER_assert(r.sum >> 32 == 0 && r.most >> 31 == 0 && r.most_per_rtt >> 55 == 0,
			 "state: rates");
}

void prove_contract_step(void)
{
	struct tp_rates r = contract_tp_rates_of(0);
	struct tp_subflow own = any_subflow(1);
	__s64 step = tp_coupled_step(&r, &own);

	__CPROVER_assert(step >= 0 && step <= TP_STEP_ONE, "state: a step");
}

void prove_threshold(void)
{
	check_threshold(tp_half(any_packets()));
}
