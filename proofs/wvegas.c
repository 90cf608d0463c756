/* SPDX-License-Identifier: GPL-2.0-or-later */
/* wvegas.c - the proofs of bpf/cc/wvegas.bpf.c. */
#include "coupled.h"
#include "rtt.h"
/* Declared before its first call, so that the solver knows its type. */
static __u32 contract_wvegas_alpha(const struct tp_coupled *c, const struct tp_subflow *own);

#include "cc/wvegas.h"

/* In a proof of its own, since it sums over the subflows. */
static __u32 contract_wvegas_alpha(const struct tp_coupled *c, const struct tp_subflow *own)
{
	__u32 alpha = any_bits(5);

	__CPROVER_assume(alpha >= WVEGAS_ALPHA_MIN);
	return alpha;
}

/* A rate: a window, times 2^TP_RATE_SHIFT, a microsecond. */
#define RATE_BITS (CWND_BITS + TP_RATE_SHIFT)

static struct tp_wvegas any_state(void)
{
	struct tp_wvegas v = {any_rtt(), any_bits(5), any_rtt_us(), any_bits(1)};

	__CPROVER_assume(v.alpha >= WVEGAS_ALPHA_MIN);
	return v;
}

void prove_contract_alpha(void)
{
	struct tp_coupled c = any_coupled(RATE_BITS);
	__u32 alpha = wvegas_alpha(&c, any_own(&c));

	__CPROVER_assert(alpha >= WVEGAS_ALPHA_MIN && alpha >> 5 == 0, "state: alpha");
}

void prove_ack(void)
{
	struct tp_wvegas v = any_state();
	struct tp_coupled c = any_coupled(RATE_BITS);
	struct tp_cwnd before = any_window(), w = before;
	struct tp_ack a = any_ack();

	wvegas_grow(&v, &w, &a, any_own(&c), &c);
	check_window(&before, &w);
	check_growth(&before, &w, a.acked + 1);
	check_rtt(&v.rtt);
	__CPROVER_assert(v.alpha >= WVEGAS_ALPHA_MIN, "state: alpha");
}

void prove_other_events(void)
{
	struct tp_wvegas v = any_state();
	struct tp_cwnd w = any_window();
	struct tp_ack a = any_ack();

	wvegas_sample(&v, any_sample_us(), a.acked, a.now_us);
	check_rtt(&v.rtt);
	wvegas_enter(&v, &a, any_bits(3), &w);
	check_rtt(&v.rtt);
	check_threshold(tp_half(any_packets()));
}
