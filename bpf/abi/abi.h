/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * abi.h - every structure that the BPF programs and the daemon share.
 *
 * The only place where such a layout is written: BPF includes it, crates/abi
 * generates its Rust types from it, and the size of each is asserted on both
 * sides.  It is freestanding: whoever includes it has defined __u8 ... __u64.
 *
 * Units are in the names.  Rates are bytes per second, RTTs microseconds,
 * times nanoseconds of CLOCK_MONOTONIC (coarse), costs fixed point with
 * TP_COST_SCALE.  An RTT or a rate of 0 means "no sample".
 */
#ifndef TCPILOT_ABI_H
#define TCPILOT_ABI_H

#define TP_ABI_VERSION 2

#define TP_CC_NAME_MAX 16 /* the kernel's TCP_CA_NAME_MAX, with the final NUL */
#define TP_MAX_ARMS 8
#define TP_MAX_POLICIES 16
#define TP_MAX_RULES 64
#define TP_MAX_DEFAULTS 4
#define TP_WAYS 8	  /* paths in a bucket of the table; a power of two */
#define TP_DECISIONS 8	  /* decisions remembered per path; a power of two */
#define TP_CGROUP_DEPTH 8 /* ancestors looked at when a rule names a cgroup */
#define TP_NO_ARM 0xff
#define TP_TUNES 8 /* room for enum tp_tune */
#define TP_NETS 8  /* room for enum tp_net */
#define TP_COST_SCALE 1000000

/* Why a connection has the congestion control that it has. */
enum tp_why {
	TP_WHY_UNSEEN = 0,	/* opened before the pilot started */
	TP_WHY_FEW = 1,		/* too few connections to learn from yet */
	TP_WHY_UNTRIED = 2,	/* an arm without a sample, drawn among those */
	TP_WHY_GREEDY = 3,	/* the arm of least cost */
	TP_WHY_EXPLORE = 4,	/* one in epsilon, drawn among all arms */
	TP_WHY_NO_ARM = 5,	/* no arm is eligible here (ECN, policy) */
	TP_WHY_NO_EVIDENCE = 6, /* every arm was tried, none gave a sample */
	TP_WHY_RESCUED = 7,	/* heavy loss: switched during its life */
	TP_WHY_SET_FAILED = 8,	/* the kernel refused the arm */
	TP_WHY_KEPT = 9,	/* the default stayed; the path's decisions tell why */
	/* from here on: left alone */
	TP_WHY_APPLICATION = 10,   /* the application set TCP_CONGESTION */
	TP_WHY_ROUTE = 11,	   /* the route has a congctl */
	TP_WHY_ADMINISTRATOR = 12, /* the namespace's default is not ours to replace */
	TP_WHY_LOOPBACK = 13,
	TP_WHY_EXCLUDED = 14, /* a rule of the configuration */
	TP_WHY_COUNT = 15,
};
#define TP_WHY_SLOTS 16 /* a power of two above TP_WHY_COUNT */

/* What went wrong or was given up, counted since the start. */
enum tp_trouble {
	TP_TROUBLE_SET_FAILED = 0, /* bpf_setsockopt refused an arm or a rescue */
	TP_TROUBLE_NO_STORAGE = 1, /* no memory for the connection's storage */
	TP_TROUBLE_NO_PATH = 2,	   /* the path could not be stored */
	TP_TROUBLE_EVICTED = 3,	   /* a changed connection's path had been evicted */
	TP_TROUBLE_CONTENDED = 4,  /* a sample given up: another CPU held the path */
	TP_TROUBLE_THIN = 5,	   /* thin linear timeouts are not supported */
	TP_TROUBLE_CB_FLAGS = 6,   /* the end of a connection will not be seen */
	TP_TROUBLE_COUNT = 7,
};

/* What is tuned beside the congestion control; bit numbers. */
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

/* What kind of network a path crosses. */
enum tp_net {
	TP_NET_UNKNOWN = 0,
	TP_NET_DATA_CENTER = 1,
	TP_NET_WIFI = 2,
	TP_NET_CELLULAR = 3,
	TP_NET_LONG_FAT = 4,
	TP_NET_COUNT = 5,
};

