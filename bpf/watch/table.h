/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * table.h - the watched flows.
 *
 * All tables are bounded, and what was not used for longest goes first.  A flow enters the table of
 * flows only if the other side acknowledged its data, or for QUIC replied.  A flood of spoofed
 * SYNs, or of spoofed data, fills the two tables of candidates, and pushes no proved flow out.
 */
#ifndef TCPILOT_WATCH_TABLE_H
#define TCPILOT_WATCH_TABLE_H

#include "quic_handshake.h"
#include "../core/watch/whole.h"

#define TP_LRU(table, key_type, value_type, entries)                                               \
	struct {                                                                                   \
		__uint(type, BPF_MAP_TYPE_LRU_HASH);                                               \
		__uint(max_entries, entries);                                                      \
		__type(key, key_type);                                                             \
		__type(value, value_type);                                                         \
	} table SEC(".maps")

TP_LRU(candidates, struct tp_watch_key, struct tp_candidate, 16384);
TP_LRU(handshakes, struct tp_watch_key, struct tp_handshake, 8192);

/* A set for each processor, in whole cache lines.  A power of two; if there were more processors,
 * some would share a set. */
#define TP_TOTALS 1024

struct tp_watch_totals totals[TP_TOTALS] __attribute__((aligned(128)));

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} records SEC(".maps");

struct tp_model model;
struct tp_model
    extrapolation_model; /* for paths beyond the range of model; without trees none is used */
struct tp_model quic_model;

static __always_inline struct tp_watch_totals *tp_my_totals(void)
{
	return &totals[bpf_get_smp_processor_id() & (TP_TOTALS - 1)];
}

#define ADD(counter, n) (tp_my_totals()->counter += (n))
#define COUNT(counter) ADD(counter, 1)

/* Two devices of a namespace never have one index, but a device of another one may have ours.  Both
 * are compared only until the device's address is known: user space forgets it when the device
 * changes. */
static __always_inline int is_ours(const struct net_device *dev)
{
	if (link.device)
		return link.device == (__u64)dev;
	if (dev->ifindex != link.ifindex || !link.ifindex ||
	    dev->nd_net.net->ns.inum != cfg.netns_inum)
		return 0;
	link.device = (__u64)dev;
	return 1;
}

static __always_inline void tp_record(void *record, __u32 bytes)
{
	if (cfg.record && bpf_ringbuf_output(&records, record, bytes, BPF_RB_NO_WAKEUP))
		COUNT(lost_records);
}

static __always_inline void tp_say_opened(const struct tp_watch_key *key,
					  const struct tp_watch_flow *flow, __u64 now_ns)
{
	struct tp_opened opened = {
	    .kind = TP_RECORD_OPENED,
	    .flow = flow->id,
	    .at_ns = now_ns,
	    .key = *key,
	    .handshake_rtt_us = flow->handshake_rtt_us,
	    .flags = flow->flags,
	};

	tp_record(&opened, sizeof(opened));
}

/* Takes the times and flags of the handshake, if it passed here. */
static __always_inline void tp_take_handshake(struct tp_watch_flow *flow,
					      const struct tp_handshake *handshake)
{
	if (!handshake)
		return;
	flow->up_us = handshake->up_us;
	if (handshake->up_us)
		flow->flags |= TP_FLOW_SHARE;
	flow->window_scale = handshake->window_scale;
	flow->flags |= handshake->flags;
	if (!handshake->down_us || !handshake->up_us)
		return;
	flow->flags |= TP_FLOW_HANDSHAKE;
	flow->handshake_rtt_us = handshake->down_us + handshake->up_us;
	flow->min_rtt_us = flow->handshake_rtt_us;
	flow->p4air.rtt_us = flow->handshake_rtt_us;
}

static const struct tp_watch_flow fresh_flow = {.id = TP_FLOW_BUSY};

/* Puts a proved flow into the table. */
static __noinline int tp_open(const struct tp_watch_key *key, const struct tp_candidate *candidate,
			      __u64 now_ns)
{
	struct tp_watch_flow *flow;
	__u32 place, id;

	if (!key || !candidate)
		return 0;
	place = tp_take_place();
	if (place == TP_NO_PLACE || bpf_map_update_elem(&flows, &place, &fresh_flow, BPF_ANY)) {
		COUNT(full);
		return 0;
	}
	flow = bpf_map_lookup_elem(&flows, &place);
	if (!flow)
		return 0;
	id = tp_next_id();
	flow->key = *key;
	flow->born_ns = candidate->first_ns;
	flow->seen_ns = flow->last_in_ns = candidate->last_ns;
	flow->round_at_ns = flow->interval_at_ns = now_ns;
	flow->max_seq = flow->acked_seq = candidate->max_seq;
	flow->window_at_ns = TP_NO_WINDOW;
	flow->verdict.name = TP_NO_CLASS;
	if (key->protocol == IPPROTO_UDP)
		flow->p4air.group = TP_GROUP_UDP;
	if (cfg.one_way)
		flow->verdict.reason = TP_REASON_ONE_WAY;
	if (key->protocol == IPPROTO_UDP && !tp_take_quic(flow)) {
		flow->verdict.group = TP_GROUP_UDP;
		flow->verdict.reason = TP_REASON_UDP;
	}
	tp_take_handshake(flow, bpf_map_lookup_elem(&handshakes, key));
	flow->id = id;
	tp_link(key, place);
	if (tp_find_flow(key) != flow) {
		flow->id = 0; /* another processor was faster */
		return 0;
	}
	COUNT(opened);
	tp_say_opened(key, flow, now_ns);
	bpf_map_delete_elem(&candidates, key);
	return 0;
}

/* If acknowledgements take another way, so many packets have to do. */
#define TP_ONE_WAY_PACKETS 64

/* Counts an outgoing packet of a candidate. */
static __always_inline void tp_count_candidate(const struct tp_packet *p, __u64 now_ns)
{
	struct tp_candidate *known = bpf_map_lookup_elem(&candidates, &p->key);
	__u32 end = p->seq + p->payload;

	ADD(unproved_packets, p->packets);
	if (!known) {
		struct tp_candidate first = {
		    .first_ns = now_ns,
		    .last_ns = now_ns,
		    .first_seq = p->seq,
		    .max_seq = end,
		    .packets = p->packets,
		};

		bpf_map_update_elem(&candidates, &p->key, &first, BPF_ANY);
		return;
	}
	known->last_ns = now_ns;
	known->packets += p->packets;
	if ((__s32)(end - known->max_seq) > 0)
		known->max_seq = end;
	if (cfg.one_way && known->packets >= TP_ONE_WAY_PACKETS)
		tp_open(&p->key, known, now_ns);
}

#endif
