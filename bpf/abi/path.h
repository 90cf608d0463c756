/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * path.h - the table of paths, used only by policies with tunings.
 */
#ifndef TCPILOT_ABI_PATH_H
#define TCPILOT_ABI_PATH_H

#include "conn.h"
#include "measures.h"
#include "tune.h"

#define TP_WAYS 8 /* paths in a bucket of the table; a power of two */

/* Why arms that need ECN (dctcp, prague) may or may not be chosen for a connection. */
enum tp_ecn_use {
	TP_ECN_NOT_NEGOTIATED = 1, /* the peers did not agree on ECN */
	TP_ECN_DATA_CENTER = 2,	   /* the path stays within a data center */
	TP_ECN_PUBLIC = 3,	   /* a public address: only an arm that its policy vouches for */
	TP_ECN_OTHER_NET = 4,	   /* private, but no data center: likewise */
};

/* Key of a path. IPv4 is written as an IPv4-mapped IPv6 address: both kinds of
 * socket towards one host then share its path. */
struct tp_path_key {
	__u64 netns_cookie;
	__u32 prefix[4]; /* network byte order, host bits 0 */
	__u8 prefix_len; /* of the 128 bits: an IPv4 /24 is 120 */
	__u8 policy;
	__u16 egress; /* the interface of a link-local prefix: another link may have another host */
	__u8 pad[4];
};

/* The measures of one connection, taken at its end. */
struct tp_sample {
	__u64 delivery_rate; /* of a connection not limited by the application; 0: none */
	__u32 min_rtt_us;    /* 0: none */
	__u32 srtt_us;
	__u32 ssthresh_packets; /* 0: slow start never ended */
	__u32 sent_packets;
	__u32 lost_packets;
	__u32 pad;
};

struct tp_path {
	__u32 busy;	  /* 1 while a CPU writes the measures below */
	__u32 epoch;	  /* of the windows, except ssthresh's */
	__u64 born_ns;	  /* distinguishes this entry from an evicted namesake */
	__u64 updated_ns; /* last open or close */
	struct tp_window64 max_delivery_rate;
	struct tp_window64 sent_packets; /* sums over a window, not extremes */
	struct tp_window64 lost_packets; /* retransmitted segments */
	struct tp_window32 min_rtt_us;
	struct tp_window32 ssthresh_packets; /* maximum, windows of its own */
	__u32 ssthresh_epoch;
	__u32 srtt_us;	      /* smoothed over connections, gain 1/8 */
	__u32 live_flows;     /* open connections */
	__u32 windowed_flows; /* open connections with storage for a tuned window */
	__u64 connections;    /* all connections ever */
	__u32 netns_inum;     /* inode number of the namespace, to name it */
	__u32 pad;
	__u16 used[TP_USES]; /* number of the last connection that needed enum tp_use i */
	__u8 skips;	     /* bit i: tuning i has nothing to set, or is of no use now */
	__u8 pad2;
};

/* The table of paths: an array of buckets.  A path's hash names its bucket.
 * bpf/pilot/tune/table.h says why it is not a hash map. */
struct tp_slot {
	struct tp_path_key key;
	struct tp_path path;
};

struct tp_bucket {
	__u32 busy; /* 1 while a path is put in */
	__u32 pad;
	__u32 tag[TP_WAYS]; /* of each slot's key; 0: the slot is empty */
	struct tp_slot slot[TP_WAYS];
};

TP_ASSERT_SIZE(tp_path_key, 32);
TP_ASSERT_SIZE(tp_sample, 32);
TP_ASSERT_SIZE(tp_path, 128);
TP_ASSERT_SIZE(tp_slot, 32 + sizeof(struct tp_path));
TP_ASSERT_SIZE(tp_bucket, 8 + TP_WAYS * (4 + sizeof(struct tp_slot)));

#endif
