/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * quic.h - the measures of a flow of QUIC.
 *
 * Its acknowledgements are encrypted.  So a round does not end with the acknowledgement of a
 * packet, but when as much time has passed as a round trip takes:
 *
 *  - If the sender and the receiver spin (RFC 9000, section 17.4), the bit in the replies changes
 *    once in a round trip of the whole path.
 *  - Else a round trip is the handshake's, whose packets are timed from the
 *    queue's end, and the last packet's time in the queue.
 *
 * Both are looked at when a reply comes, as acknowledgements are.  A flow's window is then the
 * bytes of a round trip.  Its backlog in the queue is counted: bytes in minus bytes
 * out.  Each packet notes how many bytes of its flow are in with it, so when it comes out it
 * tells how many are out, also if others were missed.  If the queue cut a super-packet, its parts
 * are counted, and one super-packet at a time is marked by that count.
 */
#ifndef TCPILOT_WATCH_QUIC_H
#define TCPILOT_WATCH_QUIC_H

#include "clock.h"

/* So many changes in a row, each with so many replies before it, show that the bit spins: those who
 * do not spin choose it by chance, for each packet or once (section 17.4).  Chance does it once in
 * 2^21.  The handshake's round trip is no measure for it: busy ends take their time there. */
#define TP_SPIN_PROVED 7
#define TP_SPIN_ANSWERS 4
/* If it does not change for so much longer than expected, it spins no more. */
#define TP_SPIN_LOST_US 200000

static __always_inline struct tp_sojourn *tp_quic_out(const struct tp_watch_flow *flow)
{
	struct tp_sojourn *of = tp_sojourn_place(flow->id);

	return of && of->flow == flow->id ? of : NULL;
}

/* Stamps a packet of the handshake that is about to be queued, so that its time is that at which
 * it leaves. */
static __always_inline void tp_quic_stamp_handshake(struct tp_stamp *place, __u64 address,
						    __u32 slot, __u64 now_ns)
{
	place->at_ns = now_ns;
	place->flow = TP_FLOW_BUSY;
	place->drops = slot;
	place->twin = 0;
	place->tag = address;
}

/* A packet is about to be queued. */
static __noinline int tp_quic_queued(struct tp_watch_flow *flow, const struct tp_packet *p,
				     struct tp_stamp *place, __u64 now_ns)
{
	struct tp_sojourn *of;
	struct tp_quic *q;
	__u32 out;

	if (!flow || !p || !place)
		return 0;
	q = &flow->quic;
	of = tp_quic_out(flow);
	out = of ? of->out_bytes : 0;
	if (p->payload / p->packets > flow->segment_bytes)
		flow->segment_bytes = p->payload / p->packets;
	if (p->packets > 1) {
		if (!q->mark_ns) {
			q->mark_ns = now_ns;
			q->mark_bytes = q->in_bytes + 1;
			q->mark_drops = flow->drops;
		}
		if (!link.is_split)
			link.is_split = 1;
	}
	q->in_bytes += p->bytes;
	q->backlog_sum += q->in_bytes - out;
	q->backlog_samples++;
	place->at_ns = now_ns;
	place->flow = flow->id;
	place->drops = flow->drops;
	place->twin = 0;
	place->in_bytes = q->in_bytes;
	place->tag = p->address;
	return 0;
}

/* What a packet that has left would have had as its stamp, if it is a part of a super-packet that
 * the queue has cut.  Returns whether it ends the wait of the marked one. */
static __noinline int tp_quic_part_left(const struct tp_packet *p, struct tp_stamp *stamp)
{
	struct tp_watch_flow *flow;
	struct tp_sojourn *of;
	struct tp_quic *q;

	if (!p || !stamp)
		return 0;
	flow = tp_find_flow(&p->key);
	if (!flow || !(flow->flags & TP_FLOW_QUIC))
		return 0;
	q = &flow->quic;
	of = tp_quic_out(flow);
	stamp->in_bytes = (of ? of->out_bytes : 0) + p->bytes;
	if ((__s32)(q->in_bytes - stamp->in_bytes) < 0)
		stamp->in_bytes = q->in_bytes;
	if (!q->mark_ns || (__s32)(stamp->in_bytes - q->mark_bytes) < 0) {
		if (of)
			of->out_bytes = stamp->in_bytes;
		return 0;
	}
	stamp->at_ns = q->mark_ns;
	stamp->flow = flow->id;
	stamp->drops = q->mark_drops;
	q->mark_ns = 0;
	return 1;
}

