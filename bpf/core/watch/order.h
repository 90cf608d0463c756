/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * order.h - whether data that come again were lost, or are only late or doubled.
 *
 * Data are sent again a round trip after the first time, at the earliest: the sender has to hear of
 * the loss, by an acknowledgement of something behind it (RFC 8985, section 3).  So if data come
 * again sooner, a network doubled them, and if they come first behind later ones, these have
 * overtaken them.  Data that the receiver has acknowledged are not sent because of a loss either.
 *
 * An eighth of the least round trip apart, at the closest, a flow notes where its newest data are.
 * Data from there on came later.  The oldest note that is too young for a retransmission covers
 * everything between, however many packets are late or doubled.  It is the least round trip, since
 * a queue may have emptied after the last one was measured.
 *
 * A network doubles retransmissions, too.  Such a copy lies behind no note.  It follows its
 * original closely, so the last retransmission is remembered.
 *
 * Pure functions, also compiled for the host by tests.
 */
#ifndef TCPILOT_ORDER_H
#define TCPILOT_ORDER_H

#include "../../abi/watch.h"
#include "../num.h"

#define TP_NEWEST_MASK (TP_NEWEST - 1)
#define TP_ORDER_SHIFT 10 /* nanoseconds in the unit of times */
#define TP_NEWEST_SHIFT 3 /* parts of a round trip between two notes */
/* A microsecond of the round trip, less a quarter: it may get shorter. */
#define TP_NS_OF_SOON 750

/* Notes that data from `seq` on come now or later, and that data up to `acked` are acknowledged,
 * unless the last note is recent.  Returns whether it does. */
TP_INLINE int tp_note_newest(struct tp_newest_notes *o, __u32 seq, __u32 acked, __u64 now_ns,
			     __u32 min_rtt_us)
{
	__u32 at = (__u32)(now_ns >> TP_ORDER_SHIFT) | 1; /* 0 is no note */
	struct tp_newest *note = &o->newest[o->last & TP_NEWEST_MASK];

	if (note->at && at - note->at < min_rtt_us >> TP_NEWEST_SHIFT)
		return 0;
	note = &o->newest[++o->last & TP_NEWEST_MASK];
	note->at = at;
	note->seq = seq;
	note->acked = acked;
	return 1;
}

/* Whether all data from `seq` on came so short a time ago that they are not sent again yet. Without
 * a branch in the loop, so that the verifier follows one path. */
TP_INLINE int tp_is_young(const struct tp_newest_notes *o, __u32 seq, __u64 now_ns,
			  __u32 min_rtt_us)
{
	__u64 soon_ns = (__u64)min_rtt_us * TP_NS_OF_SOON, found = 0;
	__u32 now = now_ns >> TP_ORDER_SHIFT;

	for (__u32 i = 0; i < TP_NEWEST; i++) {
		const struct tp_newest *note = &o->newest[i];
		__u64 age_ns = (__u64)(__u32)(now - (note->at & ~1U)) << TP_ORDER_SHIFT;

		/* Each is 1: there is a note, not behind `seq`, of short ago. */
		found |= (note->at & 1) & ~((seq - note->seq) >> 31) & ((age_ns - soon_ns) >> 63);
	}
	return found != 0;
}

/* Notes a retransmission of data from `seq` on.  Returns 0 if it is a copy of the last one. */
TP_INLINE int tp_note_again(struct tp_newest_notes *o, __u32 seq, __u64 now_ns, __u32 min_rtt_us)
{
	__u64 soon_ns = (__u64)min_rtt_us * TP_NS_OF_SOON;
	__u32 now = (__u32)(now_ns >> TP_ORDER_SHIFT) | 1;

	if (o->again_at && o->again_seq == seq &&
	    (__u64)(now - o->again_at) << TP_ORDER_SHIFT < soon_ns)
		return 0;
	o->again_at = now;
	o->again_seq = seq;
	return 1;
}

#endif
