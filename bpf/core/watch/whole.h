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
 * A round ends with an acknowledgement, and the next mark waits for the sender's share.  So the
 * marked packet is the sender's first after the acknowledgement, and a round has one exact
 * window, at no cost for the other packets.  The unacknowledged data here are never more than the
 * window, and without a share they are the window.  So the larger of the two counts.
 *
 * Pure functions, also compiled for the host by tests and by the laboratory.
 */
#ifndef TCPILOT_WHOLE_H
#define TCPILOT_WHOLE_H

#include "../num.h"

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

/* The window when a round's mark comes.  sent_seq: the end of what came here before it. */
TP_INLINE __u32 tp_whole_window(__u32 sent_seq, __u32 base_seq)
{
	return (__s32)(sent_seq - base_seq) > 0 ? sent_seq - base_seq : 0;
}

#endif
