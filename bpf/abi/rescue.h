/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * rescue.h - the state of a connection with losses, and of a path on which a rescue
 * did not help.  core/rescue.h has the rules.
 */
#ifndef TCPILOT_ABI_RESCUE_H
#define TCPILOT_ABI_RESCUE_H

#include "base.h"

enum tp_rescue_phase {
	TP_RESCUE_WATCHED = 0,
	TP_RESCUE_TRIED = 1, /* switched; the effect is not known yet */
	TP_RESCUE_KEPT = 2,  /* it helped: the watch is over */
};

/* The meaning of a retransmission. */
enum tp_loss_verdict {
	TP_VERDICT_NONE = 0,
	TP_VERDICT_SWITCH = 1, /* loss lasts, and the connection does not cause it */
	TP_VERDICT_HELPED = 2,
	TP_VERDICT_UNDO = 3,  /* the switch did not help */
	TP_VERDICT_OWN = 4,   /* it came with a queue, filled by it or its neighbours */
	TP_VERDICT_EARLY = 5, /* as SWITCH, if the learner has little hope for its algorithm */
};

/* The reason not to rescue a connection after all. */
enum tp_withheld {
	TP_WITHHELD_POLICY = 0,	     /* not in the policy, or the application has chosen */
	TP_WITHHELD_ALREADY = 1,     /* it has the algorithm already, or one like it */
	TP_WITHHELD_CHOICE_DIST = 2, /* that algorithm did worse on the path, or in its group */
	TP_WITHHELD_FAILED = 3,	     /* the last rescue on this path did not help */
	TP_WITHHELD_STALE = 4,	     /* the daemon's last heartbeat is too old */
	TP_WITHHELD_COUNT = 5,
};
#define TP_WITHHELD_SLOTS 8 /* a power of two above TP_WITHHELD_COUNT */

/* The storage of a connection with lost packets: the stretch under way. */
struct tp_rescue {
	__u64 bytes_acked; /* at its beginning, and so sent, lost and busy_ticks */
	__u64 before;	   /* utility of a tick before the switch */
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
	__u16 queued;		 /* all bouts with a queue */
	__u16 clear;		 /* all without */
	__u32 pad;
};

enum tp_rescue_flags {
	TP_RESCUE_OWN = 1,	/* counted: it caused its loss itself */
	TP_RESCUE_WITHHELD = 2, /* counted: a rescue was not made */
	TP_RESCUE_THIN = 4,	/* its timeouts were made linear with the switch */
	TP_RESCUE_RESTART = 8,	/* a slow start ended within the stretch */
};

/* An entry for a path on which a rescue did not help.  The table has no chains: a path may
 * lose its place to another, and is rescued once more then. */
#define TP_REFUSALS 4096 /* a power of two */

struct tp_refusal {
	__u32 tag;   /* of the path's hash, the same as its assignment's; 0: empty */
	__u32 since; /* the last failure: ns >> TP_OPENED_SHIFT */
	__u32 times; /* failures in a row */
	__u32 pad;
};

TP_ASSERT_SIZE(tp_rescue, 64);
TP_ASSERT_SIZE(tp_refusal, 16);

#endif
