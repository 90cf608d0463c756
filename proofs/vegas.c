/* SPDX-License-Identifier: GPL-2.0-or-later */
/* vegas.c - the proofs of bpf/cc/vegas.bpf.c. */
#include "rtt.h"
#include "cc/vegas.h"

static struct tp_vegas any_state(void)
{
	return (struct tp_vegas){any_rtt(), any_bits(1), any_bits(1)};
}

void prove_ack(void)
{
	struct tp_vegas s = any_state();
	struct tp_cwnd before = any_window(), w = before;
	struct tp_ack a = any_ack();

	vegas_grow(&s, &w, &a);
	check_window(&before, &w);
	check_growth(&before, &w, a.acked + 1);
	check_rtt(&s.rtt);
}

void prove_threshold(void)
{
	struct tp_vegas s = any_state();
	struct tp_cwnd w = any_window();

	check_threshold(vegas_threshold(&s, &w));
}

void prove_other_events(void)
{
	struct tp_vegas s = any_state();
	struct tp_cwnd w = any_window();
	struct tp_ack a = any_ack();

	vegas_sample(&s, any_sample_us(), a.acked, a.now_us);
	check_rtt(&s.rtt);
	vegas_enter(&s, &a, any_bits(3), &w);
	check_rtt(&s.rtt);
}
