/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * sparse.h - whether a packet of a flow with a queue of its own may go first, with the ants.
 *
 * It may if the flow would have no queue at half its share: then it takes nothing from others by
 * going first.  FQ_CoDel's new queues go first for the like reason (RFC 8290, section 1.3), but by
 * the state of the queue, which a filter of an HTB does not see.  So the queue is reckoned: what
 * the flow sent, less what half its share has carried since.
 *
 * The reckoned queue empties later than the real one, or a packet that goes first would overtake
 * those that wait.  Hence the half, and a packet that waits counts as no less than a turn.  How
 * long a packet waits behind other flows' in a queue that they share cannot be reckoned: after it,
 * none of its flow goes first for a while.
 */
#ifndef TCPILOT_CORE_SPARSE_H
#define TCPILOT_CORE_SPARSE_H

#include "../abi/fair.h"
#include "num.h"

/* A flow may be one full packet ahead, as in FQ_CoDel. */
#define TP_SPARSE_AHEAD_BYTES 1514
/* A reckoned queue is no longer than so many turns and a quarter of a second at that rate.  The
 * real one holds 8 turns or a tenth of a second, whichever is more (crates/tcpilot/src/fair). */
#define TP_SPARSE_TURNS 16
/* Nothing waits longer than this in a queue that flows share. */
#define TP_SPARSE_HOLD_NS 1000000000ULL

/* A flow's part of the link. */
struct tp_sparse_share {
	__u64 rate;	  /* half of it, bytes per second; 0: nobody goes first */
	__u32 turn_bytes; /* what a queue sends in its turn */
	__u32 is_alone;	  /* in its queue */
};

/* Takes a packet into the reckoned queue; whether it may go first. */
TP_INLINE int tp_is_sparse(struct tp_sparse *s, const struct tp_sparse_share *share, __u32 bytes,
			   __u64 now_ns)
{
	/* A minute at 100 Gbit/s stays below 2^64. */
	__u64 passed_us = tp_min64((now_ns - s->at_ns) / 1000, 60000000);
	__u64 carried = passed_us * share->rate / 1000000;
	int goes_first;

	s->bytes -= tp_min64(s->bytes, carried);
	s->at_ns = now_ns;
	goes_first = share->rate && s->bytes < TP_SPARSE_AHEAD_BYTES &&
		     (share->is_alone || now_ns - s->waited_ns > TP_SPARSE_HOLD_NS);
	if (!goes_first) {
		s->waited_ns = now_ns;
		bytes = tp_max(bytes, share->turn_bytes);
	}
	s->bytes = tp_min64(s->bytes + bytes,
			    (__u64)share->turn_bytes * TP_SPARSE_TURNS + (share->rate >> 2));
	return goes_first;
}

#endif
