/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * conn.h - connections: the reason for their algorithm, their storage, a line of
 * `flows`.
 */
#ifndef TCPILOT_ABI_CONN_H
#define TCPILOT_ABI_CONN_H

#include "base.h"

/* The reason for a connection's congestion control. */
enum tp_why {
	TP_WHY_UNSEEN = 0,     /* opened before the pilot started */
	TP_WHY_NO_ARM = 1,     /* no arm is eligible here (ECN, policy) */
	TP_WHY_RESCUED = 2,    /* heavy loss: switched during its life */
	TP_WHY_SET_FAILED = 3, /* the kernel refused the arm */
	TP_WHY_KEPT = 4,       /* the default stayed */
	/* from here to EXCLUDED: the pilot leaves it alone */
	TP_WHY_APPLICATION = 5,	  /* the application set TCP_CONGESTION */
	TP_WHY_ROUTE = 6,	  /* the route has a congctl */
	TP_WHY_ADMINISTRATOR = 7, /* the namespace's default is not ours to replace */
	TP_WHY_LOOPBACK = 8,
	TP_WHY_EXCLUDED = 9,	    /* a rule of the configuration */
	TP_WHY_DRAWN = 10,	    /* drawn by the shares of a choice distribution */
	TP_WHY_NO_CHOICE_DIST = 11, /* the learner knows nothing yet of this path or above it */
	TP_WHY_STALE = 12,	    /* the daemon's last heartbeat is too old */
	TP_WHY_HELD_OUT = 13,	    /* to compare with, or because the guard has stopped steering */
	TP_WHY_UNDONE = 14,	    /* a rescue did not help: it has its former algorithm back */
	TP_WHY_MOVED = 15,	    /* while it was open, to a better arm for its path */
	TP_WHY_COUNT = 16,
};
#define TP_WHY_SLOTS 32 /* a power of two, TP_WHY_COUNT at least */
#define TP_WHY_IS_LEFT_ALONE(why) ((why) >= TP_WHY_APPLICATION && (why) <= TP_WHY_EXCLUDED)

enum tp_conn_flags {
	TP_CONN_ACTIVE = 1,   /* connect, not accept */
	TP_CONN_RESCUED = 2,  /* switched after heavy loss */
	TP_CONN_ASSIGNED = 4, /* counted at its path's assignment; only in a connection start */
	TP_CONN_DRY_RUN = 8,  /* decided, but nothing was set */
	TP_CONN_SIDE_UNKNOWN = 16, /* opened without storage: connect or accept is not known */
	TP_CONN_STEERED = 32, /* its algorithm was set by us or MPTCP; only in a connection start */
	TP_CONN_HELD_OUT = 64, /* no choice, no rescue, no tuning; only in a connection start */
	TP_CONN_MOVED = 128,   /* to a better arm while it was open; only in a connection start */
};

/* The storage of a connection that was tuned, or whose socket may connect again.  Others
 * have none: the start in a table of ours (choices.h) costs less. */
struct tp_conn {
	__u64 path_born_ns;
	__u64 opened_ns;
	__u32 pad;
	__u32 cc_key; /* kernel's key of the algorithm that should be in force */
	__u8 arm;     /* in force; TP_NO_ARM: none */
	__u8 why;     /* enum tp_why */
	__u8 flags;   /* enum tp_conn_flags */
	__u8 open;    /* 1 until its end was seen */
	__u16 iw_packets;
	__u8 tuned; /* bit i: enum tp_tune i was set */
	__u8 phase; /* enum tp_phase, of the initial window */
};

/* RFC 9959's phases, as far as a sockops program sees them. */
enum tp_phase {
	TP_PHASE_NORMAL = 0,
	TP_PHASE_PACED = 1,	  /* the window goes out, spread over half a round trip */
	TP_PHASE_UNVALIDATED = 2, /* it went out; not all of it is acknowledged */
	TP_PHASE_RETREAT = 3,	  /* some of it was lost: the window is clamped */
};

/* One line of `tcpilot flows`, written by the iterator. */
struct tp_flow {
	__u64 netns_cookie;
	__u32 local[4];
	__u32 remote[4];
	__u16 local_port; /* host byte order */
	__u16 remote_port;
	__u8 arm;
	__u8 why;
	__u8 flags;
	__u8 policy;
	char cc[TP_CC_NAME_MAX]; /* read from the socket, not assumed */
	__u64 opened_ns;	 /* 0: not remembered */
	__u64 delivery_rate;
	__u64 bytes_acked;
	__u32 srtt_us;
	__u32 min_rtt_us;
	__u32 sent_packets;
	__u32 lost_packets;
	__u32 cwnd_packets;
	__u32 ssthresh_packets;
	__u32 netns_inum;
	__u32 app_limited;
	__u32 iw_packets; /* 0: the kernel's */
	__u8 tuned;	  /* bit i: enum tp_tune i */
	__u8 phase;
	__u8 pad[2];
	__u64 inode; /* of the socket, 0: its application has closed it */
	__u64 cgroup_id;
};

TP_ASSERT_SIZE(tp_conn, 32);
TP_ASSERT_SIZE(tp_flow, 144);

#endif
