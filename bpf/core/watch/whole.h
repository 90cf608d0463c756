/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * whole.h - a sender's data under way, seen from anywhere on the path.
 *
 * A device sees the data past it and not acknowledged there.  If the sender is far, most of its
 * window is elsewhere: data before the device, and acknowledgements behind it.  A passing
 * acknowledgement reaches the sender, and the sender's answer comes here after the sender's share
 * of the round trip.  So when a packet comes, its sender has heard of everything acknowledged here
 * one share earlier, and has under way the data beyond that:
 *
 *	window(t) = sent(t) - acknowledged(t - share)
 *
 * A round ends with an acknowledgement, and the next mark waits for the sender's share.  So the
 * marked packet is the sender's first after that acknowledgement, and a round has one exact
 * window, at no cost for the other packets.  The most data unacknowledged here are never more than
 * the window, and without a share they are the window.  So the larger of the two counts.
 *
 * Pure functions, also compiled for the host by tests and by the laboratory.
 */
#ifndef TCPILOT_WHOLE_H
#define TCPILOT_WHOLE_H

#include "../num.h"

/*
 * What the sender took for acknowledged just before it heard of the acknowledgement that ended a
 * round: then its window was full, also if that one acknowledges many packets at once.  But one
 * that fills a hole passes packets which arrived long before, and were under way no more.
 *
 * acked_seq: up to which this one acknowledges.  progress: bytes that it does for the first time.
 */
TP_INLINE __u32 tp_round_base(__u32 acked_seq, __s32 progress, __u32 max_seq)
{
	__u32 before = acked_seq - progress;

	return progress > 0 && (__u32)progress <= (max_seq - before) / 2 ? before : acked_seq;
}

/* The window when a round's mark comes.  sent_seq: the end of what came here before it. */
TP_INLINE __u32 tp_whole_window(__u32 sent_seq, __u32 base_seq)
{
	return (__s32)(sent_seq - base_seq) > 0 ? sent_seq - base_seq : 0;
}

#endif
