/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * quic_handshake.h - finds QUIC among UDP, by its handshake.
 *
 * All of QUIC's packets but those of the handshake are encrypted, and look like any UDP.  So a
 * conversation is QUIC if it begins with a long header of version 1 (RFC 9000, section 17.2.2) or
 * 2 (RFC 9369, section 3.2), in a datagram as long as QUIC demands (section 14.1), and the other
 * side replies.  The port does not matter.  Each version has a type of its own for this packet.
 *
 * Candidates have a place by their key in an array, and no list.  One
 * with a recent reply keeps its place, so a flood of first packets pushes only others out.
 * A conversation enters the table of flows when data and replies follow.  Other UDP costs the
 * look-up without a result and, if its first byte could be QUIC's, a comparison.
 */
#ifndef TCPILOT_WATCH_QUIC_HANDSHAKE_H
#define TCPILOT_WATCH_QUIC_HANDSHAKE_H

#include "flows.h"

#define TP_QUIC_LONG 0x80
#define TP_QUIC_FIXED 0x40
#define TP_QUIC_TYPE 0x30 /* of a long header */
#define TP_QUIC_SPIN 0x20 /* of a short header */
#define TP_QUIC_V1 0x00000001U
#define TP_QUIC_V2 0x6b3343cfU
#define TP_QUIC_TYPE_V1 0x00 /* Initial */
#define TP_QUIC_TYPE_V2 0x10
#define TP_QUIC_FIRST_BYTES 1200
#define TP_QUIC_ID_LEAST 8 /* of a client's random connection ID (section 7.2) */
#define TP_QUIC_ID_MOST 20

/* Such a payload is taken for data: acknowledgements are shorter. */
#define TP_QUIC_DATA_BYTES 200
#define TP_QUIC_DATA_PACKETS 8
#define TP_QUIC_REPLIES 2
/* A conversation is forgotten after so long without a packet ... */
#define TP_QUIC_FORGET_NS 30000000000ULL
/* ... and one with a reply keeps its place for so long. */
#define TP_QUIC_KEEP_NS 3000000000ULL
/* An older flow does not begin, so an Initial packet begins another connection. */
#define TP_QUIC_REUSED_NS 3000000000ULL

#define TP_QUIC_HANDSHAKES 4096
#define TP_QUIC_HANDSHAKE_BITS 12

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, TP_QUIC_HANDSHAKES);
	__type(key, __u32);
	__type(value, struct tp_quic_handshake);
} quic_handshakes SEC(".maps");

static __always_inline int tp_is_quic_long(__u8 first)
{
	return (first & (TP_QUIC_LONG | TP_QUIC_FIXED)) == (TP_QUIC_LONG | TP_QUIC_FIXED);
}

/* Whether a packet is the first of a connection, as far as its header shows it. */
static __always_inline int tp_is_quic_initial(const struct tp_packet *p)
{
	__u8 type = p->flags & TP_QUIC_TYPE;

	if (!tp_is_quic_long(p->flags) || p->payload < TP_QUIC_FIRST_BYTES ||
	    p->id_length < TP_QUIC_ID_LEAST || p->id_length > TP_QUIC_ID_MOST)
		return 0;
	return (p->version == bpf_htonl(TP_QUIC_V1) && type == TP_QUIC_TYPE_V1) ||
	       (p->version == bpf_htonl(TP_QUIC_V2) && type == TP_QUIC_TYPE_V2);
}

/* Whether it may be the reply to one: the reply's header may be unreadable here. */
static __always_inline int tp_is_quic_reply(const struct tp_packet *p)
{
	return p->flags == TP_FIRST_UNREAD ||
	       (tp_is_quic_long(p->flags) &&
		(p->version == bpf_htonl(TP_QUIC_V1) || p->version == bpf_htonl(TP_QUIC_V2)));
}

static __always_inline struct tp_quic_handshake *tp_quic_handshake_at(__u32 slot)
{
	return bpf_map_lookup_elem(&quic_handshakes, &slot);
}

static __always_inline __u32 tp_quic_slot(const struct tp_watch_key *key)
{
	return tp_hash_flow(key) >> (32 - TP_QUIC_HANDSHAKE_BITS);
}

static __always_inline int tp_is_quic_of(const struct tp_quic_handshake *s,
					 const struct tp_watch_key *key)
{
	const tp_word *a = (const tp_word *)&s->key, *b = (const tp_word *)key;

	return s->first_ns && a[1] == b[1] && a[3] == b[3] && a[4] == b[4] && a[0] == b[0] &&
	       a[2] == b[2];
}