/* What that was inferred from. */
enum tp_net_why {
	TP_NET_WHY_FEW = 0,	  /* too few connections so far */
	TP_NET_WHY_INTERFACE = 1, /* the route leaves by a wireless interface */
	TP_NET_WHY_RTT = 2,	  /* a short and steady round trip */
	TP_NET_WHY_JITTER = 3,	  /* round trips vary about as much as they last */
	TP_NET_WHY_BDP = 4,	  /* a long round trip and a large BDP */
	TP_NET_WHY_NONE = 5,	  /* nothing of the above */
	TP_NET_WHY_COUNT = 6,
};

/* Key of a path. IPv4 is written as an IPv4-mapped IPv6 address, so that both
 * kinds of socket towards one host share its path. */
struct tp_path_key {
	__u64 netns_cookie;
	__u32 prefix[4]; /* network byte order, host bits 0 */
	__u8 prefix_len; /* of the 128 bits: an IPv4 /24 is 120 */
	__u8 policy;
	__u8 pad[6];
};

/* The extremes of a measure over this window and the one before; a sample is
 * dropped after one to two windows.  The epochs are kept by the owner. */
struct tp_window64 {
	__u64 current;
	__u64 previous;
};

struct tp_window32 {
	__u32 current;
	__u32 previous;
};

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

/* What a tuning is of use for.  After so many connections in a row for which it
 * was of none, no connection gets it till one shows that it would have been. */
#define TP_UNUSED_RUN 128

enum tp_use {
	TP_USE_WINDOW,	/* sent more than the kernel's initial window */
	TP_USE_ACKS,	/* received more than one segment of data */
	TP_USE_RECEIVE, /* received more than the kernel announces at first */
	TP_USES,
};

struct tp_path {
	__u32 busy;	  /* 1 while a CPU writes the measures below */
	__u32 epoch;	  /* of the windows, except ssthresh's */
	__u64 born_ns;	  /* tells this entry from an evicted namesake */
	__u64 updated_ns; /* last open or close */
	struct tp_window64 max_delivery_rate;
	struct tp_window64 sent_packets; /* sums over a window, not extremes */
	struct tp_window64 lost_packets; /* retransmitted segments */
	struct tp_window32 min_rtt_us;
	struct tp_window32 ssthresh_packets; /* maximum, windows of its own */
	__u32 ssthresh_epoch;
	__u32 srtt_us;	    /* smoothed over connections, gain 1/8 */
	__u32 live_flows;   /* open connections */
	__u32 instances;    /* connections that told something: see min_flow_bytes */
	__u64 connections;  /* all connections ever */
	__u32 netns_inum;   /* inode number of the namespace, to name it */
	__u32 decision_seq; /* next slot of decisions, modulo TP_DECISIONS */
	/* The greedy choice as it was found last: arms to draw among, the reason in
	 * the next byte, and those that were eligible in the next; 0: find it anew. */
	__u32 greedy;
	__u32 windows;	     /* open connections whose storage a tuned window made */
	__u16 used[TP_USES]; /* the connection, by number, that last made use of something */
	__u8 skips;	     /* bit i: tuning i has nothing to set, or is of no use now */
	__u8 pad;
	struct tp_decision decisions[TP_DECISIONS];
	struct tp_arm arms[TP_MAX_ARMS];
};

/* The table of paths: an array of buckets, a path is in the bucket that its
 * hash names.  bpf/pilot/table.h tells why it is not a hash map. */
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

enum tp_conn_flags {
	TP_CONN_ACTIVE = 1,	   /* connect, not accept */
	TP_CONN_RESCUED = 2,	   /* switched after heavy loss */
	TP_CONN_LOSS_SEEN = 4,	   /* the loss rule has spoken: once per connection */
	TP_CONN_DRY_RUN = 8,	   /* decided, but nothing was set */
	TP_CONN_SIDE_UNKNOWN = 16, /* rescued later: connect or accept was not kept */
};

