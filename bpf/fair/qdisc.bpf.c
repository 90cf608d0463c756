// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * qdisc.bpf.c - the queues of `tcpilot watch --fair` as a qdisc of their own, for
 * kernels with BPF qdiscs (6.16, CONFIG_NET_SCH_BPF).
 *
 * These are the queues of the HTB on other kernels.  They take turns by bytes: in
 * its turn a queue sends until its quantum is used up, and bytes beyond that are taken
 * off its next turn (deficit round robin; Shreedhar and Varghese, SIGCOMM 1995).  Ants go
 * first as long as they have not sent more than all others.  If a rate was given, the
 * next packet leaves when the last one is through at that rate.
 *
 * Packets wait in one array of slots, chained by their numbers, so that nothing
 * is allocated for a packet.  The kernel calls enqueue, dequeue and reset under
 * the qdisc's lock, and there is one instance only: init refuses a second.  So
 * none of this is locked.
 *
 * If tcpilot is killed, the qdisc stays, as any qdisc does, and serves its queues.
 * Deleting it frees everything.
 *
 * It is an object of its own, since other kernels refuse to load even the types.  It
 * shares its tables with the object of watch.bpf.c.
 */
#include "fair.h"
#include "../core/turns.h"
#include <bpf/bpf_tracing.h>

char _license[] SEC("license") = "GPL";

#define NET_XMIT_SUCCESS 0
#define NET_XMIT_DROP 1
#define EBUSY 16
#define TP_NS_PER_S 1000000000ULL
/* The link may catch up with so much after a late timer, as with HTB. */
#define TP_CATCH_UP_NS 1000000ULL
#define TP_CATCH_UP_BYTES (2 * 1514)
/* So many turns are passed on for one packet; then the first queue sends, in debt or not. */
#define TP_TURNS_MOST (4 * TP_FAIR_MINORS)

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct netdev_queue {
	struct net_device *dev;
};

struct qdisc_skb_head {
	__u32 qlen;
};

struct gnet_stats_queue {
	__u32 backlog;
	__u32 drops;
	__u32 overlimits;
};

struct Qdisc {
	struct netdev_queue *dev_queue;
	struct qdisc_skb_head q;
	struct gnet_stats_queue qstats;
};

#pragma clang attribute pop

/* Opaque; a type that is only declared would not be taken for the kernel's. */
struct bpf_sk_buff_ptr {
};
struct nlattr;
struct netlink_ext_ack;

/* The loader (crates/kernel/src/watch/qdisc.rs) writes the id, by its offset here. */
struct Qdisc_ops {
	char id[16];
	int (*enqueue)(struct sk_buff *skb, struct Qdisc *sch, struct sk_buff **to_free);
	struct sk_buff *(*dequeue)(struct Qdisc *sch);
	int (*init)(struct Qdisc *sch, struct nlattr *options, struct netlink_ext_ack *extack);
	void (*reset)(struct Qdisc *sch);
	void (*destroy)(struct Qdisc *sch);
};

extern void bpf_kfree_skb(struct sk_buff *skb) __ksym;
extern void bpf_qdisc_skb_drop(struct sk_buff *skb, struct bpf_sk_buff_ptr *to_free) __ksym;
extern void bpf_qdisc_bstats_update(struct Qdisc *sch, const struct sk_buff *skb) __ksym;
extern void bpf_qdisc_watchdog_schedule(struct Qdisc *sch, __u64 expire, __u64 delta_ns) __ksym;

/* It has a name of its own because clang 14 loses the tag of a member that points to a struct. */
typedef struct sk_buff tp_kept_skb;

struct tp_slot_of_queue {
	tp_kept_skb __kptr *skb;
	__u32 next; /* in its queue, or in the chain of free slots; 0: none */
	__u32 bytes;
	__u32 packets; /* on the wire */
	__u32 pad;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 16384); /* the loader sets it; slot 0 is never used */
	__type(key, __u32);
	__type(value, struct tp_slot_of_queue);
} fair_slots SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, TP_FAIR_MINORS);
	__type(key, __u32);
	__type(value, struct tp_fair_queue);
} fair_queues SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, TP_FAIR_MINORS);
	__type(key, __u32);
	__type(value, struct tp_fair_turn);
} fair_turns SEC(".maps");

