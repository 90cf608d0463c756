// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * watch.bpf.c - measures each flow in the queue of one device.
 *
 * Four places see a packet, whatever the qdisc:
 *
 *  - in: it is about to be queued.  Some leave their time (stamp.h).
 *  - out: it leaves the queue for the driver.  A stamped one gives the flow's sojourn.
 *  - drop: the kernel says that a qdisc dropped it (drop.h).
 *  - back: a packet of the other direction comes in at the device.  Its acknowledgements
 *    separate rounds.
 *
 * From kernel 6.6 on, "in" and "back" are hooks of tc at the device (direct.h).  Before, they are
 * tracepoints, as "drop" is on all kernels.  "Out" is at a function that the kernel calls for
 * packets from a queue, or at a tracepoint if the device has no queue.  Tracepoints fire for every
 * device of the host, the function for those with a queue; the other devices cost a comparison.
 *
 * The programs change nothing without --fair or --mark, and nothing outlives the process, since it
 * owns the links.  docs/understand/decisions/12-watch.md says why these places.
 */
#include "clock.h"
#include "direct.h"
#include "drop.h"
#include "left.h"
#include "queued.h"
#include "../fair/fair.h"
#include "../fair/mark.h"
#include <bpf/bpf_tracing.h>

char _license[] SEC("license") = "GPL";

#define ACE_FIRST 5 /* AccECN's count without a mark (RFC 9768, section 3.2.1) */

/* SYN and SYN-ACK, in either direction; handshake's key is the data's direction. */
static __always_inline void note_syn(const struct tp_watch_key *key, const struct tp_packet *p,
				     int leaving, __u64 now_ns)
{
	struct tp_handshake *known, first = {.first_ns = now_ns, .is_server = !leaving};

	if (!(p->flags & TCP_ACK)) {
		if (leaving && p->is_ect)
			first.flags = TP_FLOW_ECT_SYN;
		if (!leaving && p->window_scale != 0xff)
			first.window_scale = p->window_scale;
		bpf_map_update_elem(&handshakes, key, &first, BPF_ANY);
		return;
	}
	known = bpf_map_lookup_elem(&handshakes, key);
	if (!known || known->is_server != leaving)
		return;
	known->second_ns = now_ns;
	if (leaving) {
		known->up_us = tp_us_since(now_ns, known->first_ns) + 1;
		if (p->is_ect)
			known->flags |= TP_FLOW_ECT_SYN;
	} else {
		known->down_us = tp_us_since(now_ns, known->first_ns) + 1;
		known->window_scale = p->window_scale != 0xff ? p->window_scale : 0;
	}
	known->flags |= TP_FLOW_WINDOW;
}

/* The third packet of a handshake: the first without SYN. */
static __always_inline void note_third(const struct tp_watch_key *key, int leaving, __u64 now_ns)
{
	struct tp_handshake *known = bpf_map_lookup_elem(&handshakes, key);

	if (!known || !known->second_ns || known->is_server == leaving)
		return;
	if (leaving && !known->up_us)
		known->up_us = tp_us_since(now_ns, known->second_ns) + 1;
	if (!leaving && !known->down_us)
		known->down_us = tp_us_since(now_ns, known->second_ns) + 1;
}

/* A conversation of QUIC is proved. */
static __always_inline void open_quic(const struct tp_packet *p,
				      const struct tp_quic_handshake *handshake, __u64 now_ns)
{
	const struct tp_candidate as_tcp = {.first_ns = handshake->first_ns, .last_ns = now_ns};

	tp_open(&p->key, &as_tcp, now_ns);
}

/* A new connection uses the same addresses and ports. */
static __always_inline void reused(const struct tp_watch_key *key)
{
	struct tp_watch_flow *flow = tp_find_flow(key);

	if (flow) {
		flow->id = 0;
		COUNT(reused);
	}
	bpf_map_delete_elem(&candidates, key);
}

