/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * capture.c - the programs of `tcpilot watch` on the packets of a capture.
 *
 * The programs are compiled as they are, for the host: bpf/ has what they need of libbpf, maps.c
 * the maps.  This file gives them each packet as a struct sk_buff, and what a capture lacks:
 *
 *  - A direction.  Each packet goes in, for its own flow, and comes back, for the flow of the other
 *    direction.  So the flows of both directions are judged.
 *  - The packet behind a queue.  A capture shows each packet once, and the queue may be anywhere
 *    on the path.  What a round trip takes beyond the flow's least one is taken for the time in it.
 *    So the queue is the path's, and each round's share of the sender is measured, by TCP's
 *    timestamps: it grows with a queue before the capture's place.
 *  - A link.  Flows to one address are assumed to share a link.
 *  - Segments.  Offloads make super-packets of them before a capture.  The SYNs show their size.
 */
#include <stddef.h>
#include "bpf/bpf_helpers.h"

struct tp_watch_flow;
static void path_waited(struct tp_watch_flow *flow, __u64 now_ns);
#define TP_PATH_WAITED(flow, now_ns) path_waited(flow, now_ns)
#define TP_EACH_SHARE 1

/* Renames the programs' globals: some of their names are functions of libc. */
#define cfg tp_native_cfg
#define flows tp_native_flows
#define handshakes tp_native_handshakes
#define last_id tp_native_last_id
#define link tp_native_link
#define marks tp_native_marks
#define model tp_native_model
#define candidates tp_native_candidates
#define quic_model tp_native_quic_model
#define quic_handshakes tp_native_quic_handshakes
#define records tp_native_records
#define sojourns tp_native_sojourns
#define stamps tp_native_stamps
#define totals tp_native_totals
#define extrapolation_model tp_native_extrapolation_model
#define work tp_native_work
#define _license tp_native_license

#include "watch/watch.bpf.c"

#define NS_PER_S 1000000000ULL
/* So much of a packet is kept: its headers. */
#define HEAD_BYTES 512
/* Before each packet, as in the kernel: an offset of 0 means no header. */
#define ROOM_BYTES 64
/* The programs may read past the end of a packet, as the kernel's memory goes on there. */
#define BEHIND_BYTES 64
/* The payload of a segment if no SYN showed more or less, and TCP has no options. */
#define USUAL_SEGMENT 1460
/* A shorter wait is the ends' own time: clocks have ticks, and processors other work. */
#define WAIT_LEAST_US 1000
/* Nor does a round trip with fewer packets under way show a queue. */
#define WINDOW_LEAST 4
#define TCP_OPTION_SEGMENT 2 /* RFC 9293, section 3.2 */

struct tp_captured {
	const __u8 *data; /* from the link header on */
	__u64 at_ns;
	__u32 bytes;	  /* of data */
	__u32 length;	  /* on the wire */
	__u32 network_at; /* offset of the IP header */
	__u32 device;	  /* at which it was captured */
	__u16 protocol;	  /* of Ethernet, host byte order */
	__u16 pad[3];
};

/* The packet's flow was first seen at another device of the capture: see enum tp_parsed. */
#define TP_ELSEWHERE 3

/* What a device's link is to a live watch. */
struct path {
	struct tp_watch_link link;
	__u64 rate_at_ns;
	__u64 rate_bytes;
	__u64 epoch_ends_ns;
	struct tp_window64 rate;
};

#define RATE_NS (NS_PER_S / 10)
#define RATE_EPOCH_NS (10 * NS_PER_S)

struct address {
	__u32 word[4];
};

static TP_LRU(paths, struct address, struct path, 16384);
/* By the key of the data: the least maximum segment size offered by the two ends. */
static TP_LRU(segments, struct tp_watch_key, __u64, 16384);
/* By the same key: the first device to see the flow. */
static TP_LRU(first_devices, struct tp_watch_key, __u64, 16384);

