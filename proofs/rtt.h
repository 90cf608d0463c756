/* SPDX-License-Identifier: GPL-2.0-or-later */
/* rtt.h - any state of lib/rtt.h's samples. */
#ifndef TCPILOT_PROOFS_RTT_H
#define TCPILOT_PROOFS_RTT_H

#include "ranges.h"
#include "cc/lib/rtt.h"

/* The base is the least of all samples, so not above this round's; without one both are TP_NO_RTT.
 */
TP_INLINE int rtt_holds(const struct tp_rtt *r)
{
	if (!r->samples)
		return r->base_us >= 1 && r->base_us <= TP_NO_RTT && r->min_us == TP_NO_RTT;
	return r->base_us >= 1 && r->base_us <= r->min_us && r->min_us <= 1U << RTT_BITS;
}

TP_INLINE struct tp_rtt any_rtt(void)
{
	struct tp_rtt r = {any_bits(31), any_bits(31), any_bits(COUNT_BITS), any_bits(32)};

	__CPROVER_assume(rtt_holds(&r));
	return r;
}

TP_INLINE void check_rtt(const struct tp_rtt *r)
{
	__CPROVER_assert(rtt_holds(r), "state: RTTs within their range");
}

#endif
