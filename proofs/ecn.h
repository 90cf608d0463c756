/* SPDX-License-Identifier: GPL-2.0-or-later */
/* ecn.h - any state of lib/ecn.h's average. */
#ifndef TCPILOT_PROOFS_ECN_H
#define TCPILOT_PROOFS_ECN_H

#include "ranges.h"
#include "cc/lib/ecn.h"

TP_INLINE int ecn_holds(const struct tp_ecn *e)
{
	return e->alpha <= TP_ALPHA_MAX && e->cut_rest < 2 * TP_ALPHA_MAX;
}

TP_INLINE struct tp_ecn any_ecn(void)
{
	struct tp_ecn e = {any_bits(TP_ALPHA_SHIFT + 1), any_bits(TP_ALPHA_SHIFT + 1),
			   any_bits(COUNT_BITS), any_bits(COUNT_BITS), any_bits(32)};

	__CPROVER_assume(ecn_holds(&e));
	return e;
}

/* A marked packet is a delivered one. */
TP_INLINE void any_marks(const struct tp_ecn *e, __u32 *delivered, __u32 *marked)
{
	__u32 packets = any_bits(COUNT_BITS), ce = any_bits(COUNT_BITS);

	__CPROVER_assume(ce <= packets);
	*delivered = e->delivered + packets;
	*marked = e->marked + ce;
}

#endif
