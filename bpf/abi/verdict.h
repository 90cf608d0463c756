/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * verdict.h - the verdict of `tcpilot watch` on a flow, and its basis: the model, and the shape
 * of the flow's behaviour.
 */
#ifndef TCPILOT_ABI_VERDICT_H
#define TCPILOT_ABI_VERDICT_H

#include "base.h"

#define TP_FEATURES 128	    /* of a flow at most; a power of two */
#define TP_MODEL_CLASSES 20 /* most algorithms in a model */
#define TP_MODEL_TREES 32
#define TP_MODEL_NODES 65536  /* a power of two */
#define TP_MODEL_LEAVES 32768 /* a power of two */
#define TP_NO_CLASS 0xff

/* A node asks whether a feature is above a threshold: if so, child + 1 is next, else child.
 * A leaf's child is its index among the leaves. */
struct tp_node {
	__s32 threshold;
	__u16 child;
	__u8 feature;
	__u8 is_leaf;
};

/* A model's training paths: bounds, both included.  most 0: not known. */
enum tp_range_of {
	TP_RANGE_RTT = 0,   /* the least round trip, microseconds */
	TP_RANGE_RATE = 1,  /* of the link, bytes per second */
	TP_RANGE_QUEUE = 2, /* the longest sojourn over the least round trip, x256 */
	TP_RANGE_COUNT = 3,
};

struct tp_range {
	__u32 least;
	__u32 most;
};

/* A forest; user space writes it as a map's content.  trees 0: there is no forest. */
struct tp_model {
	__u32 trees;
	__u32 classes;
	struct tp_range range[TP_RANGE_COUNT]; /* by enum tp_range_of */
	__u32 root[TP_MODEL_TREES];
	__u8 group[TP_MODEL_CLASSES]; /* enum tp_group of each class */
	struct tp_node node[TP_MODEL_NODES];
	__u8 leaf[TP_MODEL_LEAVES][TP_MODEL_CLASSES]; /* of 255 */
};

/* The classifier's verdict. */
struct tp_verdict {
	__u8 group;	 /* enum tp_group */
	__u8 reason;	 /* enum tp_watch_reason */
	__u8 name;	 /* class of the model; TP_NO_CLASS: none */
	__u8 confidence; /* of the name, of 255 */
	__u8 candidate;	 /* the next group, if enough rounds vote for it */
	__u8 seen;	 /* rounds in a row for the candidate */
	__u8 group_confidence;
	__u8 voted_rounds;	       /* whose votes are in those below; 16: 16 or more */
	__u32 since_round;	       /* round in which it entered the group */
	__u16 votes[TP_MODEL_CLASSES]; /* smoothed over rounds, of 65280 */
};

/* A shape: the behaviour of a flow over its rounds (bpf/core/watch/shape.h). */
#define TP_SHAPE_ROUNDS 16 /* remembered; a power of two */
#define TP_SHAPE_PHASES 6  /* of an epoch between two losses */
#define TP_MEANS 32	   /* a power of two */

/* The means in a shape.  Growth is in packets x256 per round. */
enum tp_mean {
	TP_GROWTH_PHASE = 0,   /* 6: by rounds since the loss */
	TP_GROWTH_SHORT = 6,   /* while the queue is short */
	TP_GROWTH_LONG = 7,    /* while it is long */
	TP_GROWTH_SECOND = 8,  /* 3: within a second of the loss, within two, later */
	TP_GROWTH_PLACE = 11,  /* 4: window below 3/4, 9/10, 1 of the one before a loss, or above */
	TP_GROWTH_RISING = 15, /* while the queue rises */
	TP_GROWTH_FALLING = 16, /* while it falls */
	TP_GROWTH_ALL = 17,
	TP_GROWTH_EPOCH = 18,	/* from a loss to the next */
	TP_RESPONSE = 19,	/* window after a loss over the one before, x256 */
	TP_REFILL = 20,		/* window after a loss over the path's BDP, x256 */
	TP_LOST_ELSEWHERE = 21, /* losses without a drop here, x256 of all */
	TP_GROWTH_SMALL = 22,	/* while the window is small */
	TP_GROWTH_LARGE = 23,	/* while it is not */
	TP_GROWTH_LOWER = 24,	/* while the queue is shorter than its mean */
	TP_GROWTH_HIGHER = 25,	/* while it is longer */
	TP_OFF_CUBIC = 26,	/* distance from CUBIC's curve, of the window x256 */
	TP_OF_HTCP = 27,	/* growth by H-TCP's law */
	TP_OF_ILLINOIS = 28,	/* growth by Illinois' law */
	TP_OF_BIC = 29,		/* growth by BIC's law */
	TP_RATE_OFF = 30,	/* distance from the mean rate, of it x256 */
	TP_GAP = 31,		/* longest pause over the round trip, x256 */
};

