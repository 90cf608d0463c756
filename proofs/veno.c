/* SPDX-License-Identifier: GPL-2.0-or-later */
/* veno.c - the proofs of bpf/cc/veno.bpf.c. */
#include "rtt.h"
#include "cc/veno.h"

static struct tp_veno any_state(void)
{
	return (struct tp_veno){any_rtt(), any_bits(1)};
}

void prove_ack(void)
{
	struct tp_veno s = any_state();
	struct tp_cwnd before = any_window(), w = before;
	struct tp_ack a = any_ack();

	veno_grow(&s, &w, &a);
	check_window(&before, &w);
	check_growth(&before, &w, a.acked + 1);
}

void prove_threshold(void)
{
	struct tp_veno s = any_state();
	struct tp_cwnd w = any_window();

	check_threshold(veno_threshold(&s, &w));
}

void prove_sample(void)
{
	struct tp_veno s = any_state();

	veno_sample(&s, any_sample_us(), any_bits(ACKED_BITS), any_bits(TIME_BITS));
	check_rtt(&s.rtt);
}
