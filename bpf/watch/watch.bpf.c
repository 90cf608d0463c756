// SPDX-License-Identifier: GPL-2.0-only
/*
 * watch.bpf.c - measures every flow that is queued at one device.
 *
 * Four tracepoints see a packet, whatever the qdisc:
 *
 *  - net_dev_queue: it is about to be queued, and counts as "in".  Some are stamped with
 *    the time, under their flow and sequence number.
 *  - net_dev_start_xmit: it leaves for the driver, and counts as "out".  A stamped one
 *    gives the flow's sojourn.
 *  - kfree_skb: it is dropped, and the kernel says that a qdisc did it (drop.h).
 *  - netif_receive_skb: a packet of the other direction comes in at the device.  Its
 *    acknowledgements separate rounds.
 *
 * The programs change nothing without --fair or --mark, and nothing outlives the
 * process: it owns the links of the tracepoints.  docs/understand/decisions/12-watch.md
 * says why these and no hooks of tc.
 *
 * The tracepoints fire for every device of the host; the other devices cost a comparison.
 */
#include "clock.h"
#include "drop.h"
#include "../fair/fair.h"
#include "../fair/mark.h"
#include <bpf/bpf_tracing.h>

char _license[] SEC("license") = "GPL";

/* At least so many packets of a round are timed, if it has them. */
#define TIMED_PER_ROUND 64

static __always_inline int count_parsed(int result)
{
	if (result == TP_OTHER)
		COUNT(other_packets);
	else if (result == TP_UNREADABLE)
		COUNT(unreadable_packets);
	return result;
}

/* SYN and SYN-ACK, in either direction; shake's key is the data's direction. */
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

static __always_inline void stamp(struct tp_watch_flow *flow, const struct tp_packet *p, int again,
				  __u64 now_ns)
{
	__u32 per_round = flow->now.in_packets - flow->round.in_packets;
	struct tp_stamp *stamp;
	__u64 tag;

	/* A retransmission replaces the stamp of the original. */
	if (!again && flow->until_timed > p->packets) {
		flow->until_timed -= p->packets;
		return;
	}
	flow->until_timed = per_round / TIMED_PER_ROUND;
	tag = tp_tag(p);
	stamp = tp_stamp_place(tag);
	if (!stamp)
		return;
	stamp->at_ns = now_ns;
	stamp->flow = flow->id;
	stamp->drops = flow->drops;
	stamp->tag = tag;
}

static __always_inline void note_gap(struct tp_watch_flow *flow, __u32 packets, __u64 now_ns)
{
	__u64 gap_ns = now_ns > flow->last_in_ns ? now_ns - flow->last_in_ns : 0;

	/* In a super-packet, all but the first follow at once. */
	flow->now.burst_packets += packets - 1 + (gap_ns * 4 < flow->gap_ns);
	if (gap_ns > flow->gap_max_ns)
		flow->gap_max_ns = gap_ns;
	flow->gap_ns = tp_mean_gap(flow->gap_ns, tp_min64(gap_ns, 1U << 30), packets);
	flow->last_in_ns = now_ns;
}

static __always_inline void tcp_queued(struct tp_watch_flow *flow, const struct tp_packet *p,
				       __u64 now_ns)
{
	__u32 end = p->seq + p->payload, flight;
	int again = (__s32)(end - flow->max_seq) <= 0;

	note_gap(flow, p->packets, now_ns);
	stamp(flow, p, again, now_ns);
	if (again)
		flow->now.again_packets += p->packets;
	else
		flow->max_seq = end;
	flow->last_seq = p->seq;
	flow->last_payload = p->payload;
	if (p->payload / p->packets > flow->segment_bytes)
		flow->segment_bytes = p->payload / p->packets;
	flight = flow->max_seq - flow->acked_seq;
	if ((__s32)flight > 0 && flight > flow->flight_max_bytes)
		flow->flight_max_bytes = flight;
	if (!(flow->flags & TP_FLOW_MARK) && !again && now_ns >= flow->mark_after_ns) {
		flow->mark_seq = end;
		flow->mark_ns = now_ns;
		flow->flags |= TP_FLOW_MARK;
	}
}

/* A new connection uses the same addresses and ports. */
static __always_inline void reused(const struct tp_watch_key *key)
{
	if (bpf_map_lookup_elem(&flows, key)) {
		bpf_map_delete_elem(&flows, key);
		COUNT(reused);
	}
	bpf_map_delete_elem(&nursery, key);
}

static __noinline int queued(struct tp_packet *p, __u64 now_ns)
{
	struct tp_watch_flow *flow;
	int is_tcp;

	if (!p)
		return 0;
	is_tcp = p->key.protocol == IPPROTO_TCP;
	if (is_tcp && p->flags & TCP_SYN) {
		reused(&p->key);
		note_syn(&p->key, p, 1, now_ns);
		return 0;
	}
	flow = bpf_map_lookup_elem(&flows, &p->key);
	if (!flow) {
		if (is_tcp)
			note_third(&p->key, 1, now_ns);
		if (p->payload)
			tp_nurse(p, now_ns);
		return 0; /* the next packet finds the flow, if it was taken in */
	}
	flow->seen_ns = now_ns;
	if (is_tcp && p->flags & (TCP_FIN | TCP_RST))
		flow->flags |= TP_FLOW_CLOSED;
	if (!p->payload)
		return 0;
	if (is_tcp)
		tcp_queued(flow, p, now_ns);
	else
		note_gap(flow, p->packets, now_ns);
	flow->now.in_packets += p->packets;
	flow->now.in_bytes += p->bytes;
	flow->bytes += p->bytes;
	if ((cfg.record || cfg.classifier == TP_CLASSIFIER_P4AIR) &&
	    now_ns >= flow->interval_ends_ns)
		tp_interval_ends(flow, now_ns);
	return 0;
}

