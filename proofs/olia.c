/* SPDX-License-Identifier: GPL-2.0-or-later */
/* olia.c - the proofs of bpf/cc/olia.bpf.c. */
#include "coupled.h"
/* Declared before their first call, so that the solver knows their types. */
static __u64 contract_olia_best(const struct tp_coupled *c);
static __u32 contract_olia_largest(const struct tp_coupled *c);
static __u32 contract_olia_counts(const struct tp_coupled *c, __u32 most, __u64 best);
static __s64 contract_olia_alpha(const struct tp_coupled *c, const struct tp_subflow *own);

#include "cc/olia.h"

/* The same for olia's three looks at the subflows: a byte each of three counts up to eight. */
static __u64 contract_olia_best(const struct tp_coupled *c)
{
	return any_bits(63);
}

static __u32 contract_olia_largest(const struct tp_coupled *c)
{
	return any_bits(CWND_BITS);
}

static __u32 contract_olia_counts(const struct tp_coupled *c, __u32 most, __u64 best)
{
	__u32 paths = any_bits(4), largest = any_bits(4), collected = any_bits(4);

	return paths | largest << 8 | collected << 16;
}

static __s64 contract_olia_alpha(const struct tp_coupled *c, const struct tp_subflow *own)
{
	__s64 alpha = any_bits(TP_STEP_SHIFT + 1);

	__CPROVER_assume(alpha <= TP_STEP_ONE);
	return any_bits(1) ? alpha : -alpha;
}

void prove_contract_olia_alpha(void)
{
	struct tp_coupled c = any_coupled(31);
	__s64 alpha = olia_alpha(&c, any_own(&c));

	__CPROVER_assert(alpha <= TP_STEP_ONE && alpha >= -TP_STEP_ONE, "state: alpha");
}

void prove_contract_paths(void)
{
	struct tp_coupled c = any_coupled(31);
	__u32 counts;

	__CPROVER_assert(olia_best(&c) >> 63 == 0, "state: the best quality");
	__CPROVER_assert(olia_largest(&c) >> CWND_BITS == 0, "state: a window");
	counts = olia_counts(&c, any_bits(CWND_BITS), any_bits(63));
	__CPROVER_assert((counts & 0xfff0f0f0) == 0, "state: counts of paths");
}

static struct tp_olia any_state(void)
{
	return (struct tp_olia){any_bits(COUNT_BITS), any_bits(COUNT_BITS), any_rest()};
}

void prove_ack(void)
{
	struct tp_olia o = any_state();
	struct tp_coupled c = any_coupled(31);
	struct tp_cwnd before = any_window(), w = before;
	struct tp_ack a = any_ack();

	olia_grow(&o, &w, &a, any_own(&c), &c);
	check_window(&before, &w);
	check_growth(&before, &w, 4ULL * a.acked + 1);
	check_rest(o.rest);
}

void prove_threshold(void)
{
	struct tp_olia o = any_state();

	check_threshold(olia_threshold(&o, any_packets()));
}