__u64 tp_native_now_ns;

static struct {
	__u8 head[ROOM_BYTES + HEAD_BYTES + BEHIND_BYTES];
	struct skb_shared_info shared;
} packet;
static __u32 readable_bytes; /* of head */
static struct net_device device = {.ifindex = 1};

long bpf_probe_read_kernel(void *to, __u32 bytes, const void *from)
{
	size_t at = (const __u8 *)from - packet.head;

	if (at > readable_bytes || bytes > readable_bytes - at)
		return -1;
	memcpy(to, from, bytes);
	return 0;
}

/* What the last round of a flow showed, by the flow's place. */
struct before {
	__u32 flow; /* its id */
	__u32 wait_us;
	__u32 again_packets; /* in it */
	__u32 pad;
};
static struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 16384);
	__type(key, __u32);
	__type(value, struct before);
} befores;

/* The time in a queue, judged by a round trip.  Slow ends make a round trip long, too: a receiver
 * delays an acknowledgement, or a server computes.  But this is rare in two rounds in a row with
 * several packets under way. */
static __u32 wait_of(const struct tp_watch_flow *flow, struct before *before)
{
	__u32 us = flow->rtt_us > flow->min_rtt_us ? flow->rtt_us - flow->min_rtt_us : 0;
	int is_long = us >= WAIT_LEAST_US && before->wait_us >= WAIT_LEAST_US;

	before->wait_us = us;
	return is_long && flow->flight_max_bytes >= WINDOW_LEAST * flow->segment_bytes ? us : 0;
}

/* A live watch sees a loss in two rounds: the drop, and a round trip later the retransmission.
 * A capture shows the second.  If there is a queue, the drop counts in the round behind. */
static __u32 drops_of(const struct tp_watch_flow *flow, struct before *before, __u32 wait_us)
{
	__u32 lost = wait_us ? before->again_packets : 0;

	before->again_packets = flow->now.again_packets - flow->round.again_packets;
	return flow->now.dropped_packets + lost;
}

/* Without timestamps a queue before this place does not show. */
static void forget_share(struct tp_watch_flow *flow)
{
	flow->flags &= ~TP_FLOW_SHARE;
	flow->verdict.group = TP_GROUP_UNKNOWN;
	flow->verdict.name = TP_NO_CLASS;
	flow->verdict.confidence = flow->verdict.group_confidence = 0;
}

/* A round of this flow has ended. */
static void path_waited(struct tp_watch_flow *flow, __u64 now_ns)
{
	__u32 place = flow - flows.value, wait_us;
	struct before *before = bpf_map_lookup_elem(&befores, &place);
	struct tp_stamp stamp = {.flow = flow->id, .in_bytes = flow->quic.in_bytes};

	if (!before)
		return;
	if (before->flow != flow->id)
		*before = (struct before){.flow = flow->id};
	wait_us = wait_of(flow, before);
	stamp.drops = drops_of(flow, before, wait_us);
	stamp.at_ns = now_ns - (__u64)wait_us * TP_NS_PER_US;
	sojourned(&stamp, now_ns);
	/* A capture does not show waiting bytes. The rate and a packet's waiting time stand for
	 * them. */
	flow->quic.backlog_samples = 0;
	if (flow->echoes == TP_ECHOES_NONE && flow->up_us > flow->handshake_rtt_us / 2)
		forget_share(flow);
}

/* As many entries as a watch in the kernel has, unless few flows are wanted: their tables are made
 * sooner. */
static __u32 at_most(__u32 entries)
{
	__u32 wanted = tp_max(cfg.flows * 4, 1024);

	return cfg.flows < entries / 4 ? tp_min(wanted, entries) : entries;
}

