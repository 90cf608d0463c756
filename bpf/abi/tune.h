/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tune.h - tunings other than the congestion control: kinds, settings, and the state of a path.
 */
#ifndef TCPILOT_ABI_TUNE_H
#define TCPILOT_ABI_TUNE_H

#include "measures.h"

#define TP_TUNES 8 /* room for enum tp_tune */
#define TP_NETS 8  /* room for enum tp_net */

/* The tunings other than the congestion control; bit numbers. */
enum tp_tune {
	TP_TUNE_IW = 0,		  /* initial window from the path's saved window */
	TP_TUNE_RTO = 1,	  /* SYN and minimum RTO from the path's RTT */
	TP_TUNE_RWND = 2,	  /* initial receive window from the path's BDP */
	TP_TUNE_QUICK_ACK = 3,	  /* a bound on delayed acknowledgements */
	TP_TUNE_RATE_LIMIT = 4,	  /* pace at the rate of a policer */
	TP_TUNE_THIN = 5,	  /* linear timeouts after a retransmission */
	TP_TUNE_ACK_PRIORITY = 6, /* pure acknowledgements first at the egress */
	TP_TUNE_COUNT = 7,
};

/* The kind of network on a path. */
enum tp_net {
	TP_NET_UNKNOWN = 0,
	TP_NET_DATA_CENTER = 1,
	TP_NET_WIFI = 2,
	TP_NET_CELLULAR = 3,
	TP_NET_LONG_FAT = 4,
	TP_NET_COUNT = 5,
};

/* The reason for that kind. */
enum tp_net_why {
	TP_NET_WHY_FEW = 0,	  /* too few connections so far */
	TP_NET_WHY_INTERFACE = 1, /* the route leaves by a wireless interface */
	TP_NET_WHY_RTT = 2,	  /* a short and steady round trip */
	TP_NET_WHY_JITTER = 3,	  /* round trips vary about as much as they last */
	TP_NET_WHY_BDP = 4,	  /* a long round trip and a large BDP */
	TP_NET_WHY_NONE = 5,	  /* nothing of the above */
	TP_NET_WHY_COUNT = 6,
};

/* Uses of a tuning.  After so many connections in a row without such a use, none gets the
 * tuning until one shows that it would have been of use. */
#define TP_UNUSED_RUN 128

enum tp_use {
	TP_USE_WINDOW,	/* sent more than the kernel's initial window */
	TP_USE_ACKS,	/* received more than one segment of data */
	TP_USE_RECEIVE, /* received more than the kernel announces at first */
	TP_USES,
};

/* Connections with a tuning, or those from which it was withheld. */
struct tp_cohort {
	__u32 connections;
	__u32 late; /* ended with an RTT of more than twice the path's least */
	__u32 sent_packets;
	__u32 lost_packets;
};

/* A path's state for the tunings, beyond struct tp_path.  It is an array next to the
 * table of paths, and exists only if a policy has a tuning on. */
struct tp_tuned {
	__u64 born_ns; /* of the owning path */
	__u64 brake_ns;
	__u64 limit_rate; /* of a policer; 0: none is known */
	__u64 limit_until_ns;
	struct tp_window32 saved_packets; /* greatest window seen to fit; ssthresh's windows */
	struct tp_window32 receive_bytes; /* the most received per round trip */
	__u32 epoch;			  /* of the two */
	__u32 rttvar_us;		  /* up at once, down by 1/8 */
	__u8 net;
	__u8 net_why;
	__u8 brake; /* the window's excess is divided by 2^brake */
	__u8 off;   /* bit i: the guard has switched tuning i off */
	__u32 clean;
	/* the last values set, and the figures behind them */
	__u32 iw_packets;
	__u32 iw_saved_packets;
	__u32 iw_flows;
	__u32 rto_min_us;
	__u32 syn_rto_us;
	__u32 rwnd_packets;
	__u32 retreats;
	__u32 receive_room_bytes; /* the largest receive window within the memory of tcp_rmem */
	__u32 receive_mss;
	__u32 pad;
	__u32 set[TP_TUNES];
	struct tp_cohort with[TP_TUNES];
	struct tp_cohort without[TP_TUNES];
};

/* The storage of a connection with losses that a policer may cause: the interval under way. */
struct tp_police {
	__u64 start_us;
	__u64 start_bytes;
	__u64 rate; /* of the last lossy interval; 0: none */
	__u32 start_lost;
	__u32 start_sent;
	__u32 round_trips;
	__u8 sampling;
	__u8 paced;
	__u8 pad[2];
};

/* The guard's order, for the pilot to write down. */
struct tp_order {
	__u32 slot; /* of the table of paths */
	__u8 off;
	__u8 brake;
	__u8 pad[2];
	__u64 born_ns;
};

/* The tunings of a policy for a kind of network. */
struct tp_tuning {
	__u8 features;	     /* bit i: enum tp_tune i */
	__u8 iw_careful;     /* RFC 9959's rule instead of the slides' */
	__u8 hold_out_shift; /* one connection in 2^shift goes without; 0: none */
	__u8 rwnd_beta_x8;
	__u32 iw_low_percent; /* load is low below this share of the least RTT */
	__u32 iw_mid_percent;
	__u16 iw_low_divisor;
	__u16 iw_mid_divisor;
	__u16 iw_high_divisor;
	__u16 iw_most_packets;
	__u32 rto_floor_us;
	__u32 syn_rto_floor_us;
	__u32 delack_us;
	__u32 link_mbit;	/* receive direction; 0: measured */
	__u32 probe_s;		/* a policer's rate is believed for so long */
	__u32 rwnd_least_bytes; /* no receive window is lowered below this */
	__u32 rwnd_most_bytes;	/* none is raised above it */
};

TP_ASSERT_SIZE(tp_cohort, 16);
TP_ASSERT_SIZE(tp_tuned, 136 + 32 * TP_TUNES);
TP_ASSERT_SIZE(tp_police, 40);
TP_ASSERT_SIZE(tp_order, 16);
TP_ASSERT_SIZE(tp_tuning, 48);

#endif