/* The queue dropped a packet of the flow.  Returns whether its tail refused it. */
static __always_inline int tp_quic_dropped(struct tp_watch_flow *flow, const struct tp_packet *p,
					   const struct tp_stamp *stamp)
{
	struct tp_sojourn *of = tp_quic_out(flow);

	if (!stamp || stamp->in_bytes == flow->quic.in_bytes) {
		flow->quic.in_bytes -= p->bytes;
		return 1;
	}
	if (of)
		of->out_bytes = stamp->in_bytes;
	return 0;
}

/* A round trip by the handshake and the present queue; 0: not known. */
static __always_inline __u32 tp_quic_rtt_us(const struct tp_watch_flow *flow)
{
	struct tp_sojourn *of = tp_quic_out(flow);

	if (!flow->min_rtt_us)
		return TP_BLIND_INTERVAL_US;
	return flow->min_rtt_us + (of ? of->last_ns / TP_NS_PER_US : 0);
}

__noinline int tp_quic_round_ends(struct tp_watch_flow *flow, __u64 now_ns, __u32 rtt_us)
{
	__u64 passed_us, bytes;

	if (!flow)
		return 0;
	passed_us = tp_max64(tp_us_since(now_ns, flow->round_at_ns), 1);
	bytes = flow->now.in_bytes - flow->round.in_bytes;
	flow->rtt_us = rtt_us;
	flow->flight_max_bytes = tp_min64(bytes * rtt_us / passed_us, 1U << 31);
	return tp_any_round_ends(flow, now_ns);
}

/* The replies' bit.  Returns the time since it last changed, if it does now, and spins. */
static __always_inline __u32 tp_quic_spin(struct tp_watch_flow *flow, __u8 spin, __u64 now_ns)
{
	struct tp_quic *q = &flow->quic;
	__u32 since_us;

	if (spin == q->spin)
		return 0;
	q->spin = spin;
	if (flow->now.acks - q->edge_replies < TP_SPIN_ANSWERS) {
		q->edge_replies = flow->now.acks;
		q->edges = 0; /* chance, or a late packet */
		flow->flags &= ~TP_FLOW_SPIN;
		return 0;
	}
	since_us = tp_us_since(now_ns, q->edge_ns);
	q->edge_ns = now_ns;
	q->edge_replies = flow->now.acks;
	if (q->edges < TP_SPIN_PROVED) {
		q->edges++;
		return 0;
	}
	flow->flags |= TP_FLOW_SPIN;
	return since_us;
}

/* A reply has come. */
static __noinline int tp_quic_replied(struct tp_watch_flow *flow, const struct tp_packet *p)
{
	__u64 now_ns = bpf_ktime_get_ns();
	__u32 rtt_us, spun_us;

	if (!flow || !p)
		return 0;
	flow->flags |= TP_FLOW_ACKED;
	flow->now.acks++;
	if (p->flags & TP_QUIC_LONG)
		return 0;
	spun_us = tp_quic_spin(flow, p->flags & TP_QUIC_SPIN, now_ns);
	if (!spun_us && now_ns < flow->mark_after_ns)
		return 0;
	rtt_us = tp_quic_rtt_us(flow);
	if (flow->flags & TP_FLOW_SPIN) {
		__u32 since_us = tp_us_since(now_ns, flow->quic.edge_ns);

		if (!spun_us && since_us < rtt_us * 2 + TP_SPIN_LOST_US)
			return 0;
		if (!spun_us) {
			flow->flags &= ~TP_FLOW_SPIN;
			flow->quic.edges = 0;
		} else if (spun_us < rtt_us * 2 + TP_SPIN_LOST_US) {
			rtt_us = spun_us;
			flow->min_rtt_us = tp_min_nonzero(flow->min_rtt_us, spun_us);
		}
	} else if (tp_us_since(now_ns, flow->round_at_ns) < rtt_us) {
		return 0;
	}
	flow->mark_after_ns = now_ns + (__u64)flow->min_rtt_us * TP_NS_PER_US;
	return tp_quic_round_ends(flow, now_ns, rtt_us);
}

#endif
