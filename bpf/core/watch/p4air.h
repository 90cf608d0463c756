/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * p4air.h - P4air's rules as published, on its own clock: an interval is the
 * round-trip time that the handshake showed, and does not change.
 *
 * Turkovic and Kuipers, "P4air: Increasing Fairness among Competing Congestion
 * Control Algorithms", ICNP 2020, doi 10.1109/ICNP49622.2020.9259405, and its
 * slides.  If they leave something open, the code's comments and
 * docs/use/watch.md say what is done here.  One thing is left out: when a flow
 * reaches its share in slow start, P4air drops a packet on purpose; this only observes.
 *
 * Pure functions, also compiled for the host by tests.
 */
#ifndef TCPILOT_P4AIR_H
#define TCPILOT_P4AIR_H

#include "../../abi/watch.h"
#include "../num.h"

#define TP_P4AIR_MLD 4	/* rises before delay-based is loss-delay */
#define TP_P4AIR_MPL 12 /* and before loss-delay is purely loss-based */
#define TP_P4AIR_MM 4	/* growths of the rate before any is model-based */
#define TP_P4AIR_MOVES 4
/* P4air knows ants by their protocol.  Among TCP flows, so few packets per
 * interval make an ant. */
#define TP_P4AIR_ANT_PACKETS 4

/* A long flow's share of the output in packets: bytes/s × s / bytes. */
TP_INLINE __u32 tp_p4air_bdp_packets(__u64 link_rate, __u32 long_flows, __u32 rtt_us,
				     __u32 packet_bytes)
{
	__u64 bytes = link_rate * rtt_us / 1000000;

	if (!packet_bytes)
		return 0;
	return tp_min64(bytes / (long_flows ? long_flows : 1) / packet_bytes, ~0U);
}

/* A slow start ends with the first loss, or when the packets of a round trip
 * stop growing, or reach the flow's share of the path. */
TP_INLINE int tp_p4air_start_ended(const struct tp_p4air *flow, __u32 packets, __u32 dropped,
				   __u32 bdp_packets)
{
	return dropped || packets <= flow->packets_before ||
	       (bdp_packets && packets >= bdp_packets);
}

TP_INLINE void tp_p4air_move(struct tp_p4air *flow, __u8 group)
{
	if (flow->group == group || flow->reclassified >= TP_P4AIR_MOVES)
		return;
	flow->group = group;
	flow->reclassified++;
	flow->group_since = flow->intervals;
	flow->aggressiveness = 0;
	flow->bandwidth = 0;
}

/*
 * The counters of a long flow.  The queue "rose" if it grew by at least 1 %
 * over the interval before.  If it did not, or if the rate fell to less than
 * 8/9, the count starts again.  The bandwidth estimator counts growths to 9/8 or
 * more since the flow's last move, and, which is our reading, since the last
 * loss: every flow grows by more than an eighth when it recovers, and four
 * recoveries would make all of them model-based.
 */
TP_INLINE void tp_p4air_count(struct tp_p4air *flow, __u32 packets, __u32 dropped, __u32 queue_us)
{
	__u64 before = flow->queue_before_us;
	int rose = queue_us > before && (__u64)queue_us * 100 >= before * 101;

	if (rose && (__u64)packets * 9 >= (__u64)flow->packets_before * 8)
		flow->aggressiveness += flow->aggressiveness < 255;
	else
		flow->aggressiveness = 0;
	if (dropped)
		flow->bandwidth = 0;
	else if (flow->packets_before && (__u64)packets * 8 >= (__u64)flow->packets_before * 9)
		flow->bandwidth += flow->bandwidth < 255;
}

TP_INLINE void tp_p4air_decide(struct tp_p4air *flow)
{
	if (flow->group != TP_GROUP_MODEL && flow->bandwidth >= TP_P4AIR_MM)
		tp_p4air_move(flow, TP_GROUP_MODEL);
	else if (flow->group == TP_GROUP_DELAY && flow->aggressiveness >= TP_P4AIR_MLD)
		tp_p4air_move(flow, TP_GROUP_LOSS_DELAY);
	else if (flow->group == TP_GROUP_LOSS_DELAY && flow->aggressiveness >= TP_P4AIR_MPL)
		tp_p4air_move(flow, TP_GROUP_LOSS);
}

/* An interval has ended.  The first only sets the figures that the next is
 * compared with. */
TP_INLINE void tp_p4air_interval(struct tp_p4air *flow, __u32 packets, __u32 dropped,
				 __u32 queue_us, __u32 bdp_packets)
{
	flow->intervals++;
	if (flow->group == TP_GROUP_UNKNOWN || flow->group == TP_GROUP_ANT) {
		flow->group = packets > TP_P4AIR_ANT_PACKETS ? TP_GROUP_MOUSE : TP_GROUP_ANT;
		flow->group_since = flow->intervals;
	} else if (flow->group == TP_GROUP_MOUSE) {
		if (tp_p4air_start_ended(flow, packets, dropped, bdp_packets)) {
			flow->group = TP_GROUP_DELAY;
			flow->group_since = flow->intervals;
		}
	} else {
		tp_p4air_count(flow, packets, dropped, queue_us);
		tp_p4air_decide(flow);
	}
	flow->packets_before = packets;
	flow->queue_before_us = queue_us;
}

#endif
