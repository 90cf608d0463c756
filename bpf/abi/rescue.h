/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * rescue.h - the state of a connection that loses packets, and of a path whose rescue did not
 * help.  With the learner in the daemon; core/rescue.h has the rules.
 */
#ifndef TCPILOT_ABI_RESCUE_H
#define TCPILOT_ABI_RESCUE_H

#include "base.h"

enum tp_rescue_phase {
	TP_RESCUE_WATCHED = 0,
	TP_RESCUE_TRIED = 1, /* switched; not yet known whether that helps */
	TP_RESCUE_KEPT = 2,  /* it helped: nothing is asked any more */
};

/* The meaning of a retransmission. */
enum tp_loss_verdict {
	TP_VERDICT_NONE = 0,
	TP_VERDICT_SWITCH = 1, /* loss lasts, and is not the connection's own making */
	TP_VERDICT_HELPED = 2,
	TP_VERDICT_UNDO = 3, /* the switch did not help */
	TP_VERDICT_OWN =
	    4, /* it came with a queue: the connection filled that, or its neighbours */
};

/* Why a rescue was not made after all. */
enum tp_withheld {
	TP_WITHHELD_POLICY = 0,	 /* the policy has none, or not that algorithm */
	TP_WITHHELD_ALREADY = 1, /* it has that algorithm */
	TP_WITHHELD_ROW = 2,	 /* the path, or its group, has shown that algorithm to be worse */
	TP_WITHHELD_FAILED = 3,	 /* the last rescue on this path did not help */
	TP_WITHHELD_VOID = 4,	 /* the daemon has not said for too long that it is alive */
	TP_WITHHELD_COUNT = 5,
};
#define TP_WITHHELD_SLOTS 8 /* a power of two above TP_WITHHELD_COUNT */

/* Of a connection that has lost packets, in its socket's storage: the stretch under way. */
struct tp_rescue {
	__u64 bytes_acked; /* as it began, as the next three */
	__u64 before;	   /* worth of a tick before the switch */
	__u32 sent;
	__u32 lost;
	__u32 busy_ticks;
	__u32 bout; /* the last one */
	__u32 ssthresh;
	__u8 bouts;		 /* in a row that count */
	__u8 phase;		 /* enum tp_rescue_phase */
	__u8 arm;		 /* before the switch */
	__u8 flags;		 /* enum tp_rescue_flags */
	char cc[TP_CC_NAME_MAX]; /* before the switch: it may be no arm */
};

enum tp_rescue_flags {
	TP_RESCUE_OWN = 1,	/* counted: its loss was of its own making */
	TP_RESCUE_WITHHELD = 2, /* counted: a rescue was not made */
	TP_RESCUE_THIN = 4,	/* its timeouts were made linear with the switch */
};

/* Of a path whose rescue did not help.  A table without chains: a path may lose its place to
 * another, and is rescued once more. */
#define TP_REFUSALS 4096 /* a power of two */

struct tp_refusal {
	__u32 tag;   /* of the path's hash, as that of its draw; 0: empty */
	__u32 since; /* the last failure: ns >> TP_OPENED_SHIFT */
	__u32 times; /* failures in a row */
	__u32 pad;
};

TP_ASSERT_SIZE(tp_rescue, 56);
TP_ASSERT_SIZE(tp_refusal, 16);

#endif
