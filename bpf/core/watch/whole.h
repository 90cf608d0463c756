/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * whole.h - what a sender has under way, seen from anywhere on the path.
 *
 * A device sees passing data until an acknowledgement passes back.  If the sender is far,
 * most of its window is elsewhere: data before the device, and acknowledgements behind it.  A
 * passing acknowledgement reaches the sender, and the sender's next data come here after the
 * sender's share of the round trip.  So when a packet comes, its sender knows the
 * acknowledgements seen here one such share ago, and has the data since then under way:
 *
 *	window(t) = sent(t) - acknowledged(t - share)
 *
 * The acknowledged data are noted twice:
 *
 *  - At a round's end, by an acknowledgement.  The next mark waits for the sender's share, so the
 *    marked packet is the sender's first after it, and shows an exact window.
 *  - With the notes of order.h, eight times in the least round trip.  One window a round is not
 *    enough: near the sender's own place a watch sees the most of all windows in a round, so a
 *    steady one looks steady.  A single window has chance in it, as by delayed acknowledgements.
 *
 * The unacknowledged data here are never more than the window, and without a share they are the
 * window.  So the largest of the three counts.
 *
 * Pure functions, also compiled for the host by tests and by the laboratory.
 */
#ifndef TCPILOT_WHOLE_H
#define TCPILOT_WHOLE_H

#include "../../abi/watch.h"
#include "../num.h"
#include "order.h"

/* No note waits to show a window. */
#define TP_NO_WINDOW (~0ULL)
/* A share below 1/2^6 of the round trip hides too little of the window to be waited for. */
#define TP_SHARE_SHIFT 6

/*
 * How long after a passing acknowledgement its sender's answer can come here.  The measured share
 * has some delay of the host and of the path in it, and a packet may be faster.  Looking too late
 * counts data that answer later acknowledgements, so a steady window seems to rise and fall;
 * looking too early misses a packet or two at most.  Hence a little earlier.
 */
#define TP_ANSWER_MARGIN_US 1000U
TP_INLINE __u32 tp_answer_us(__u32 share_us)
{
	return share_us - tp_min(tp_max(share_us >> 5, TP_ANSWER_MARGIN_US), share_us >> 1);
}

/*
 * The last byte acknowledged for the sender just before it heard of the round's last
 * acknowledgement: then its window was full, also if this one acknowledges many packets at once.
 * An acknowledgement of a filled hole passes packets received long before, no longer under way.
 *
 * acked_seq: the end of acknowledged data.  progress: bytes newly acknowledged.
 */
TP_INLINE __u32 tp_round_base(__u32 acked_seq, __s32 progress, __u32 max_seq)
{
	__u32 before = acked_seq - progress;

	return progress > 0 && (__u32)progress <= (max_seq - before) / 2 ? before : acked_seq;
}

/* The window when a packet comes.  sent_seq: the end of what came here before it.  base_seq: the
 * end of what was acknowledged here one share of the sender before. */
TP_INLINE __u32 tp_whole_window(__u32 sent_seq, __u32 base_seq)
{
	return (__s32)(sent_seq - base_seq) > 0 ? sent_seq - base_seq : 0;
}

/* When a note shows a window: then the sender has heard of all acknowledgements before it. */
TP_INLINE __u64 tp_window_at(const struct tp_newest *note, __u64 now_ns, __u32 up_us)
{
	__u32 age = (__u32)(now_ns >> TP_ORDER_SHIFT) - (note->at & ~1U);

	return now_ns - ((__u64)age << TP_ORDER_SHIFT) + (__u64)tp_answer_us(up_us) * 1000;
}

/* Whether so large a share of the round trip hides much of the window. */
TP_INLINE int tp_hides_window(__u32 up_us, __u32 min_rtt_us)
{
	return up_us >= min_rtt_us >> TP_SHARE_SHIFT;
}

/* A note was made.  Returns when the next window shows; awaited_ns: the same before the note. */
TP_INLINE __u64 tp_await_window(struct tp_newest_notes *o, __u64 awaited_ns, __u64 now_ns,
				__u32 up_us, __u32 min_rtt_us)
{
	if (awaited_ns != TP_NO_WINDOW || !tp_hides_window(up_us, min_rtt_us))
		return awaited_ns;
	o->waited = o->last;
	return now_ns + (__u64)tp_answer_us(up_us) * 1000;
}

/* The largest window of the notes that show one by now; 0: none.  One that showed long before this
 * packet is not of this round.  Unrolled, since 6.1's verifier refuses the loop that clang makes.
 */
TP_INLINE __u32 tp_noted_window(struct tp_newest_notes *o, __u32 sent_seq, __u64 now_ns,
				__u32 up_us, __u32 min_rtt_us)
{
	__u64 late_most_ns = (__u64)min_rtt_us * 1000 >> TP_NEWEST_SHIFT, at_ns;
	__u32 number = o->waited, most = 0;

	/* Later notes have taken the places of the oldest ones. */
	if (o->last - number >= TP_NEWEST)
		number = o->last - TP_NEWEST_MASK;
#pragma unroll
	for (__u32 i = 0; i < TP_NEWEST; i++) {
		const struct tp_newest *note = &o->newest[number & TP_NEWEST_MASK];

		if ((__s32)(o->last - number) < 0)
			break;
		at_ns = tp_window_at(note, now_ns, up_us);
		if (now_ns < at_ns)
			break;
		if (now_ns - at_ns < late_most_ns)
			most = tp_max(most, tp_whole_window(sent_seq, note->acked));
		number++;
	}
	o->waited = number;
	return most;
}

/* When the next note shows a window. */
TP_INLINE __u64 tp_next_window(const struct tp_newest_notes *o, __u64 now_ns, __u32 up_us)
{
	if ((__s32)(o->last - o->waited) < 0)
		return TP_NO_WINDOW;
	return tp_window_at(&o->newest[o->waited & TP_NEWEST_MASK], now_ns, up_us);
}

#endif