/* What is remembered of a connection whose algorithm the pilot changed, in its
 * socket's storage.  One that kept its default has none: what its end needs to
 * know can be read from the socket, and storage costs more than all the rest. */
struct tp_conn {
	__u64 path_born_ns;
	__u64 opened_ns;
	__u32 rescue_min_rtt_us;
	__u32 cc_key; /* kernel's key of the algorithm that should be in force */
	__u8 arm;     /* the arm to charge; TP_NO_ARM: none */
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
	TP_PHASE_PACED = 1,	  /* the window goes out, spread over a round trip */
	TP_PHASE_UNVALIDATED = 2, /* it went out; not all of it is acknowledged */
	TP_PHASE_RETREAT = 3,	  /* some of it was lost: the window is clamped */
};

/* A tuning's connections, or those held out from it. */
struct tp_cohort {
	__u32 connections;
	__u32 late; /* ended with an RTT of more than twice the path's least */
	__u32 sent_packets;
	__u32 lost_packets;
};

/* What the tunings know of a path beyond struct tp_path: an array beside the
 * table of paths, there only where a policy has a tuning on. */
struct tp_tuned {
	__u64 born_ns; /* of the path that this belongs to */
	__u64 brake_ns;
	__u64 limit_rate; /* of a policer; 0: none is known */
	__u64 limit_until_ns;
	struct tp_window32 saved_packets; /* greatest window seen to fit; ssthresh's windows */
	struct tp_window32 receive_bytes; /* received per round trip at most */
	__u32 epoch;			  /* of the two */
	__u32 rttvar_us;		  /* up at once, down by 1/8 */
	__u8 net;
	__u8 net_why;
	__u8 brake; /* the window's excess is divided by 2^brake */
	__u8 off;   /* bit i: the guard has switched tuning i off */
	__u32 clean;
	/* what was set last, and from which figures */
	__u32 iw_packets;
	__u32 iw_saved_packets;
	__u32 iw_flows;
	__u32 rto_min_us;
	__u32 syn_rto_us;
	__u32 rwnd_packets;
	__u32 retreats;
	__u32 receive_room_bytes; /* the largest receive window that tcp_rmem has memory for */
	__u32 receive_mss;
	__u32 pad;
	__u32 set[TP_TUNES];
	struct tp_cohort with[TP_TUNES];
	struct tp_cohort without[TP_TUNES];
};

/* Of a connection whose losses may be a policer's: the interval under way. */
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

struct tp_policy_config {
	__u8 arms; /* bit i: arm i may be chosen */
	__u8 leave_alone;
	__u8 prefix_len_ipv4_private; /* of the 32 bits */
	__u8 prefix_len_ipv4_public;
	__u8 prefix_len_ipv6_private;
	__u8 prefix_len_ipv6_public;
	__u8 net; /* enum tp_net where it is configured; TP_NET_UNKNOWN: inferred */
	__u8 pad;
};

/* One condition of a policy; the first rule that matches decides. 0 in a
 * field, or a mask of 0, matches everything. */
struct tp_rule {
	__u32 prefix[4];
	__u32 mask[4];
	__u64 cgroup_id;
	__u32 netns_inum;
	__u16 local_port_first;
	__u16 local_port_last;
	__u16 remote_port_first;
	__u16 remote_port_last;
	__u8 policy;
	__u8 disabled; /* its cgroup or namespace is not there now */
	__u8 pad[2];
};

