/* SPDX-License-Identifier: GPL-2.0-or-later */
/* coupled.h - any MPTCP connection of up to eight subflows. */
#ifndef TCPILOT_PROOFS_COUPLED_H
#define TCPILOT_PROOFS_COUPLED_H

#include "ranges.h"
#include "cc/lib/coupling.h"

/* `extra` has a use by algorithm: packets between losses, or a rate. */
TP_INLINE struct tp_subflow any_subflow(int extra_bits)
{
	return (struct tp_subflow){any_bits(1), any_bits(extra_bits), any_bits(TIME_BITS),
				   any_bits(CWND_BITS), any_rtt_us()};
}

TP_INLINE struct tp_coupled any_coupled(int extra_bits)
{
	struct tp_coupled c;

	for (int i = 0; i < TP_SUBFLOWS; i++)
		c.sub[i] = any_subflow(extra_bits);
	c.guest = any_subflow(extra_bits);
	c.now_us = any_bits(TIME_BITS);
	return c;
}

/* One of the eight, or the guest's place. */
TP_INLINE struct tp_subflow *any_own(struct tp_coupled *c)
{
	return any_bits(1) ? &c->sub[any_bits(3)] : &c->guest;
}

/*
 * The sums over eight subflows in a proof of their own, prove_contract_rates of lia.c; the other
 * proofs take any values within these bounds for them.
 */
static struct tp_rates contract_tp_rates_of(const struct tp_coupled *c)
{
	return (struct tp_rates){any_bits(32), any_bits(31), any_bits(55)};
}

/* A packet at most: prove_contract_step of lia.c. */
static __s64 contract_tp_coupled_step(const struct tp_rates *r, const struct tp_subflow *own)
{
	__s64 step = any_bits(TP_STEP_SHIFT + 1);

	__CPROVER_assume(step <= TP_STEP_ONE);
	return step;
}

TP_INLINE __s32 any_rest(void)
{
	__s32 rest = any_bits(TP_STEP_SHIFT);

	return any_bits(1) ? rest : -rest;
}

TP_INLINE void check_rest(__s32 rest)
{
	__CPROVER_assert(rest < TP_STEP_ONE && rest > -TP_STEP_ONE, "state: less than a packet");
}

#endif
