/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fair.h - the queue of each packet, and the actions on flows above their share; only
 * `tcpilot watch --fair` loads it.
 *
 * fair_class is the filter of our qdisc, and vanishes with it.  User space reads the table of
 * flows, and gives each an order: a class, its share, an action.  A flow without one is new
 * (mice), sparse (ants) or unreplied.  Packets of a flow without a queue at half its share
 * go with the ants, too, whatever its class is.  fair_window sees the acknowledgements that come in
 * at the device, and shrinks the window in them.
 *
 * An order is only as good as its writer.  If the process gives no sign of life, no
 * action is taken, but packets are still spread over the classes.
 */
#ifndef TCPILOT_WATCH_FAIR_H
#define TCPILOT_WATCH_FAIR_H

#include "../core/sparse.h"
#include "../watch/ip.h"
#include "../watch/table.h"

#define TC_ACT_OK 0
#define TC_ACT_SHOT 2
#define TP_UNREPLIED_PACKETS 64
#define TP_FAIR_SEGMENT 1448
/* A flow counts as above its share only by an eighth or more, since rounds cut packets off.
 * If a loss halves its window, by a third: the share is then the mean of the sawtooth (its
 * ends are 2/3 and 4/3). */
#define TP_FAIR_ABOVE(share) ((share) + ((share) >> 3))
#define TP_FAIR_ABOVE_HALVED(share) ((share) + (share) / 3)
/* A flow leaves the slow queue, or its window opens again, so many intervals after it was
 * last above its share: each time BBR fills the new room at once. */
#define TP_FAIR_HOLD 8
#define TP_FAIR_HOLD_WINDOW 64
/* If a flow stays above its share though a packet was dropped in each of so many intervals,
 * it does not react to loss, whatever its group: then everything above the share is dropped. */
#define TP_FAIR_PATIENCE 3

#define TP_FAIR_MAP(table, key_type, value_type)                                                   \
	struct {                                                                                   \
		__uint(type, BPF_MAP_TYPE_HASH);                                                   \
		__uint(map_flags, BPF_F_NO_PREALLOC);                                              \
		__uint(max_entries, 16384); /* the loader sets it */                               \
		__type(key, key_type);                                                             \
		__type(value, value_type);                                                         \
	} table SEC(".maps")

TP_FAIR_MAP(fair_orders, struct tp_watch_key, struct tp_fair_order);
TP_FAIR_MAP(fair_states, struct tp_watch_key, struct tp_fair_state);

struct tp_fair_control fair_control;
struct tp_fair_counts fair_counts;

/* A packet's parts for a classifier. */
struct tp_fair_packet {
	struct tp_watch_key key;
	__u32 transport; /* offset from the network header */
	__u32 payload;
	__u32 ack;
	__u16 window;
	__u8 flags;
};

#define TP_FROM_NETWORK(skb, at, to)                                                               \
	bpf_skb_load_bytes_relative(skb, at, &(to), sizeof(to), BPF_HDR_START_NET)

static __always_inline int tp_fair_read(const void *skb, __u32 at, void *to, __u32 bytes)
{
	return bpf_skb_load_bytes_relative(skb, at, to, bytes, BPF_HDR_START_NET);
}

/* A filter's packet is no struct sk_buff, which parse.h reads, and kernels before 6.2 do not
 * give that.  -1: neither TCP nor UDP. */
static __always_inline int tp_fair_parse(struct __sk_buff *skb, struct tp_fair_packet *p)
{
	struct {
		__u16 source, destination;
		__u32 seq, ack;
		__u8 offset, flags;
		__u16 window;
	} tcp;
	struct tp_ip ip = {};
	__s32 header = 8;
	__u8 version;

	__builtin_memset(p, 0, sizeof(*p));
	if (TP_FROM_NETWORK(skb, 0, version))
		return -1;
	if (version >> 4 == 4
		? tp_read_ipv4(tp_fair_read, skb, 0, &p->key, &ip)
		: version >> 4 != 6 || tp_read_ipv6(tp_fair_read, skb, 0, &p->key, &ip))
		return -1;
	p->key.protocol = ip.protocol;
	p->transport = ip.at;
	if (p->key.protocol == IPPROTO_TCP) {
		if (TP_FROM_NETWORK(skb, p->transport, tcp))
			return -1;
		header = (tcp.offset >> 4) * 4;
		p->ack = bpf_ntohl(tcp.ack);
		p->window = bpf_ntohs(tcp.window);
		p->flags = tcp.flags;
	} else if (p->key.protocol != IPPROTO_UDP ||
		   bpf_skb_load_bytes_relative(skb, p->transport, &tcp, 4, BPF_HDR_START_NET)) {
		return -1;
	}
	p->key.source_port = bpf_ntohs(tcp.source);
	p->key.destination_port = bpf_ntohs(tcp.destination);
	/* The length is not given if the packet is too long for the field. */
	p->payload = ip.length == TP_NO_LENGTH ? skb->len
		     : ip.length > header      ? ip.length - header
					       : 0;
	return 0;
}

