/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * sparse.h - whether a packet of a flow with a queue of its own may go first, with the ants.
 *
 * It may if the flow would have no queue at half its share: then it takes nothing from others by
 * going first.  FQ_CoDel's new queues go first for the like reason (RFC 8290, section 1.3), but by
 * the state of the queue, which a filter of an HTB does not see.  So the queue is reckoned: what
 * the flow sent, less what half its share has carried since.
 *
 * A packet going first must not overtake a waiting one of its flow.  So the time until the
 * real queue is empty is reckoned, too: after a packet finds it empty, the others have their turn,
 * and then the flow's share carries it.  How long a packet waits behind other flows' in a shared
 * queue cannot be reckoned: after it, none of its flow goes first for a while.
 *
 * The reckoned queue can be longer than the real one: a full queue drops packets, and half of an
 * odd share is rounded.  If the real one is empty then, its next turn is missed, and a packet may
 * overtake.
 */
#ifndef TCPILOT_CORE_SPARSE_H
#define TCPILOT_CORE_SPARSE_H

#include "../abi/fair.h"
#include "num.h"

/* A flow may be one full packet ahead, as in FQ_CoDel. */
#define TP_SPARSE_AHEAD_BYTES 1514
/* The reckoned queue holds a quarter of a second at that rate, and some packets. */
#define TP_SPARSE_MOST_BYTES(rate) (((rate) >> 2) + 4 * TP_SPARSE_AHEAD_BYTES)
/* A queue holds 8 turns or a tenth of a second, whichever is more (crates/watch/src/fair). */
#define TP_SPARSE_TURNS 16
#define TP_SPARSE_FULL_NS 250000000ULL
/* Nothing waits longer than this in a shared queue. */
#define TP_SPARSE_HOLD_NS 1000000000ULL

/* A flow's part of the link. */
struct tp_sparse_share {
	__u64 rate;	  /* half of it, bytes per second; 0: nobody goes first */
	__u32 turn_bytes; /* a queue's bytes in its turn */
	__u32 is_alone;	  /* in its queue */
};

/* So long the flow's share takes for so many bytes. */
TP_INLINE __u64 tp_sparse_ns(const struct tp_sparse_share *share, __u64 bytes)
{
	return bytes * 1000000000ULL / (2 * share->rate);
}

/* A packet waits in the real queue. */
TP_INLINE void tp_sparse_waits(struct tp_sparse *s, const struct tp_sparse_share *share,
			       __u32 bytes, __u64 now_ns)
{
	__u64 turn_ns = tp_sparse_ns(share, share->turn_bytes);
	__u64 from_ns = s->until_ns > now_ns ? s->until_ns : now_ns + turn_ns;

	s->until_ns = tp_min64(from_ns + tp_sparse_ns(share, bytes),
			       now_ns + TP_SPARSE_TURNS * turn_ns + TP_SPARSE_FULL_NS);
	if (!share->is_alone)
		s->until_ns = tp_max64(s->until_ns, now_ns + TP_SPARSE_HOLD_NS);
}

/* Takes a packet into the reckoned queue; whether it may go first. */
TP_INLINE int tp_is_sparse(struct tp_sparse *s, const struct tp_sparse_share *share, __u32 bytes,
			   __u64 now_ns)
{
	/* A minute at 100 Gbit/s stays below 2^64. */
	__u64 passed_us = tp_min64((now_ns - s->at_ns) / 1000, 60000000);
	__u64 carried = passed_us * share->rate / 1000000;
	int goes_first;

	if (!share->rate)
		return 0;
	s->bytes -= tp_min64(s->bytes, carried);
	s->at_ns = now_ns;
	goes_first = s->bytes < TP_SPARSE_AHEAD_BYTES && now_ns >= s->until_ns;
	s->bytes = tp_min64(s->bytes + bytes, TP_SPARSE_MOST_BYTES(share->rate));
	if (!goes_first)
		tp_sparse_waits(s, share, bytes, now_ns);
	return goes_first;
}

#endif
