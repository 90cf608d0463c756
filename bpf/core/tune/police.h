/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * police.h - is there a policer on the path?  The sign is two lossy intervals at one rate.
 *
 * This follows the long-term sampling described in BBR's commit message of 2016.
 * An interval goes from a loss to a loss and lasts 4 to 16 round trips.  If a
 * share of its packets was lost, and its rate is within 1/8 of the one before, the
 * mean of both is a policer's rate.  Two things differ, since this has to work for
 * any congestion control.  Less loss is enough, because cubic backs off when BBR
 * does not.  And the RTT must not be raised: a policer drops and does not queue,
 * while on a merely full link a loss comes with a full queue.
 */
#ifndef TCPILOT_POLICE_H
#define TCPILOT_POLICE_H

#include "../../abi/tune.h"
#include "../num.h"

#define TP_POLICE_LEAST_RTTS 4
#define TP_POLICE_MOST_RTTS 16
#define TP_POLICE_LOSS_SHIFT 6 /* 1/64 lost is lossy */
#define TP_POLICE_CLOSE_SHIFT 3
#define TP_POLICE_CLOSE_RATE 500 /* bytes per second, 4 kbit/s */

struct tp_police_now {
	__u64 now_us;
	__u64 bytes_acked;
	__u32 sent_packets;
	__u32 lost_packets;
	__u32 srtt_us;
	__u32 min_rtt_us;
};

TP_INLINE int tp_police_queues(const struct tp_police_now *n)
{
	return 4 * (__u64)n->srtt_us > 5 * (__u64)n->min_rtt_us + 4000;
}

TP_INLINE void tp_police_begin(struct tp_police *p, const struct tp_police_now *n)
{
	p->start_us = n->now_us;
	p->start_bytes = n->bytes_acked;
	p->start_sent = n->sent_packets;
	p->start_lost = n->lost_packets;
	p->round_trips = 0;
	p->sampling = 1;
}

/* At a loss: the policer's rate in bytes per second if the loss ends the second
 * interval, else 0. */
TP_INLINE __u64 tp_police_loss(struct tp_police *p, const struct tp_police_now *n)
{
	__u64 us = n->now_us - p->start_us, rate, last = p->rate, apart;
	__u32 sent = n->sent_packets - p->start_sent, lost = n->lost_packets - p->start_lost;

	if (!p->sampling) {
		tp_police_begin(p, n);
		return 0;
	}
	if (p->round_trips < TP_POLICE_LEAST_RTTS || !us)
		return 0;
	rate = (n->bytes_acked - p->start_bytes) * 1000000 / us;
	tp_police_begin(p, n);
	if (((__u64)lost << TP_POLICE_LOSS_SHIFT) < sent || tp_police_queues(n) || !rate) {
		p->rate = 0;
		return 0;
	}
	p->rate = rate;
	apart = rate > last ? rate - last : last - rate;
	if (!last || (apart > last >> TP_POLICE_CLOSE_SHIFT && apart > TP_POLICE_CLOSE_RATE))
		return 0;
	p->sampling = 0;
	p->rate = 0;
	return (rate + last) / 2;
}

/* At each round trip: an interval without a loss for too long is dropped. */
TP_INLINE void tp_police_round_trip(struct tp_police *p)
{
	if (p->sampling && ++p->round_trips > TP_POLICE_MOST_RTTS) {
		p->sampling = 0;
		p->rate = 0;
	}
}

#endif