static void make_tables(void)
{
	TP_MAKE(&flows, cfg.flows);
	TP_MAKE(&flow_buckets, cfg.buckets);
	TP_MAKE(&sojourns, cfg.sojourns);
	TP_MAKE(&befores, cfg.flows);
	TP_MAKE(&stamps, TP_STAMPS);
	TP_MAKE(&candidates, at_most(16384));
	TP_MAKE(&handshakes, at_most(8192));
	TP_MAKE(&quic_handshakes, TP_QUIC_HANDSHAKES);
	TP_MAKE(&work, 1);
	TP_MAKE(&paths, at_most(16384));
	TP_MAKE(&segments, at_most(16384));
	TP_MAKE(&first_devices, at_most(16384));
}

void tp_capture_stop(void)
{
	TP_FREE(&flows);
	TP_FREE(&flow_buckets);
	TP_FREE(&sojourns);
	TP_FREE(&befores);
	TP_FREE(&stamps);
	TP_FREE(&candidates);
	TP_FREE(&handshakes);
	TP_FREE(&quic_handshakes);
	TP_FREE(&work);
	TP_FREE(&paths);
	TP_FREE(&segments);
	TP_FREE(&first_devices);
}

/* A model without trees has nothing in its tables. */
static void take_model(struct tp_model *to, const struct tp_model *from)
{
	memcpy(to, from, from->trees ? sizeof(*to) : offsetof(struct tp_model, node));
}

/* Returns -1 if there is no memory. */
int tp_capture_start(const struct tp_watch_config *config, const struct tp_model *of_tcp,
		     const struct tp_model *of_extrapolation, const struct tp_model *of_quic)
{
	cfg = *config;
	take_model(&model, of_tcp);
	take_model(&extrapolation_model, of_extrapolation);
	take_model(&quic_model, of_quic);
	memset(&link, 0, sizeof(link));
	memset(totals, 0, sizeof(totals));
	last_id = 0;
	make_tables();
	if (flows.value && flow_buckets.value && sojourns.value && stamps.value &&
	    candidates.value && handshakes.value && quic_handshakes.value && work.value &&
	    befores.value && paths.value && segments.value && first_devices.value)
		return 0;
	tp_capture_stop();
	return -1;
}

/* The watch's own of the path to an address.  Only flows in the table have one. */
static struct path *path_to(const struct tp_watch_key *key)
{
	static const struct path fresh;
	struct path *found;

	if (!tp_find_flow(key))
		return NULL;
	found = bpf_map_lookup_elem(&paths, key->destination);
	if (found)
		return found;
	bpf_map_update_elem(&paths, key->destination, &fresh, BPF_ANY);
	return bpf_map_lookup_elem(&paths, key->destination);
}

static void enter(const struct path *path)
{
	__u64 taken = link.taken;

	if (path)
		link = path->link;
	else
		memset(&link, 0, sizeof(link));
	link.taken = taken;
	link.ifindex = device.ifindex;
	link.device = (unsigned long)&device;
}

static void leave(struct path *path)
{
	if (path)
		path->link = link;
}

/* Counts bytes for the highest recent rate, over a tenth of a second. */
static void count_rate(struct path *path, __u32 bytes)
{
	__u64 now_ns = tp_native_now_ns, passed_ns = now_ns - path->rate_at_ns;

	if (!path->rate_at_ns) {
		path->rate_at_ns = now_ns;
		return;
	}
	path->rate_bytes += bytes;
	if (passed_ns < RATE_NS)
		return;
	if (now_ns >= path->epoch_ends_ns) {
		path->rate.previous =
		    now_ns < path->epoch_ends_ns + RATE_EPOCH_NS ? path->rate.current : 0;
		path->rate.current = 0;
		path->epoch_ends_ns = now_ns + RATE_EPOCH_NS;
	}
	path->rate.current =
	    tp_max64(path->rate.current, path->rate_bytes * 1000000 / (passed_ns / TP_NS_PER_US));
	path->link.rate = tp_max64(path->rate.current, path->rate.previous);
	path->rate_at_ns = now_ns;
	path->rate_bytes = 0;
}

