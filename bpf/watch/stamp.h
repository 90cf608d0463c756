/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * stamp.h - how long packets wait in the queue.
 *
 * A packet about to be queued leaves its time in an array, at a place by the address of
 * its struct sk_buff.  When it comes out it is found there, and no header has to be read.
 *
 * Some queues cut a super-packet into new packets, with addresses of their own.  So the time of a
 * super-packet is also kept at a place by its flow and sequence number: the first of the new
 * packets has both.  Leaving packets are looked up so only while super-packets go in.
 *
 * An address is used again when its packet is gone.  So each packet going in clears the stamp of
 * an earlier one at its place: one seen going in, but not coming out.
 */
#ifndef TCPILOT_WATCH_STAMP_H
#define TCPILOT_WATCH_STAMP_H

#include "table.h"

/* If two fall on one place, the later one is timed.  A power of two. */
#define TP_STAMPS 65536
#define TP_STAMP_BITS 16
/* The places by sequence number of one flow are neighbours, for the cache's sake, and four
 * times as many as the timed packets of a round. */
#define TP_STAMPS_OF_A_FLOW 256

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, TP_STAMPS);
	__type(key, __u32);
	__type(value, struct tp_stamp);
} stamps SEC(".maps");

/* The times in the queue of packets that leave, by the flow's id: this needs no look-up
 * of the flow. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 16384); /* the loader sets it */
	__type(key, __u32);
	__type(value, struct tp_sojourn);
} sojourns SEC(".maps");

/* Who asks for an address: programs may interrupt each other. */
enum tp_asker {
	TP_ASKS_IN,
	TP_ASKS_OUT,
	TP_ASKS_DROP,
};

/* The address of a packet as a number.  The verifier allows no arithmetic with pointers, but
 * it forgets that what it reads from a map is one. */
static __always_inline __u64 tp_address(struct tp_watch_totals *mine, enum tp_asker asker,
					const struct sk_buff *skb)
{
	volatile __u64 *number = &mine->scratch[asker];

	*number = (__u64)skb;
	return *number;
}

static __always_inline struct tp_stamp *tp_stamp_at(__u64 address)
{
	__u32 place = (__u32)(address >> 6) * 0x9e3779b1U >> (32 - TP_STAMP_BITS);

	return bpf_map_lookup_elem(&stamps, &place);
}

/* The tag of a TCP packet: 64 bits that another packet has only by chance, and odd, as no
 * address is.  The upper half identifies the flow, the lower one the packet. */
static __always_inline __u64 tp_tag(const struct tp_packet *p)
{
	const struct tp_watch_key *key = &p->key;
	__u64 flow = (__u64)key->source[3] << 32 | key->destination[3];

	flow += ((__u64)key->source[1] << 32 | key->destination[1]) * 3;
	flow = (flow ^ flow >> 29) * 0x9e3779b97f4a7c15ULL;
	flow += (__u32)key->source_port << 16 | key->destination_port;
	flow = (flow ^ flow >> 32) * 0xd6e8feb86659fd93ULL;
	return (flow >> 32 << 32) | (p->seq ^ (__u32)flow) | 1;
}

static __always_inline __u32 tp_place_of_tag(__u64 tag)
{
	__u32 of_flow = tag >> 56, of_packet = ((__u32)tag >> 1) * 0x9e3779b1U >> 24;

	return of_flow * TP_STAMPS_OF_A_FLOW + of_packet;
}

static __always_inline struct tp_sojourn *tp_sojourn_place(__u32 flow)
{
	__u32 place = flow & (cfg.sojourns - 1);

	return bpf_map_lookup_elem(&sojourns, &place);
}

/* Notes the time of a super-packet under its sequence number, too. */
__noinline int tp_stamp_super(const struct tp_packet *p, struct tp_stamp *stamp)
{
	struct tp_stamp *twin;
	__u64 tag;
	__u32 place;

	if (!p || !stamp)
		return 0;
	tag = tp_tag(p);
	place = tp_place_of_tag(tag);
	twin = bpf_map_lookup_elem(&stamps, &place);
	if (!twin || twin == stamp)
		return 0;
	twin->at_ns = stamp->at_ns;
	twin->flow = stamp->flow;
	twin->drops = stamp->drops;
	twin->twin = 0;
	twin->tag = tag;
	stamp->twin = place + 1;
	if (!link.is_split)
		link.is_split = 1;
	return 0;
}

/* Takes both stamps of a packet away: by address, and by sequence number. */
static __always_inline void tp_unstamp(struct tp_stamp *stamp)
{
	__u32 place = stamp->twin - 1;
	struct tp_stamp *twin;

	stamp->tag = 0;
	if (!stamp->twin)
		return;
	twin = bpf_map_lookup_elem(&stamps, &place);
	if (twin && twin->tag & 1 && twin->at_ns == stamp->at_ns)
		twin->tag = 0;
}

/* The stamp of a packet, by its address, or by its sequence number if queues may have cut a
 * super-packet; 0: it has none. */
static __always_inline struct tp_stamp *tp_stamp_of(const struct tp_packet *p)
{
	struct tp_stamp *stamp = tp_stamp_at(p->address);
	__u32 place;
	__u64 tag;

	if (stamp && stamp->tag == p->address)
		return stamp;
	if (!link.is_split)
		return 0;
	tag = tp_tag(p);
	place = tp_place_of_tag(tag);
	stamp = bpf_map_lookup_elem(&stamps, &place);
	return stamp && stamp->tag == tag ? stamp : 0;
}

#endif