static __always_inline void tp_fair_acted(const struct tp_fair_order *order, __u32 action)
{
	__u32 group = order->group & (TP_GROUP_COUNT - 1);

	if (action < TP_FAIR_ACTIONS)
		__sync_fetch_and_add(&fair_counts.acted[group][action], 1);
}

/* Whether its flow is above its share, this packet included. */
static __always_inline int tp_fair_is_above(struct tp_fair_state *state,
					    const struct tp_fair_order *order, __u32 bytes,
					    __u64 now_ns)
{
	__u32 limit = order->action == TP_FAIR_DROP ? TP_FAIR_ABOVE_HALVED(order->share_bytes)
						    : TP_FAIR_ABOVE(order->share_bytes);

	if (now_ns - state->interval_at_ns >= (__u64)order->interval_us * 1000) {
		state->interval_at_ns = now_ns;
		state->row = state->acted ? state->row + (state->row < 0xffff) : 0;
		state->bytes = 0;
		state->acted = 0;
		if (state->hold)
			state->hold--;
	}
	state->bytes += bytes;
	if (state->bytes <= limit)
		return 0;
	state->hold = order->action == TP_FAIR_WINDOW ? TP_FAIR_HOLD_WINDOW : TP_FAIR_HOLD;
	return 1;
}

/* A packet as its queue sees it: its flow, its lengths, and the flags of TCP. */
struct tp_fair_piece {
	const struct tp_watch_key *key;
	__u32 bytes;
	__u32 payload;
	__u8 flags;
};

/* The class of a packet by its order's action, 0 to drop it. */
static __always_inline __u32 tp_fair_by_action(const struct tp_fair_piece *p,
					       const struct tp_fair_order *order,
					       struct tp_fair_state *state, __u64 now_ns)
{
	int above = tp_fair_is_above(state, order, p->bytes, now_ns);

	if (order->action == TP_FAIR_DELAY && state->hold) {
		tp_fair_acted(order, TP_FAIR_DELAY);
		return TP_FAIR_SLOW;
	}
	if (!above || p->flags & (TCP_SYN | TCP_FIN | TCP_RST))
		return order->minor;
	if (order->action == TP_FAIR_POLICE ||
	    (order->action == TP_FAIR_DROP && (!state->acted || state->row >= TP_FAIR_PATIENCE))) {
		/* a dropped packet was not sent */
		state->bytes -= p->bytes;
		state->acted++;
		tp_fair_acted(order, order->action);
		return 0;
	}
	return order->minor;
}

static __always_inline int tp_fair_is_sparse(struct tp_fair_state *state,
					     const struct tp_fair_order *order, __u32 bytes,
					     __u64 now_ns)
{
	struct tp_sparse_share share = {
	    .rate = fair_control.sparse_rate >> (order->share_shift & 31),
	    .turn_bytes = fair_control.turn_bytes,
	    .is_alone = order->is_alone,
	};

	return tp_is_sparse(&state->sparse, &share, bytes, now_ns);
}

/* The class of a packet of a flow with an order, 0 to drop it. */
static __always_inline __u32 tp_fair_ordered(const struct tp_fair_piece *p,
					     const struct tp_fair_order *order)
{
	__u64 now_ns = bpf_ktime_get_ns();
	struct tp_fair_state *state;
	__u32 minor = order->minor;

	if (now_ns > fair_control.alive_until_ns || minor == TP_FAIR_ANTS ||
	    (!order->action && !fair_control.sparse_rate))
		return minor;
	state = bpf_map_lookup_elem(&fair_states, p->key);
	if (!state)
		return minor;
	if (order->action)
		minor = tp_fair_by_action(p, order, state, now_ns);
	return minor && tp_fair_is_sparse(state, order, p->bytes, now_ns) ? TP_FAIR_ANTS : minor;
}

/* The class of a packet of any flow, 0 to drop it. */
static __always_inline __u32 tp_fair_minor(const struct tp_fair_piece *p)
{
	const struct tp_candidate *candidate;
	const struct tp_fair_order *order;

	order = bpf_map_lookup_elem(&fair_orders, p->key);
	if (order)
		return tp_fair_ordered(p, order);
	if (!p->payload)
		return TP_FAIR_ANTS;
	__sync_fetch_and_add(&fair_counts.without_order, 1);
	candidate = bpf_map_lookup_elem(&candidates, p->key);
	return candidate && candidate->packets >= TP_UNREPLIED_PACKETS ? TP_FAIR_UNREPLIED
								       : TP_FAIR_MICE;
}