#define IPV6_NEXT 6 /* offset of the next header's number */
#define IPV6_HEADER 40

/* Offset of TCP's header from the head; 0: it lies behind other headers of IPv6. */
static __u32 tcp_at(__u32 network_at)
{
	const __u8 *ip = packet.head + network_at;

	if (ip[0] >> 4 == 4)
		return network_at + (ip[0] & 15) * 4;
	return ip[IPV6_NEXT] == IPPROTO_TCP ? network_at + IPV6_HEADER : 0;
}

/* Bytes of its options. */
static __u32 options_of(__u32 tcp)
{
	__u32 header = (packet.head[tcp + 12] >> 4) * 4;

	return tcp && header > 20 ? header - 20 : 0;
}

/* The maximum segment size offered by a SYN; 0: none. */
static __u32 offered_segment(__u32 tcp)
{
	__u32 end = tcp + 20 + options_of(tcp);

	for (__u32 at = tcp + 20; tcp && at + 4 <= end && end <= readable_bytes;) {
		__u8 kind = packet.head[at], size = packet.head[at + 1];

		if (kind == TCP_OPTION_SEGMENT)
			return packet.head[at + 2] << 8 | packet.head[at + 3];
		if (!kind)
			break;
		at += kind == 1 ? 1 : tp_max(size, 2);
	}
	return 0;
}

/* Notes it for the flows of both directions. */
static void note_segment(const struct tp_packet *p, __u32 network_at)
{
	const struct tp_watch_key back = tp_reverse(&p->key), *keys[] = {&p->key, &back};
	__u64 offered = offered_segment(tcp_at(network_at));

	for (int i = 0; i < 2; i++) {
		const __u64 *known = bpf_map_lookup_elem(&segments, keys[i]);
		__u64 least = tp_min_nonzero(known && p->flags & TCP_ACK ? *known : 0, offered);

		bpf_map_update_elem(&segments, keys[i], &least, BPF_ANY);
	}
}

/* The payload of a packet on the wire; 0: it is this one. */
static __u32 segment_of(const struct tp_packet *p, __u32 network_at)
{
	const __u64 *offered = bpf_map_lookup_elem(&segments, &p->key);
	__u32 options = options_of(tcp_at(network_at));
	__u32 segment = offered && *offered ? *offered : USUAL_SEGMENT;

	if (p->key.protocol != IPPROTO_TCP || segment < 2 * options || p->payload <= segment)
		return 0;
	return segment - options;
}

static void fill(struct sk_buff *skb, const struct tp_captured *c)
{
	__u32 bytes = tp_min(c->bytes, HEAD_BYTES);

	memcpy(packet.head + ROOM_BYTES, c->data, bytes);
	memset(packet.head + ROOM_BYTES + bytes, 0, sizeof(packet.head) - ROOM_BYTES - bytes);
	readable_bytes = ROOM_BYTES + bytes;
	if (bytes == c->length || bytes == HEAD_BYTES)
		readable_bytes += BEHIND_BYTES;
	memset(skb, 0, sizeof(*skb));
	skb->dev = &device;
	skb->head = packet.head;
	skb->data = packet.head + ROOM_BYTES;
	skb->len = c->length;
	skb->tail = ROOM_BYTES + bytes;
	skb->end = offsetof(typeof(packet), shared);
	skb->network_header = ROOM_BYTES + c->network_at;
	skb->protocol = bpf_htons(c->protocol);
}

/* The length on the wire shows that a packet is no super-packet: see tp_packets_of(). */
static void cut(struct sk_buff *skb, __u32 segment)
{
	struct qdisc_skb_cb cb = {.pkt_len = skb->len + (segment != 0)};

	packet.shared.gso_size = segment;
	packet.shared.gso_segs = 0;
	memcpy(skb->cb, &cb, sizeof(cb));
}