static __always_inline __u32 tp_quic_part_us(__u64 now_ns, __u64 then_ns)
{
	__u64 us = now_ns > then_ns ? (now_ns - then_ns) / 1000 : 0;

	return (us < ~0U ? us : ~0U - 1) + 1;
}

/* A connection begins. */
static __always_inline void tp_quic_first(struct tp_quic_handshake *s, const struct tp_packet *p,
					  __u32 leaving, __u64 now_ns)
{
	__builtin_memset(s, 0, sizeof(*s));
	s->key = p->key;
	s->first_ns = now_ns;
	s->is_server = !leaving;
}

/* The packets behind the first.  Returns whether it is the first reply. */
static __always_inline int tp_quic_next(struct tp_quic_handshake *s, const struct tp_packet *p,
					__u32 leaving, __u64 now_ns)
{
	int is_reply = s->is_server == leaving;
	__u32 *part = leaving ? &s->up_us : &s->down_us;
	__u64 then_ns = is_reply ? s->first_ns : s->second_ns;

	if (!s->second_ns) {
		if (!is_reply || !tp_is_quic_reply(p))
			return 0;
		s->second_ns = now_ns;
		*part = tp_quic_part_us(now_ns, then_ns);
		return 1;
	}
	if (!is_reply && !*part)
		*part = tp_quic_part_us(now_ns, then_ns);
	if (!leaving)
		s->replies++;
	else if (p->payload / p->packets >= TP_QUIC_DATA_BYTES)
		s->packets += p->packets;
	return 0;
}

/*
 * Looks at a packet of UDP without a flow.  Returns the slot of its conversation; -1: it is
 * not QUIC.  *is_timed: the packet is one of the two timing the path.
 */
static __noinline __attribute__((unused)) int tp_quic_look(const struct tp_packet *p, __u32 leaving,
							   __u64 now_ns, __u32 *is_timed)
{
	struct tp_quic_handshake *s;
	int is_first, is_known;
	__u32 slot;

	if (!p || !is_timed || !(p->flags & TP_QUIC_FIXED))
		return -1;
	slot = tp_quic_slot(&p->key);
	s = tp_quic_handshake_at(slot);
	if (!s)
		return -1;
	is_known = tp_is_quic_of(s, &p->key) && now_ns < s->last_ns + TP_QUIC_FORGET_NS;
	is_first = tp_is_quic_initial(p);
	if (is_known && !(is_first && !s->second_ns && s->is_server != leaving)) {
		*is_timed = tp_quic_next(s, p, leaving, now_ns);
	} else if (!is_first ||
		   (!is_known && s->second_ns && now_ns < s->last_ns + TP_QUIC_KEEP_NS)) {
		return -1;
	} else {
		tp_quic_first(s, p, leaving, now_ns);
		*is_timed = 1;
	}
	s->last_ns = now_ns;
	return slot;
}

/* Whether a conversation may enter the table of flows. */
static __always_inline int tp_is_quic_proved(const struct tp_quic_handshake *s)
{
	return s->packets >= TP_QUIC_DATA_PACKETS && s->replies >= TP_QUIC_REPLIES && s->up_us &&
	       s->down_us;
}

/* A timing packet has left the queue: its time is now. */
static __always_inline void tp_quic_handshake_left(__u32 slot, __u64 at_ns, __u64 now_ns)
{
	struct tp_quic_handshake *s = tp_quic_handshake_at(slot);

	if (!s)
		return;
	if (s->first_ns == at_ns)
		s->first_ns = now_ns;
	else if (s->second_ns == at_ns)
		s->second_ns = now_ns;
}

/* Makes a new flow QUIC's, if its handshake was seen. */
static __always_inline int tp_take_quic(struct tp_watch_flow *flow)
{
	struct tp_quic_handshake *s = tp_quic_handshake_at(tp_quic_slot(&flow->key));

	if (!s || !tp_is_quic_of(s, &flow->key))
		return 0;
	flow->flags |= TP_FLOW_QUIC;
	flow->up_us = s->up_us;
	if (s->up_us && s->down_us) {
		flow->flags |= TP_FLOW_HANDSHAKE;
		flow->handshake_rtt_us = s->up_us + s->down_us;
		flow->min_rtt_us = flow->handshake_rtt_us;
	}
	s->first_ns = 0; /* the place is free again */
	return 1;
}

#endif
