/* SPDX-License-Identifier: GPL-2.0-or-later */
/* dctcp.c - the proofs of bpf/cc/dctcp.bpf.c. */
#include "ecn.h"

#define DCTCP_SHIFT 4 /* dctcp.bpf.c's */

void prove_round(void)
{
	struct tp_ecn e = any_ecn();
	__u32 delivered, marked;

	any_marks(&e, &delivered, &marked);
	tp_ecn_update(&e, delivered, marked, any_bits(32), any_bits(32), DCTCP_SHIFT);
	__CPROVER_assert(ecn_holds(&e), "state: alpha");
}

void prove_ack(void)
{
	struct tp_cwnd before = any_window(), w = before;
	__u32 acked = any_bits(ACKED_BITS);

	tp_reno_increase(&w, acked);
	check_window(&before, &w);
	check_growth(&before, &w, acked + 1);
}

void prove_threshold(void)
{
	struct tp_ecn e = any_ecn();

	check_threshold(tp_ecn_threshold(&e, any_packets()));
	__CPROVER_assert(ecn_holds(&e), "state: alpha");
	check_threshold(tp_half(any_packets()));
}
