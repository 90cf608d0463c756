/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fair.h - the ABI of `tcpilot watch --fair`.
 */
#ifndef TCPILOT_ABI_FAIR_H
#define TCPILOT_ABI_FAIR_H

#include "base.h"

/* Minors of the classes, below the handle of our qdisc. */
enum tp_fair_minor {
	TP_FAIR_TOP = 1,       /* the rate, if one is given */
	TP_FAIR_ANTS = 2,      /* also everything but data of TCP or UDP */
	TP_FAIR_MICE = 3,      /* also candidates */
	TP_FAIR_UNREPLIED = 4, /* much data, and no reply seen here */
	TP_FAIR_SLOW = 5,      /* delay-based flows above their share */
	TP_FAIR_FIRST = 16,    /* the first of 4k */
	TP_FAIR_MINORS = 16 + 4 * 64,
};

enum tp_fair_action {
	TP_FAIR_NONE = 0,
	TP_FAIR_DROP = 1,   /* one packet per interval */
	TP_FAIR_DELAY = 2,  /* served from the slow queue */
	TP_FAIR_WINDOW = 3, /* the receive window shrinks on its way back */
	TP_FAIR_POLICE = 4, /* every packet above the share: UDP has no other control */
	TP_FAIR_ACTIONS = 5,
};

/* An order of user space for a flow; only user space writes it. */
struct tp_fair_order {
	__u32 share_bytes; /* per interval */
	__u32 interval_us; /* a round trip */
	__u32 window_bytes;
	__u16 minor;
	__u8 group;	   /* enum tp_group, for the counts */
	__u8 action;	   /* enum tp_fair_action, taken while it is above its share */
	__u8 window_scale; /* with TP_FAIR_WINDOW it is known */
	__u8 share_shift;  /* its part of a subscriber's share: 2^-share_shift */
	__u8 is_alone;	   /* in its queue */
	__u8 pad[5];
};

/* The queue of a flow at half its share (core/sparse.h). */
struct tp_sparse {
	__u64 at_ns; /* of the last packet */
	__u64 bytes;
	__u64 until_ns; /* its packets wait in the real queue until then */
};

/* The state of an order; only the programs write it. */
struct tp_fair_state {
	__u64 interval_at_ns;
	__u32 bytes; /* of this interval */
	__u32 edge;  /* right edge of the last window passed on; 0: none yet */
	__u32 acted; /* packets dropped in this interval */
	__u16 hold;  /* intervals for which it still counts as above its share */
	__u16 row;   /* intervals in a row with a drop from it */
	struct tp_sparse sparse;
};

struct tp_fair_counts {
	__u64 acted[8][TP_FAIR_ACTIONS]; /* packets, by enum tp_group and action */
	__u64 classified;
	__u64 without_order;
	__u64 largest_bytes; /* a packet as the qdisc sees it, GSO included */
};

/* A queue's share of the BPF qdisc; only user space writes it. */
struct tp_fair_turn {
	__u32 quantum; /* bytes per turn; 0: there is no such queue */
	__u32 limit;   /* packets, a GSO super-packet is one */
};

/* A queue of the BPF qdisc; only its programs write it. */
struct tp_fair_queue {
	__u64 sent_bytes;
	__u64 sent_packets; /* on the wire */
	__u64 overflows;
	__s64 credit;  /* bytes left of its turn; below 0 it has sent too much */
	__u32 first;   /* slot, 0: none */
	__u32 last;    /* slot */
	__u32 waiting; /* packets, a GSO super-packet is one */
	__u32 next;    /* minor of the queue behind it in line, 0: none */
};

/* User space writes it while the programs run. */
struct tp_fair_control {
	__u64 alive_until_ns; /* later the orders are abandoned, and no action is taken */
	__u64 sparse_rate;    /* half of a share, bytes per second; 0: only ants go first */
	__u32 turn_bytes;     /* what a queue of one flow sends in its turn */
	__u32 pad;
};

/* The mark of a group's packets; all zeros: none. */
struct tp_mark {
	__u32 value; /* of the packet's mark */
	__u32 mask;  /* written bits of the mark */
	__u8 has_dscp;
	__u8 dscp; /* RFC 2474: 6 bits */
	__u8 pad[2];
};

TP_ASSERT_SIZE(tp_mark, 12);
TP_ASSERT_SIZE(tp_fair_order, 24);
TP_ASSERT_SIZE(tp_fair_control, 24);
TP_ASSERT_SIZE(tp_sparse, 24);
TP_ASSERT_SIZE(tp_fair_state, 48);
TP_ASSERT_SIZE(tp_fair_counts, 344);
TP_ASSERT_SIZE(tp_fair_turn, 8);
TP_ASSERT_SIZE(tp_fair_queue, 48);

#endif