/* Written once before loading. abi_version 0: the loader forgot, do nothing. */
struct tp_config {
	__u32 abi_version;
	__u32 epsilon;		 /* one connection in so many explores; 0: never */
	__u32 min_instances;	 /* connections before the first learned choice */
	__u32 learning_shift;	 /* the learning rate is 1 / 2^shift */
	__u32 loss_shift;	 /* the loss rule's bound is 1 / 2^shift */
	__u32 loss_min_segments; /* no rescue before so many segments were sent */
	__u64 window_ns;
	__u64 ssthresh_window_ns;
	__u32 ssthresh_floor_packets;
	__u32 max_unpaid; /* an arm without a sample stops being hopeful */
	__u64 min_flow_bytes;
	__u8 arms;
	__u8 policies;
	__u8 rules;
	__u8 rules_use_cgroups;
	__u8 dry_run;
	__u8 manage_loopback;
	__u8 ecn_arms;	  /* bit i: arm i may be chosen only where ECN was negotiated */
	__u8 rescue_thin; /* thin linear timeouts with the rescue */
	__u8 defaults;	  /* how many of replace_defaults are given */
	__u8 rules_use_netns;
	__u8 tunes; /* bit i: some policy has enum tp_tune i */
	__u8 pad[5];
	__u64 hash_seed;
	__u32 buckets; /* a power of two */
	__u32 pad2;
	__u64 cgroup_id;		/* the cgroup that is steered; 0: the root */
	char rescue_cc[TP_CC_NAME_MAX]; /* empty: no rescue */
	char replace_defaults[TP_MAX_DEFAULTS][TP_CC_NAME_MAX];
	char arm[TP_MAX_ARMS][TP_CC_NAME_MAX];
	struct tp_policy_config policy[TP_MAX_POLICIES];
	struct tp_tuning tuning[TP_MAX_POLICIES][TP_NETS];
};

struct tp_counters {
	__u64 connections[TP_WHY_SLOTS]; /* by reason, at their opening */
	__u64 rescues;
	__u64 thin_only; /* heavy loss, already on the rescue algorithm */
	__u64 closed;
	__u64 charged;
	__u64 paths; /* slots in use */
	__u64 trouble[TP_TROUBLE_COUNT];
	__u64 tuned[TP_TUNES];
	__u64 refused[TP_TUNES]; /* by the kernel */
	__u64 retreats;
	__u64 acks_first;
	__u64 last_loss_ns; /* when a packet was lost last; no count */
};

struct tp_clocks {
	__u64 ticks; /* the kernel's jiffies */
	__u64 now_ns;
};

#include "abi_watch.h"
#include "abi_fair.h"

#define TP_ASSERT_SIZE(type, bytes) _Static_assert(sizeof(struct type) == (bytes), #type)
TP_ASSERT_SIZE(tp_path_key, 32);
TP_ASSERT_SIZE(tp_arm, 56);
TP_ASSERT_SIZE(tp_decision, 16);
TP_ASSERT_SIZE(tp_path, 136 + 16 * TP_DECISIONS + 56 * TP_MAX_ARMS);
TP_ASSERT_SIZE(tp_slot, 32 + sizeof(struct tp_path));
TP_ASSERT_SIZE(tp_bucket, 8 + TP_WAYS * (4 + sizeof(struct tp_slot)));
TP_ASSERT_SIZE(tp_conn, 32);
TP_ASSERT_SIZE(tp_flow, 128);
TP_ASSERT_SIZE(tp_cohort, 16);
TP_ASSERT_SIZE(tp_tuned, 136 + 32 * TP_TUNES);
TP_ASSERT_SIZE(tp_police, 40);
TP_ASSERT_SIZE(tp_order, 16);
TP_ASSERT_SIZE(tp_tuning, 48);
TP_ASSERT_SIZE(tp_policy_config, 8);
TP_ASSERT_SIZE(tp_rule, 56);
TP_ASSERT_SIZE(tp_config, 432 + 48 * TP_NETS * TP_MAX_POLICIES);
TP_ASSERT_SIZE(tp_clocks, 16);
TP_ASSERT_SIZE(tp_counters, 224 + 16 * TP_TUNES + 24);
TP_ASSERT_SIZE(tp_watch_key, 40);
TP_ASSERT_SIZE(tp_watch_counts, 56);
TP_ASSERT_SIZE(tp_round, 120);
TP_ASSERT_SIZE(tp_interval, 56);
TP_ASSERT_SIZE(tp_opened, 64);
TP_ASSERT_SIZE(tp_fair_order, 24);
TP_ASSERT_SIZE(tp_fair_state, 24);
TP_ASSERT_SIZE(tp_fair_counts, 344);
TP_ASSERT_SIZE(tp_fair_turn, 8);
TP_ASSERT_SIZE(tp_fair_queue, 48);

#endif