static __always_inline void udp_of_flow(struct tp_watch_flow *flow, const struct tp_packet *p,
					struct tp_stamp *place, __u64 now_ns)
{
	note_gap(flow, p->packets, now_ns);
	if (flow->flags & TP_FLOW_QUIC)
		tp_quic_queued(flow, p, place, now_ns);
}

/* QUIC's ends use the same addresses and ports for another connection. */
static __noinline int is_reused(struct tp_watch_flow *flow, const struct tp_packet *p, __u64 now_ns)
{
	if (!flow || !p || !(flow->flags & TP_FLOW_QUIC) || !tp_is_quic_initial(p) ||
	    now_ns < flow->born_ns + TP_QUIC_REUSED_NS)
		return 0;
	flow->id = 0;
	COUNT(reused);
	return 1;
}

/* A packet of UDP without a flow goes into the queue. */
static __noinline int udp_queued(const struct tp_packet *p, struct tp_stamp *place, __u64 now_ns)
{
	struct tp_quic_handshake *handshake;
	__u32 is_timed = 0;
	int slot;

	if (!p || !place)
		return 0;
	slot = tp_quic_look(p, 1, now_ns, &is_timed);
	if (slot < 0) {
		if (cfg.udp && p->payload)
			tp_count_candidate(p, now_ns);
		else
			ADD(unproved_packets, p->packets);
		return 0;
	}
	ADD(unproved_packets, p->packets);
	if (is_timed)
		tp_quic_stamp_handshake(place, p->address, slot, now_ns);
	handshake = tp_quic_handshake_at(slot);
	if (cfg.one_way && handshake && handshake->packets >= TP_ONE_WAY_PACKETS)
		open_quic(p, handshake, now_ns);
	return 0;
}

/* A packet of UDP without a flow comes in. */
static __noinline int udp_came(const struct tp_packet *p)
{
	__u64 now_ns = bpf_ktime_get_ns();
	struct tp_candidate *candidate;
	struct tp_quic_handshake *handshake;
	__u32 is_timed = 0;
	int slot;

	if (!p)
		return 0;
	slot = tp_quic_look(p, 0, now_ns, &is_timed);
	if (slot < 0) {
		candidate = cfg.udp ? bpf_map_lookup_elem(&candidates, &p->key) : 0;
		if (candidate && ++candidate->replies >= 2 && candidate->packets >= 8)
			tp_open(&p->key, candidate, now_ns);
		return 0;
	}
	handshake = tp_quic_handshake_at(slot);
	if (handshake && tp_is_quic_proved(handshake))
		open_quic(p, handshake, now_ns);
	return 0;
}

/* place: where the packet may leave its time. */
static __always_inline int queued(struct tp_packet *p, struct tp_stamp *place)
{
	int is_tcp = p->key.protocol == IPPROTO_TCP;
	struct tp_watch_flow *flow;
	__u64 now_ns;

	if (is_tcp && p->flags & TCP_SYN) {
		reused(&p->key);
		note_syn(&p->key, p, 1, bpf_ktime_get_ns());
		return 0;
	}
	flow = tp_find_flow(&p->key);
	if (flow && flow->flags & TP_FLOW_LIGHT && p->payload &&
	    !(p->flags & (TCP_FIN | TCP_RST))) {
		light_queued(flow, p, place);
		return 0;
	}
	now_ns = bpf_ktime_get_ns();
	if (flow && !is_tcp && tp_is_quic_long(p->flags) && is_reused(flow, p, now_ns))
		flow = 0;
	if (!flow) {
		if (!is_tcp)
			return udp_queued(p, place, now_ns);
		note_third(&p->key, 1, now_ns);
		if (p->payload)
			tp_count_candidate(p, now_ns);
		return 0; /* the next packet finds the flow, if it was taken in */
	}
	flow->seen_ns = now_ns;
	if (is_tcp && p->flags & (TCP_FIN | TCP_RST))
		flow->flags |= TP_FLOW_CLOSED;
	if (!p->payload)
		return 0;
	if (is_tcp)
		tcp_queued(flow, p, place, now_ns);
	else
		udp_of_flow(flow, p, place, now_ns);
	flow->now.in_packets += p->packets;
	flow->now.in_bytes += p->bytes;
	flow->bytes += p->bytes;
	if ((cfg.record || cfg.classifier == TP_CLASSIFIER_P4AIR) &&
	    now_ns >= flow->interval_ends_ns)
		tp_interval_ends(flow, now_ns);
	return 0;
}

