/* SPDX-License-Identifier: GPL-2.0-or-later */
/* lia.h - LIA's arithmetic; see lia.bpf.c. */
#ifndef TCPILOT_LIA_H
#define TCPILOT_LIA_H

#include "lib/coupling.h"

struct tp_lia {
	__u32 unused;
};

/*
 * Section 3: alpha / cwnd_total for each packet, but not more than reno, if
 * alpha = cwnd_total * max(w / rtt^2) / (sum of w / rtt)^2.
 */
TP_INLINE __u32 lia_per(const struct tp_coupled *c, __u32 cwnd)
{
	struct tp_rates r = tp_rates_of(c);

	if (!r.most_per_rtt)
		return cwnd;
	return tp_max64(cwnd, tp_min64(r.sum * r.sum / r.most_per_rtt, 0x7fffffff));
}

TP_INLINE void lia_grow(struct tp_lia *l, struct tp_cwnd *w, const struct tp_ack *a,
			struct tp_subflow *own, const struct tp_coupled *c)
{
	__u32 acked = tp_slow_start(w, a->acked);

	if (acked)
		tp_increase(w, lia_per(c, w->packets), acked);
}

#endif
