/* SPDX-License-Identifier: GPL-2.0-or-later */
/* prague.c - the proofs of bpf/cc/prague.bpf.c. */
#include "ranges.h"
#include "ecn.h"
#include "cc/prague.h"

static struct tp_prague any_state(void)
{
	struct tp_prague p = {
	    .ecn = any_ecn(),
	    .alpha_us = any_bits(TIME_BITS),
	    .reduced_us = any_bits(TIME_BITS),
	    .rest = any_bits(CWND_BITS + PRAGUE_PART_SHIFT),
	    .loss_cwnd = any_packets(),
	    .marked = any_bits(COUNT_BITS),
	    .round_end = any_bits(32),
	    .rounds = any_bits(9),
	    .unpaid = any_bits(1),
	};

	__CPROVER_assume(p.rounds <= PRAGUE_ROUNDS);
	return p;
}

void prove_ack(void)
{
	struct tp_prague p = any_state();
	struct tp_cwnd before = any_window(), w = before;
	struct tp_ack a = any_ack();

	__CPROVER_assume(p.reduced_us <= a.now_us);
	prague_grow(&p, &w, &a, p.marked + any_bits(ACKED_BITS));
	check_window(&before, &w);
	check_growth(&before, &w, 2ULL * a.acked + 2);
}

void prove_round(void)
{
	struct tp_prague p = any_state();
	struct tp_cwnd w = any_window();
	struct tp_ack a = any_ack();
	__u32 delivered, marked;

	__CPROVER_assume(p.alpha_us <= a.now_us);
	any_marks(&p.ecn, &delivered, &marked);
	prague_observe(&p, &w, &a, delivered, marked);
	__CPROVER_assert(ecn_holds(&p.ecn) && p.rounds <= PRAGUE_ROUNDS, "state: alpha and rounds");
}

void prove_recovery(void)
{
	struct tp_prague p = any_state();
	struct tp_cwnd before = any_window(), w = before;

	prague_recover(&p, &w, any_bits(CWND_BITS), any_bits(ACKED_BITS));
	check_window(&before, &w);
	__CPROVER_assert(p.unpaid <= 1, "state: unpaid packets");
}

/* The rate is within BANDWIDTH_BITS. */
void prove_pacing(void)
{
	struct tp_cwnd w = any_window();
	__u32 srtt_us = any_rtt_us();

	__CPROVER_assume(w.packets >> 8 <= srtt_us);
	prague_pacing(&w, srtt_us, any_bits(MSS_BITS));
}