static __always_inline void went_in(struct sk_buff *skb, struct tp_packet *p, int parsed)
{
	struct tp_watch_totals *mine = tp_my_totals();
	struct tp_stamp *place;

	p->address = tp_address(mine, TP_ASKS_IN, skb);
	place = tp_stamp_at(p->address);
	if (!place)
		return;
	if (place->tag == p->address)
		place->tag = 0;
	if (!parsed) {
		mine->in_packets += p->packets;
		queued(p, place);
		return;
	}
	if (parsed == TP_UNREADABLE)
		mine->unreadable_packets++;
	else
		mine->other_packets++;
	place->at_ns = 0;
	place->twin = 0;
	place->tag = p->address;
}

SEC("tp_btf/net_dev_queue")
int BPF_PROG(watch_in, struct sk_buff *skb)
{
	struct tp_packet p;

	if (is_ours(skb->dev))
		went_in(skb, &p, tp_parse(skb, skb->network_header, &p));
	return 0;
}

SEC("tcx/egress")
int watch_in_tc(struct __sk_buff *context)
{
	struct sk_buff *skb = bpf_cast_to_kern_ctx(context);
	struct tp_packet p;

	went_in(skb, &p, tp_parse_direct(context, skb, &p, 0));
	return -1; /* TCX_NEXT */
}

SEC("tp_btf/net_dev_start_xmit")
int BPF_PROG(watch_out, struct sk_buff *skb, struct net_device *dev)
{
	if (is_ours(dev))
		went_out(skb);
	return 0;
}

/* The kernel calls sch_direct_xmit with packets taken out of a queue, several at once as a list.
 * Devices without a queue have no such call.  is_new: 0 if the driver was full, and takes them now;
 * they were counted before. */
SEC("fentry/sch_direct_xmit")
int BPF_PROG(watch_out_queue, struct sk_buff *skb, void *queue, struct net_device *dev, void *to,
	     void *lock, __u8 is_new)
{
	struct tp_bulk others;

	if (!is_ours(dev) || !is_new)
		return 0;
	went_out(skb);
	others.next = skb->next;
	if (others.next)
		bpf_loop(TP_BULK_MOST, next_went_out, &others, 0);
	return 0;
}

SEC("tp_btf/kfree_skb")
int BPF_PROG(watch_drop, struct sk_buff *skb, void *location, __u32 reason)
{
	__u32 is_certain = tp_is_of_a_queue(reason);
	struct tp_packet p;

	if (!is_certain && !TP_IS_REASON(reason, SKB_DROP_REASON_NOT_SPECIFIED))
		return 0;
	if (!is_ours(skb->dev) || tp_parse(skb, skb->network_header, &p))
		return 0;
	p.address = tp_address(tp_my_totals(), TP_ASKS_DROP, skb);
	return tp_dropped(&p, is_certain);
}

/* An acknowledgement echoes a mark.  In light tracking it counts as a loss (tp_is_marked()). */
static __always_inline void marked(struct tp_watch_flow *flow)
{
	flow->now.marked_acks++;
	if ((flow->flags & (TP_FLOW_LIGHT | TP_FLOW_ECT_SYN)) == TP_FLOW_LIGHT)
		flow->lost_ns = bpf_ktime_get_ns();
}

/* AccECN's flags are the last three bits of a count of marked packets (RFC 9768, section 3.2.2). An
 * overtaken acknowledgement has an older count. */
static __always_inline void counted(struct tp_watch_flow *flow, const struct tp_packet *p,
				    __s32 progress)
{
	__u8 count = ((p->is_ae << 2 | p->flags >> 6) - ACE_FIRST) & 7;

	if (count == flow->marks || progress < 0)
		return;
	flow->marks = count;
	marked(flow);
}

