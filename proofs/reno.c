/* SPDX-License-Identifier: GPL-2.0-or-later */
/* reno.c - the proofs of bpf/cc/reno.bpf.c. */
#include "ranges.h"

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
	check_threshold(tp_half(any_packets()));
}