/* The packet comes back: of the flow whose data go the other way. */
static void comes_back(struct sk_buff *skb, const struct tp_captured *c,
		       const struct tp_watch_key *key)
{
	const struct tp_watch_key back = tp_reverse(key);
	struct path *path = path_to(&back);

	skb->data = skb->head + skb->network_header;
	skb->len = c->length - c->network_at;
	enter(path);
	watch_back(skb);
	leave(path);
}

/* The packet goes in: of its own flow. */
static void goes_in(struct sk_buff *skb, const struct tp_packet *p)
{
	struct path *path = path_to(&p->key);

	if (path)
		count_rate(path, p->bytes);
	enter(path);
	watch_in(skb);
	leave(path);
}

/* Whether this packet is a copy: a forwarding host has it at two devices, and a capture of both
 * shows it twice. */
static int is_elsewhere(const struct tp_watch_key *key, __u64 seen_at)
{
	const __u64 *first = bpf_map_lookup_elem(&first_devices, key);

	if (!first)
		bpf_map_update_elem(&first_devices, key, &seen_at, BPF_ANY);
	return first && *first != seen_at;
}

/* Takes a packet.  Packets come in the order of their times.  Returns enum tp_parsed, or
 * TP_ELSEWHERE. */
int tp_capture_packet(const struct tp_captured *c)
{
	struct tp_packet p;
	struct sk_buff skb;
	int result;

	tp_native_now_ns = c->at_ns;
	fill(&skb, c);
	cut(&skb, 0);
	result = tp_parse(&skb, skb.network_header, &p);
	if (!result && is_elsewhere(&p.key, c->device))
		return TP_ELSEWHERE;
	if (!result && p.key.protocol == IPPROTO_TCP) {
		if (p.flags & TCP_SYN)
			note_segment(&p, skb.network_header);
		else
			cut(&skb, segment_of(&p, skb.network_header));
	}
	if (!result) {
		comes_back(&skb, c, &p.key);
		skb.data = skb.head + ROOM_BYTES;
		skb.len = c->length;
	}
	goes_in(&skb, &p);
	return result;
}

/* What a parser makes of a packet that leaves. */
struct tp_capture_parsed {
	__u32 result; /* enum tp_parsed; unless it is 0, nothing else counts */
	__u32 payload, packets, bytes, version;
	__u16 source_port, destination_port;
	__u8 protocol, flags, id_length, pad;
};

/* Parses a packet, for tests.  is_by_pieces: not by the single read of usual packets. */
void tp_capture_parse(const struct tp_captured *c, __u32 is_by_pieces, struct tp_capture_parsed *to)
{
	struct tp_packet p = {};
	struct sk_buff skb;

	memset(to, 0, sizeof(*to));
	fill(&skb, c);
	cut(&skb, 0);
	to->result = is_by_pieces ? tp_parse_any(&skb, skb.network_header, &p)
				  : tp_parse(&skb, skb.network_header, &p);
	if (to->result)
		return;
	to->payload = p.payload;
	to->packets = p.packets;
	to->bytes = p.bytes;
	to->source_port = p.key.source_port;
	to->destination_port = p.key.destination_port;
	to->protocol = p.key.protocol;
	to->flags = p.flags;
	to->version = p.version;
	to->id_length = p.id_length;
}

/* What is at a place of the table of flows; 0: there is no such place. */
const struct tp_watch_flow *tp_capture_flow(__u32 place)
{
	return bpf_map_lookup_elem(&flows, &place);
}

void tp_capture_totals(struct tp_watch_totals *to)
{
	*to = totals[0];
}

/* The longest recent wait of a packet of flows to this one's destination. */
__u32 tp_capture_queue_us(const struct tp_watch_key *key)
{
	const struct path *path = bpf_map_lookup_elem(&paths, key->destination);

	return path ? tp_max(path->link.queue_us.current, path->link.queue_us.previous) : 0;
}