/* skb: what p is of.  is_raw: its network header is where its data begin. */
static __always_inline void acknowledged(struct tp_watch_flow *flow, const struct tp_packet *p,
					 struct sk_buff *skb, int is_raw)
{
	__s32 progress = p->ack - flow->acked_seq;

	if (!(p->flags & TCP_ACK))
		return;
	flow->flags |= TP_FLOW_ACKED;
	flow->now.acks++;
	/* The count begins with AE set, so the first acknowledgement shows it. */
	if (p->is_ae)
		flow->flags |= TP_FLOW_ACCECN;
	if (flow->flags & TP_FLOW_ACCECN)
		counted(flow, p, progress);
	else if (p->flags & TCP_ECE)
		marked(flow);
	if (progress > 0 && (__s32)(flow->max_seq - p->ack) >= 0) {
		flow->acked_seq = p->ack;
		flow->now.acked_bytes += progress;
	}
	flow->receiver_window = p->window;
	if (flow->flags & TP_FLOW_MARK && (__s32)(p->ack - flow->mark_seq) >= 0) {
		tp_round_ends(flow, progress, bpf_ktime_get_ns());
		if (tp_awaits_echo(flow))
			tp_echo_begins(flow, skb->head,
				       is_raw ? skb->data - skb->head : skb->network_header);
	}
}

/* An acknowledgement of its data proves a conversation. */
static __always_inline int is_proof(const struct tp_candidate *candidate, const struct tp_packet *p)
{
	return p->flags & TCP_ACK && !(p->flags & TCP_RST) &&
	       (__s32)(p->ack - candidate->first_seq) > 0 &&
	       (__s32)(candidate->max_seq - p->ack) >= 0;
}

/* A packet of UDP comes in.  flow: 0 if it is in none. */
static __always_inline int udp_reply(struct tp_watch_flow *flow, const struct tp_packet *p)
{
	if (!flow)
		return udp_came(p);
	if (!(flow->flags & TP_FLOW_QUIC))
		flow->now.acks++;
	else if (tp_is_quic_long(p->flags) && is_reused(flow, p, bpf_ktime_get_ns()))
		return udp_came(p);
	else
		tp_quic_replied(flow, p);
	return 0;
}

static __always_inline int came(struct tp_packet *p, struct sk_buff *skb, int is_raw)
{
	int is_tcp = p->key.protocol == IPPROTO_TCP;
	struct tp_candidate *candidate;
	struct tp_watch_flow *flow;

	if (is_tcp && p->flags & TCP_SYN) {
		note_syn(&p->key, p, 0, bpf_ktime_get_ns());
		return 0;
	}
	flow = tp_find_flow(&p->key);
	if (!is_tcp)
		return udp_reply(flow, p);
	if (flow) {
		if (p->flags & TCP_RST)
			flow->flags |= TP_FLOW_CLOSED;
		else
			acknowledged(flow, p, skb, is_raw);
		return 0;
	}
	note_third(&p->key, 0, bpf_ktime_get_ns());
	candidate = bpf_map_lookup_elem(&candidates, &p->key);
	if (candidate && is_proof(candidate, p))
		tp_open(&p->key, candidate, bpf_ktime_get_ns());
	return 0;
}

SEC("tp_btf/netif_receive_skb")
int BPF_PROG(watch_back, struct sk_buff *skb)
{
	struct tp_packet p;

	if (is_ours(skb->dev) && !tp_parse_back(skb, &p))
		came(&p, skb, 1);
	return 0;
}

SEC("tcx/ingress")
int watch_back_tc(struct __sk_buff *context)
{
	struct sk_buff *skb = bpf_cast_to_kern_ctx(context);
	struct tp_packet p;

	if (!tp_parse_direct(context, skb, &p, 1))
		came(&p, skb, 0);
	return -1; /* TCX_NEXT */
}