SEC("tp_btf/net_dev_queue")
int BPF_PROG(watch_in, struct sk_buff *skb)
{
	struct tp_packet p;

	if (!is_ours(skb->dev))
		return 0;
	if (count_parsed(tp_parse(skb, skb->network_header, &p)))
		return 0;
	ADD(in_packets, p.packets);
	return queued(&p, bpf_ktime_get_ns());
}

/* A timed packet has left. */
static __always_inline void sojourned(const struct tp_stamp *stamp, __u64 now_ns)
{
	struct tp_sojourn *of = tp_sojourn_place(stamp->flow);
	__u32 us = tp_us_since(now_ns, stamp->at_ns);

	if (!of)
		return;
	if (of->flow != stamp->flow) {
		__builtin_memset(of, 0, sizeof(*of));
		of->flow = stamp->flow;
		of->min_us = ~0U;
	}
	of->sum_us += us;
	of->samples++;
	of->drops = stamp->drops;
	if (us < of->min_us)
		of->min_us = us;
	if (us > of->max_us)
		of->max_us = us;
	if (us > of->interval_us)
		of->interval_us = us;
	tp_link_waited(us, now_ns);
}

SEC("tp_btf/net_dev_start_xmit")
int BPF_PROG(watch_out, struct sk_buff *skb, struct net_device *dev)
{
	struct tp_watch_totals *mine = tp_my_totals();
	struct tp_stamp *stamp;
	struct tp_packet p;
	__u64 tag;

	if (!is_ours(dev) || !mine)
		return 0;
	mine->left_bytes += skb->len;
	if (tp_parse(skb, skb->network_header, &p)) {
		mine->out_other_packets++;
		return 0;
	}
	mine->out_packets += p.packets;
	mine->out_bytes += p.bytes;
	tag = tp_tag(&p);
	stamp = tp_stamp_place(tag);
	if (stamp && stamp->tag == tag) {
		sojourned(stamp, bpf_ktime_get_ns());
		stamp->tag = 0;
	}
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
	return tp_dropped(&p, is_certain);
}

static __always_inline void acknowledged(struct tp_watch_flow *flow, const struct tp_packet *p)
{
	__s32 progress = p->ack - flow->acked_seq;

	if (!(p->flags & TCP_ACK))
		return;
	flow->flags |= TP_FLOW_ACKED;
	flow->now.acks++;
	if (p->flags & TCP_ECE)
		flow->now.marked_acks++;
	if (progress > 0 && (__s32)(flow->max_seq - p->ack) >= 0) {
		flow->acked_seq = p->ack;
		flow->now.acked_bytes += progress;
	}
	flow->receiver_window = p->window;
	if (flow->flags & TP_FLOW_MARK && (__s32)(p->ack - flow->mark_seq) >= 0)
		tp_round_ends(flow, bpf_ktime_get_ns());
}

/* An acknowledgement of its data proves a conversation.  Over UDP acknowledgements are
 * hidden, so answers to several packets do. */
static __always_inline int is_proof(struct tp_nursling *nursling, const struct tp_packet *p)
{
	if (p->key.protocol == IPPROTO_UDP)
		return ++nursling->answers >= 2 && nursling->packets >= 8;
	return p->flags & TCP_ACK && !(p->flags & TCP_RST) &&
	       (__s32)(p->ack - nursling->first_seq) > 0 &&
	       (__s32)(nursling->max_seq - p->ack) >= 0;
}

static __noinline int came(struct tp_packet *p)
{
	struct tp_nursling *nursling;
	struct tp_watch_flow *flow;

	if (!p)
		return 0;
	if (p->key.protocol == IPPROTO_TCP && p->flags & TCP_SYN) {
		note_syn(&p->key, p, 0, bpf_ktime_get_ns());
		return 0;
	}
	flow = bpf_map_lookup_elem(&flows, &p->key);
	if (flow) {
		if (p->flags & TCP_RST)
			flow->flags |= TP_FLOW_CLOSED;
		else if (p->key.protocol == IPPROTO_TCP)
			acknowledged(flow, p);
		else
			flow->now.acks++;
		return 0;
	}
	if (p->key.protocol == IPPROTO_TCP)
		note_third(&p->key, 0, bpf_ktime_get_ns());
	nursling = bpf_map_lookup_elem(&nursery, &p->key);
	if (nursling && is_proof(nursling, p))
		tp_open(&p->key, nursling, bpf_ktime_get_ns());
	return 0;
}

SEC("tp_btf/netif_receive_skb")
int BPF_PROG(watch_back, struct sk_buff *skb)
{
	struct tp_packet p;

	if (!is_ours(skb->dev))
		return 0;
	if (tp_parse_back(skb, &p))
		return 0;
	return came(&p);
}