struct {
	__u64 owner;	   /* the instance; 0: none */
	__u64 free_at_ns;  /* the link is busy until then */
	__s64 ants_credit; /* bytes of ants to be sent first */
	__u64 catch_up_ns;
	__u32 free_slot;  /* the first free slot among those used before */
	__u32 used_slots; /* so many have ever been used */
	__u32 first;	  /* minor of the queue whose turn it is, 0: none */
	__u32 last;	  /* minor of the last queue in line */
} fair_qdisc_state;

#define TP_STATE fair_qdisc_state

static __always_inline __u64 tp_wire_ns(__u64 bytes)
{
	return bytes * TP_NS_PER_S / cfg.link_rate;
}

static __always_inline __u32 tp_qdisc_bytes(const struct sk_buff *skb)
{
	return ((const struct qdisc_skb_cb *)skb->cb)->pkt_len;
}

/* The class of a packet, 0 to drop it.  packets: its number of packets on the wire. */
static __always_inline __u32 tp_qdisc_minor(struct sk_buff *skb, __u32 bytes, __u32 *packets)
{
	struct tp_packet p;
	struct tp_fair_piece piece = {&p.key, bytes};

	tp_fair_count(bytes);
	*packets = 1;
	if (tp_parse(skb, skb->network_header, &p))
		return TP_FAIR_ANTS;
	*packets = p.packets;
	piece.payload = p.payload;
	piece.flags = p.flags;
	return tp_fair_minor(&piece);
}

/* Whether this queue goes first.  Without a rate half of it is not known, and ants take
 * turns as others do. */
static __always_inline int tp_goes_first(__u32 minor)
{
	return cfg.link_rate && minor == TP_FAIR_ANTS;
}

static __always_inline void tp_queue_up(struct tp_fair_queue *queue, __u32 minor)
{
	struct tp_fair_queue *last;

	queue->next = 0;
	if (!TP_STATE.first) {
		TP_STATE.first = minor;
	} else {
		last = bpf_map_lookup_elem(&fair_queues, &TP_STATE.last);
		if (last) {
			barrier_var(last); /* no offset is added before the test */
			last->next = minor;
		}
	}
	TP_STATE.last = minor;
}

static __always_inline struct tp_slot_of_queue *tp_take_slot(__u32 *number)
{
	struct tp_slot_of_queue *slot;

	*number = TP_STATE.free_slot ? TP_STATE.free_slot : TP_STATE.used_slots + 1;
	slot = bpf_map_lookup_elem(&fair_slots, number);
	if (!slot)
		return NULL;
	if (TP_STATE.free_slot)
		TP_STATE.free_slot = slot->next;
	else
		TP_STATE.used_slots++;
	slot->next = 0;
	return slot;
}

static __always_inline void tp_chain(struct tp_fair_queue *queue, __u32 minor, __u32 quantum,
				     __u32 number)
{
	struct tp_slot_of_queue *last;

	if (!queue->first) {
		queue->first = number;
	} else {
		last = bpf_map_lookup_elem(&fair_slots, &queue->last);
		if (last) {
			barrier_var(last);
			last->next = number;
		}
	}
	queue->last = number;
	if (queue->waiting++ || tp_goes_first(minor))
		return;
	/* It goes back in line, with the quantum of its next turn less its debt from the
	 * last one. */
	queue->credit += quantum;
	tp_queue_up(queue, minor);
}

/* The queue of this class if it has one, else that of mice; NULL if it is full. */
static __always_inline struct tp_fair_queue *tp_queue_with_room(__u32 *minor, __u32 *quantum)
{
	struct tp_fair_turn *turn = bpf_map_lookup_elem(&fair_turns, minor);
	struct tp_fair_queue *queue;

	if (!turn || !turn->quantum) {
		*minor = TP_FAIR_MICE;
		turn = bpf_map_lookup_elem(&fair_turns, minor);
	}
	queue = bpf_map_lookup_elem(&fair_queues, minor);
	if (!turn || !queue)
		return NULL;
	*quantum = turn->quantum;
	if (queue->waiting < turn->limit)
		return queue;
	queue->overflows++;
	return NULL;
}