/* A detector of PROBE_RTT: falls of the window at a period (bpf/core/watch/probe_rtt.h). */
struct tp_probe_rtt {
	__u32 at_us;	/* start of the last complete fall */
	__u32 low_us;	/* length of the one under way */
	__u32 before;	/* window before that one */
	__u8 intervals; /* in a row of BBR's length */
	__u8 is_known;	/* at_us is the time of a fall */
	__u8 pad[2];
};

struct tp_shape {
	__u32 window[TP_SHAPE_ROUNDS]; /* packets x16 */
	__u32 queue[TP_SHAPE_ROUNDS];  /* mean sojourn, microseconds */
	__u32 own[TP_SHAPE_ROUNDS];    /* own packets in the queue x16 */
	__s32 mean[TP_MEANS];	       /* by enum tp_mean */
	__u8 known[TP_MEANS];	       /* samples of each, bounded */
	__u32 rounds;
	__u32 losses; /* events: rounds with loss in a row are one */
	__u32 since_loss;
	__u32 since_loss_us;
	__u32 epoch_us; /* from a loss to the next */
	__u32 lost_in_event;
	__u32 window_before; /* the last loss */
	__u32 queue_mean;    /* sojourn, over about 16 rounds */
	__u32 queue_before;  /* the last loss, mean sojourn */
	__u32 dropped_in_event;
	__u32 window_after;  /* the last loss */
	__u32 window_max;    /* forgets a 64th each round */
	__u32 response_last; /* window after a loss over the one before, x256 */
	__u32 responses;
	__u32 base_response; /* packets sent again in a loss over the window, x256 */
	__u32 backoffs;	     /* falls of the window without a loss */
	__u32 backoff_share; /* x65536: share of rounds with one */
	__u32 flat;	     /* x65536: rounds without growth */
	__u32 again;	     /* x65536: rounds with loss */
	__u32 idle;	     /* x65536: rounds with a long pause */
	__u32 limited;	     /* x65536: rounds at the receiver's window */
	__u32 burst;	     /* x65536: packets in bursts */
	__u32 queue_share;   /* x65536: mean sojourn over the longest seen */
	__u32 ripple;	     /* x65536: swing of the rate */
	__u32 rate_max;
	__u32 rate_min;
	__u32 own_queue; /* packets x16 in the queue */
	__u32 dips;	 /* falls to four packets without a loss */
	__u32 slow_start_rounds;
	__u8 start_over;
	__u8 in_dip;
	__u8 is_paced; /* its rate does not depend on the queue: see tp_shape_pace() */
	__u8 pad;
	struct tp_probe_rtt deep; /* to four packets: BBR's */
	struct tp_probe_rtt half; /* to a half: BBRv3's */
	__u32 clock_us;		  /* of all rounds; wraps */
	__u32 rtt_before_us;	  /* of the round before */
	__u32 queue_responses; /* x16: times that others made the queue longer, and it gave way */
	__u32 rate_mean;       /* bytes per millisecond, over about eight rounds */
	__u32 steady_rounds;   /* in a row at that rate, without a loss */
	__u32 steady_rtt_us;   /* the longest round trip in them */
	__u32 steady_least_us; /* the least since it fell by a fifth; 0: it has not */
	__u32 backlog;	       /* packets x16 in the queue, by rate and sojourn */
	__u32 cubic_ms;	       /* CUBIC's K after the last loss; 0: not known */
	__u32 response_spread; /* x256: distance of responses from their mean */
	__u32 marked;	       /* x65536: acknowledgements with ECN's echo */
	__u32 resumed;	       /* rounds when light tracking last ended; 0: never */
};

#endif