static __always_inline void tp_fair_count(__u32 bytes)
{
	if (bytes > fair_counts.largest_bytes)
		fair_counts.largest_bytes = bytes;
	__sync_fetch_and_add(&fair_counts.classified, 1);
}

SEC("tc")
int fair_class(struct __sk_buff *skb)
{
	struct tp_fair_packet p;
	__u32 minor = TP_FAIR_ANTS;

	tp_fair_count(skb->len);
	if (!tp_fair_parse(skb, &p)) {
		struct tp_fair_piece piece = {&p.key, skb->len, p.payload, p.flags};

		minor = tp_fair_minor(&piece);
	}
	if (!minor)
		return TC_ACT_SHOT;
	skb->tc_classid = minor; /* the filter adds the major */
	return TC_ACT_OK;
}

/* Offset of the network header: the loads above are relative to it, stores are not.  0
 * without a link header, 14 with Ethernet's, 18 with a tag. */
static __always_inline int tp_fair_network_at(struct __sk_buff *skb)
{
	__u64 wanted[2], found[2];

	if (TP_FROM_NETWORK(skb, 0, wanted))
		return -1;
	for (int i = 0; i < 3; i++) {
		int at = i == 0 ? 14 : i == 1 ? 0 : 18;

		if (!bpf_skb_load_bytes(skb, at, found, sizeof(found)) && found[0] == wanted[0] &&
		    found[1] == wanted[1])
			return at;
	}
	return -1;
}

/*
 * The window that an acknowledgement may offer, unscaled, for its flow to stay
 * at its share.  Its right edge never moves to the left (RFC 9293, section
 * 3.8.6: a receiver should not shrink its window).
 */
static __always_inline __u32 tp_fair_window(struct tp_fair_state *state,
					    const struct tp_fair_order *order,
					    const struct tp_fair_packet *p)
{
	__u32 scale = order->window_scale & 15;
	__u32 offered = (__u32)p->window << scale, wanted = order->window_bytes;
	__u32 before = state->edge - p->ack;

	if (wanted < 4 * TP_FAIR_SEGMENT)
		wanted = 4 * TP_FAIR_SEGMENT;
	if (!state->edge)
		before = offered; /* the last offer is not known: start with this one */
	if ((__s32)before > 0 && before > wanted)
		wanted = before;
	if (wanted >= offered)
		wanted = offered;
	state->edge = p->ack + wanted ? p->ack + wanted : 1;
	/* Rounded up: the edge must not move left even by less than a unit. */
	wanted = (wanted + (1U << scale) - 1) >> scale;
	return tp_min64(wanted, p->window);
}

static __always_inline void tp_fair_shrink(struct __sk_buff *skb)
{
	struct tp_watch_key key;
	const struct tp_fair_order *order;
	struct tp_fair_state *state;
	struct tp_fair_packet p;
	__u16 before, after;
	int at;

	if (tp_fair_parse(skb, &p) || p.key.protocol != IPPROTO_TCP || !(p.flags & TCP_ACK) ||
	    p.flags & (TCP_SYN | TCP_RST))
		return;
	key = tp_reverse(&p.key);
	order = bpf_map_lookup_elem(&fair_orders, &key);
	if (!order || order->action != TP_FAIR_WINDOW ||
	    bpf_ktime_get_ns() > fair_control.alive_until_ns)
		return;
	state = bpf_map_lookup_elem(&fair_states, &key);
	if (!state)
		return;
	if (!state->hold) {
		state->edge = 0;
		return;
	}
	before = bpf_htons(p.window);
	after = bpf_htons(tp_fair_window(state, order, &p));
	at = tp_fair_network_at(skb);
	if (before == after || at < 0)
		return;
	at += p.transport;
	/* Bytes 14 and 16 of TCP's header (RFC 9293, section 3.1).  The checksum comes first:
	 * if the device has summed the packet, the two changes cancel out. */
	if (bpf_l4_csum_replace(skb, at + 16, before, after, sizeof(after)) ||
	    bpf_skb_store_bytes(skb, at + 14, &after, sizeof(after), 0))
		return;
	tp_fair_acted(order, TP_FAIR_WINDOW);
}

/* TCX_NEXT and TC_ACT_UNSPEC are both -1: other programs decide. */
SEC("tcx/ingress")
int fair_window(struct __sk_buff *skb)
{
	tp_fair_shrink(skb);
	return -1;
}

#endif
