/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * left.h - a packet leaves the device: it adds to the link's counts, and to its flow's times
 * in the queue if it was timed.
 */
#ifndef TCPILOT_WATCH_LEFT_H
#define TCPILOT_WATCH_LEFT_H

#include "clock.h"
#include "queued.h"
#include "quic.h"

/* A timed packet has left. */
static __always_inline void sojourned(const struct tp_stamp *stamp, __u64 now_ns)
{
	struct tp_sojourn *of = tp_sojourn_place(stamp->flow);
	__u64 waited_ns = now_ns > stamp->at_ns ? now_ns - stamp->at_ns : 0;
	__u32 ns = tp_min64(waited_ns, ~0U);

	if (!of)
		return;
	if (of->flow != stamp->flow) {
		if (stamp->flow == TP_FLOW_BUSY) {
			tp_quic_handshake_left(stamp->drops, stamp->at_ns, now_ns);
			return;
		}
		__builtin_memset(of, 0, sizeof(*of));
		of->flow = stamp->flow;
		of->min_ns = ~0U;
	}
	of->sum_ns += waited_ns;
	of->samples++;
	of->drops = stamp->drops;
	of->out_bytes = stamp->in_bytes;
	of->last_ns = ns;
	if (ns < of->min_ns)
		of->min_ns = ns;
	if (ns > of->max_ns)
		of->max_ns = ns;
	if (ns > of->interval_ns)
		of->interval_ns = ns;
	tp_link_waited(ns, now_ns);
	tp_run_goes_on(stamp->at_ns, now_ns);
}

/* A packet of UDP has left, but not as it was queued. */
static __noinline int split_udp_left(const struct tp_packet *p)
{
	struct tp_stamp marked = {};

	if (p && tp_quic_part_left(p, &marked))
		sojourned(&marked, bpf_ktime_get_ns());
	return 0;
}

/* A packet has left, but not as it was queued. */
static __noinline int split_left(struct sk_buff *skb, __u64 address)
{
	struct tp_stamp *stamp;
	struct tp_packet p;

	if (tp_parse(skb, skb->network_header, &p))
		return 0;
	if (p.key.protocol == IPPROTO_UDP)
		return split_udp_left(&p);
	p.address = address;
	stamp = tp_stamp_of(&p);
	if (stamp) {
		sojourned(stamp, bpf_ktime_get_ns());
		tp_unstamp(stamp);
	}
	return 0;
}

/* A packet leaves our device. */
static __always_inline void went_out(struct sk_buff *skb)
{
	struct tp_watch_totals *mine = tp_my_totals();
	__u64 address = tp_address(mine, TP_ASKS_OUT, skb);
	struct tp_stamp *stamp = tp_stamp_at(address);
	__u32 bytes = skb->len;

	mine->left_bytes += bytes;
	mine->out_packets += tp_packets_of(skb, bytes, bytes);
	if (!stamp || stamp->tag != address) {
		if (link.is_split)
			split_left(skb, address);
		return;
	}
	if (stamp->at_ns)
		sojourned(stamp, bpf_ktime_get_ns());
	else
		mine->out_other_packets++;
	tp_unstamp(stamp);
}

/* One call takes so many packets out of a queue: at most a driver's queue of bytes. */
#define TP_BULK_MOST 1024

struct tp_bulk {
	struct sk_buff *next;
};

static long next_went_out(__u32 number, struct tp_bulk *bulk)
{
	struct sk_buff *skb = bulk->next;

	if (!skb)
		return 1;
	went_out(skb);
	bulk->next = skb->next;
	return 0;
}

#endif
