/* SPDX-License-Identifier: GPL-2.0-or-later */
/* yeah.c - the proofs of bpf/cc/yeah.bpf.c. */
#include "rtt.h"
#include "cc/yeah.h"

/* Rounds and windows count up by one a round. */
static struct tp_yeah any_state(void)
{
	return (struct tp_yeah){any_rtt(),
				any_bits(CWND_BITS),
				any_bits(CWND_BITS + 1),
				any_bits(COUNT_BITS),
				any_bits(COUNT_BITS),
				any_bits(1)};
}

void prove_ack(void)
{
	struct tp_yeah s = any_state();
	struct tp_cwnd before = any_window(), w = before;
	struct tp_ack a = any_ack();

	yeah_grow(&s, &w, &a);
	check_window(&before, &w);
	check_growth(&before, &w, a.acked + 1);
	check_rtt(&s.rtt);
}

void prove_threshold(void)
{
	struct tp_yeah s = any_state();
	struct tp_cwnd w = any_window();

	check_threshold(yeah_threshold(&s, &w));
}

void prove_other_events(void)
{
	struct tp_yeah s = any_state();
	struct tp_cwnd w = any_window();
	struct tp_ack a = any_ack();

	yeah_sample(&s, any_sample_us(), a.acked, a.now_us);
	check_rtt(&s.rtt);
	yeah_enter(&s, &a, any_bits(3), &w);
	check_rtt(&s.rtt);
}
