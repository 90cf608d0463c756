/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * learner.h - what the learner keeps for each path and algorithm.
 */
#ifndef TCPILOT_ABI_LEARNER_H
#define TCPILOT_ABI_LEARNER_H

#include "conn.h"
#include "measures.h"

#define TP_COST_SCALE 1000000
#define TP_DECISIONS 8 /* decisions remembered per path; a power of two */

struct tp_arm {
	__u64 cost; /* valid only where samples > 0 */
	struct tp_window64 max_delivery_rate;
	struct tp_window32 min_rtt_us;
	__u32 epoch;   /* of the two windows above */
	__u32 samples; /* connections charged to this arm */
	__u32 chosen;  /* connections that got this arm, charged or not */
	__u32 greedy;  /* of those, chosen as the arm of least cost */
	__u32 unpaid;  /* chosen since the last sample, without giving one */
	__u32 rescued; /* connections of this arm that were rescued */
};

struct tp_decision {
	__u64 at_ns;
	__u8 arm;	   /* TP_NO_ARM: the kernel's default stays */
	__u8 why;	   /* enum tp_why */
	__u16 remote_port; /* host byte order */
	__u16 local_port;
	__u8 flags; /* enum tp_conn_flags */
	__u8 dry_run;
};

TP_ASSERT_SIZE(tp_arm, 56);
TP_ASSERT_SIZE(tp_decision, 16);

#endif