SEC("struct_ops")
int BPF_PROG(fair_enqueue, struct sk_buff *skb, struct Qdisc *sch, struct bpf_sk_buff_ptr *to_free)
{
	__u32 bytes = tp_qdisc_bytes(skb), packets, quantum, number;
	__u32 minor = tp_qdisc_minor(skb, bytes, &packets);
	struct tp_slot_of_queue *slot;
	struct tp_fair_queue *queue;

	if (!minor) {
		/* Dropped on purpose: the sender should notice it as a drop in a distant queue. */
		sch->qstats.drops++;
		bpf_qdisc_skb_drop(skb, to_free);
		return NET_XMIT_SUCCESS;
	}
	queue = tp_queue_with_room(&minor, &quantum);
	slot = queue ? tp_take_slot(&number) : NULL;
	if (!queue || !slot) {
		sch->qstats.drops++;
		bpf_qdisc_skb_drop(skb, to_free);
		return NET_XMIT_DROP;
	}
	slot->bytes = bytes;
	slot->packets = packets;
	skb = bpf_kptr_xchg(&slot->skb, skb);
	if (skb) /* never: free slots are empty */
		bpf_qdisc_skb_drop(skb, to_free);
	tp_chain(queue, minor, quantum, number);
	sch->q.qlen++;
	sch->qstats.backlog += bytes;
	return NET_XMIT_SUCCESS;
}

/* If the first queue's credit is used up, it gets that of another turn, and goes to the
 * end of the line. */
static long tp_next_turn(__u32 i, void *unused)
{
	__u32 minor = TP_STATE.first;
	struct tp_fair_queue *queue = bpf_map_lookup_elem(&fair_queues, &minor);
	struct tp_fair_turn *turn = bpf_map_lookup_elem(&fair_turns, &minor);

	if (!queue || !turn || queue->credit > 0)
		return 1;
	queue->credit += turn->quantum;
	if (queue->next) {
		TP_STATE.first = queue->next;
		tp_queue_up(queue, minor);
	}
	return 0;
}

/* The next class to send, 0 if nothing waits. */
static __always_inline __u32 tp_whose_turn(void)
{
	__u32 minor = TP_FAIR_ANTS;
	struct tp_fair_queue *queue = bpf_map_lookup_elem(&fair_queues, &minor);

	if (cfg.link_rate && queue && queue->waiting &&
	    (TP_STATE.ants_credit > 0 || !TP_STATE.first))
		return minor;
	if (!TP_STATE.first)
		return 0;
	minor = TP_STATE.first;
	queue = bpf_map_lookup_elem(&fair_queues, &minor);
	if (!queue || queue->credit <= 0)
		bpf_loop(TP_TURNS_MOST, tp_next_turn, NULL, 0);
	return TP_STATE.first;
}

static __always_inline void tp_charge(struct tp_fair_queue *queue, __u32 minor, __u32 bytes)
{
	int is_ants = tp_goes_first(minor);

	TP_STATE.ants_credit = tp_ants_credit(TP_STATE.ants_credit, bytes, is_ants);
	if (is_ants)
		return;
	queue->credit -= bytes;
	if (queue->waiting)
		return;
	/* It was the first in line. */
	queue->credit = tp_credit_at_leave(queue->credit);
	TP_STATE.first = queue->next;
}

static __always_inline void tp_give_slot_back(struct tp_slot_of_queue *slot, __u32 number)
{
	slot->next = TP_STATE.free_slot;
	TP_STATE.free_slot = number;
}

SEC("struct_ops")
struct sk_buff *BPF_PROG(fair_dequeue, struct Qdisc *sch)
{
	__u64 now_ns = cfg.link_rate ? bpf_ktime_get_ns() : 0;
	struct tp_slot_of_queue *slot;
	struct tp_fair_queue *queue;
	__u32 minor, number, bytes;
	struct sk_buff *skb;

	if (now_ns < TP_STATE.free_at_ns) {
		if (!sch->q.qlen)
			return NULL;
		sch->qstats.overlimits++;
		bpf_qdisc_watchdog_schedule(sch, TP_STATE.free_at_ns, 0);
		return NULL;
	}
	minor = tp_whose_turn();
	queue = bpf_map_lookup_elem(&fair_queues, &minor);
	if (!minor || !queue)
		return NULL;
	number = queue->first;
	slot = bpf_map_lookup_elem(&fair_slots, &number);
	if (!slot)
		return NULL;
	skb = bpf_kptr_xchg(&slot->skb, NULL);
	if (!skb)
		return NULL;
	bytes = slot->bytes;
	queue->first = slot->next;
	queue->waiting--;
	queue->sent_bytes += bytes;
	queue->sent_packets += slot->packets;
	tp_give_slot_back(slot, number);
	tp_charge(queue, minor, bytes);
	if (cfg.link_rate)
		TP_STATE.free_at_ns = tp_max64(TP_STATE.free_at_ns, now_ns - TP_STATE.catch_up_ns) +
				      tp_wire_ns(bytes);
	sch->q.qlen--;
	sch->qstats.backlog -= bytes;
	bpf_qdisc_bstats_update(sch, skb);
	return skb;
}

/* Only for the watched device, and only one instance: two would share the queues. */
SEC("struct_ops")
int BPF_PROG(fair_init, struct Qdisc *sch, struct nlattr *options, struct netlink_ext_ack *extack)
{
	if (TP_STATE.owner || !is_ours(sch->dev_queue->dev))
		return -EBUSY;
	TP_STATE.owner = (__u64)sch;
	TP_STATE.free_at_ns = 0;
	TP_STATE.ants_credit = TP_ANTS_BURST_BYTES;
	if (cfg.link_rate)
		TP_STATE.catch_up_ns = tp_max64(TP_CATCH_UP_NS, tp_wire_ns(TP_CATCH_UP_BYTES));
	return 0;
}

static long tp_empty_slot(__u32 i, void *unused)
{
	__u32 number = i + 1;
	struct tp_slot_of_queue *slot = bpf_map_lookup_elem(&fair_slots, &number);
	struct sk_buff *skb;

	if (!slot)
		return 1;
	skb = bpf_kptr_xchg(&slot->skb, NULL);
	if (skb)
		bpf_kfree_skb(skb);
	return 0;
}

static long tp_empty_queue(__u32 minor, void *unused)
{
	struct tp_fair_queue *queue = bpf_map_lookup_elem(&fair_queues, &minor);

	if (!queue)
		return 1;
	queue->first = queue->last = queue->waiting = queue->next = 0;
	queue->credit = 0;
	return 0;
}

/* The kernel sets its counts of waiting packets to 0 itself. */
SEC("struct_ops")
void BPF_PROG(fair_reset, struct Qdisc *sch)
{
	if (TP_STATE.owner != (__u64)sch)
		return;
	bpf_loop(TP_STATE.used_slots, tp_empty_slot, NULL, 0);
	bpf_loop(TP_FAIR_MINORS, tp_empty_queue, NULL, 0);
	TP_STATE.free_slot = TP_STATE.used_slots = 0;
	TP_STATE.first = TP_STATE.last = 0;
}

/* The kernel also calls this for an instance refused by init. */
SEC("struct_ops")
void BPF_PROG(fair_destroy, struct Qdisc *sch)
{
	if (TP_STATE.owner == (__u64)sch)
		TP_STATE.owner = 0;
}

SEC(".struct_ops.link")
struct Qdisc_ops fair_qdisc = {
    .id = "tcpilot",
    .enqueue = (void *)fair_enqueue,
    .dequeue = (void *)fair_dequeue,
    .init = (void *)fair_init,
    .reset = (void *)fair_reset,
    .destroy = (void *)fair_destroy,
};
