/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * choices.h - messages between the learner and the choosing programs: choice distributions go
 * down, records come up.  Decisions 18 and 27 have the reasons.
 *
 * A distribution gives the probability of each arm for connections of one node of the learner's
 * tree. A learner writes distributions: thompson in the daemon, or epsilon-greedy in a program.
 * The programs look for the nearest node with one, and send a record of a connection's
 * measures at its end.
 */
#ifndef TCPILOT_ABI_CHOICES_H
#define TCPILOT_ABI_CHOICES_H

#include "base.h"

/* The nodes above a connection, the nearest first.  crates/learner/src/lineage.rs has the
 * lengths of their prefixes. */
enum tp_level {
	TP_LEVEL_PATH = 0,
	TP_LEVEL_GROUP = 1,
	TP_LEVEL_SITE = 2,
	TP_LEVEL_CLASS = 3,  /* no prefix */
	TP_LEVEL_GLOBAL = 4, /* neither prefix nor class */
	TP_LEVEL_NONE = 5,   /* no choice distribution was found, or none is valid */
};
#define TP_LEVELS 5

/* The six words of a node's key, to be hashed: core/choice_dist.h. */
struct tp_node_key {
	__u32 prefix[4]; /* network byte order, host bits 0, IPv4 mapped into IPv6 */
	__u32 domain;	 /* separates paths of one address: tp_domain() */
	__u16 class;	 /* enum tp_class_bits; 0 in the global node */
	__u8 level;	 /* enum tp_level */
	__u8 policy;
};

#define TP_NODE_SECRETS 7 /* of each of the two hashes, see bpf/core/choice_dist.h */

/* Properties that separate paths of one address.  A socket in a container does not show which
 * way the host sends, so a public prefix is one path for all namespaces.  A private prefix may
 * mean another host in each namespace, so it belongs to its own. */
enum tp_separation {
	TP_SEPARATE_PRIVATE = 0, /* private prefixes by their namespace */
	TP_SEPARATE_ALL = 1,	 /* all by their namespace */
	TP_SEPARATE_NONE = 2,
	TP_SEPARATE_EGRESS = 4, /* a bit: the host's own also by the outgoing interface */
};

/* The class of a connection: the properties of its way at the handshake, in few steps.  The
 * bits are those of Class::bits in crates/learner. */
enum tp_class_bits {
	TP_CLASS_RTT = 0,	   /* 5 bits: the octave of the handshake's RTT, core/class.h */
	TP_CLASS_SMALL_WINDOW = 5, /* 1 bit: the peer can offer 64 KiB at most */
	TP_CLASS_ECN = 6,	   /* 2 bits: 0 none, 1 classic (RFC 3168), 2 accurate */
	TP_CLASS_INTERFACE = 8,	   /* 6 bits: 0 any other, 1 wireless */
	TP_CLASS_ACCEPTED = 14,	   /* 1 bit: accept, not connect */
};

#define TP_CHOICE_DIST_WAYS 4 /* choice distributions in a bucket */

/* A draw r of 16 bits, below 0xffff, gets the arm with this number: the count of entries of at
 * most r.  So upto[i] is the probability of arms 0 to i, in parts of 0xffff.  For the last
 * arm that may be drawn, and all later ones, it is 0xffff. */
struct tp_choice_dist {
	__u64 tag; /* the hash of its key; 0: empty; TP_CHOICE_DIST_WRITTEN */
	__u16 upto[TP_MAX_ARMS];
	__u32 generation; /* the daemon's publication of it */
	__u8 level;	  /* enum tp_level */
	__u8 pad;
	__u16 version; /* counts its writes, for readers */
};

#define TP_CHOICE_DIST_WRITTEN 1 /* the tag of a choice distribution being written */

/* The low half of a key's hash names its bucket. */
struct tp_choice_dist_bucket {
	struct tp_choice_dist dist[TP_CHOICE_DIST_WAYS];
};

/* All choice distributions are stale so long after the daemon's last heartbeat. */
#define TP_CHOICE_DISTS_STALE_NS 10000000000ULL

/* Overlapping connections of one path share an assignment, for TP_ASSIGNMENT_MS at most.
 * Otherwise the learner would compare arms that fight for one queue (Spang et al., "Unbiased
 * Experiments in Congested Networks", IMC 2021).  The table has no chains: a path may lose its
 * assignment to another, and then draws again. */
#define TP_ASSIGNMENT_MS 30000
#define TP_ASSIGNMENTS 65536 /* a power of two */

struct tp_assignment {
	__u32 tag;	   /* from the path's hash; 0: empty */
	__u32 live;	   /* open connections that took this assignment or one before it */
	__u32 since;	   /* when it was drawn: ns >> TP_OPENED_SHIFT */
	__u16 probability; /* of the arm, when it was drawn */
	__u8 arm;	   /* plus one; 0: none was drawn yet */
	__u8 most;	   /* the highest live since then; 255: or more */
	/* what the path's next connection would otherwise compute again */
	__u64 hint;   /* of the choice distribution of its last connection: tp_hint() */
	__u16 bucket; /* of its address: tp_assignment_bucket() */
	__u8 pad2[6];
};

/* Facts kept from a connection's start, for its record.  Storage of the socket's own
 * would cost more than all the rest (decision 2).  If all places of a bucket are in use, the
 * oldest is lost; the record of that connection says so, and is rejected. */
struct tp_conn_start {
	__u32 tag;	   /* the kernel's hash of the connection's addresses and ports; 0: empty */
	__u32 rate;	   /* before its FIN, bytes per second >> TP_START_RATE_SHIFT; 0: none */
	__u32 opened;	   /* when: ns >> TP_OPENED_SHIFT */
	__u32 rtt_us;	   /* of the handshake; 0: unknown */
	__u32 path;	   /* the hash of its path: tp_assignment_tag() */
	__u16 class;	   /* enum tp_class_bits */
	__u16 probability; /* of the choice, in parts of 0xffff */
	__u8 arm;	   /* the choice; TP_NO_ARM: the default, not an arm */
	__u8 level;	   /* enum tp_level of the choice distribution */
	__u8 why;	   /* enum tp_why */
	__u8 flags;	   /* enum tp_conn_flags */
	__u8 policy;
	__u8 trial;   /* enum tp_trial */
	__u16 egress; /* the interface separating its path; 0: none */
} __attribute__((aligned(8)));

#define TP_OPENED_SHIFT 20    /* about a millisecond */
#define TP_START_RATE_SHIFT 4 /* of a connection start's rate: units of 16 bytes per second */
#define TP_CONN_START_WAYS 4

/* The low bits of a connection's hash name its bucket. */
struct tp_conn_start_bucket {
	struct tp_conn_start way[TP_CONN_START_WAYS];
};

/* To find out whether steering helps, some connections are held out: they get no choice, no
 * rescue and no tuning.  Groups of addresses (the prefixes of TP_LEVEL_GROUP) fall into assignment
 * buckets by a keyed hash, and the daemon says for each bucket whether new connections are held
 * out. */
#define TP_ASSIGNMENT_BUCKETS 65536 /* a power of two */

/* Bits.  If both are set, the connection is held out, and compared with those that only count. */
enum tp_trial {
	TP_TRIAL_COUNTS = 1,   /* compared with the others: steered as always, unless held out */
	TP_TRIAL_HELD_OUT = 2, /* without COUNTS: the guard has stopped steering here */
};

/* Words of the daemon, and counts of the programs, each in a cache line of their own. */
struct tp_learner_status {
	__u64 heartbeat_ns; /* CLOCK_MONOTONIC, the daemon's last heartbeat; 0: none yet */
	__u64 levels; /* bit i: there are choice distributions of enum tp_level i; programs skip the
			 others */
	__u64 trials; /* the daemon has written some assignment bucket since the start */
	__u64 dists_version; /* another number after each new choice distribution; 0: no
				hint holds */
	__u64 wireless;	     /* the kernel knows wireless devices */
	__u64 pad[3];
	__u64 dropped; /* records without room in the ring */
	__u64 pad2[7];
};

/* How a record's connection ended, or whether it did. */
enum tp_record_flags {
	TP_RECORD_SAMPLE = 1,	 /* the connection lives on; sums are since its beginning */
	TP_RECORD_TIMED_OUT = 2, /* nothing came back any more, with data under way */
	TP_RECORD_RESCUED = 4,	 /* with SAMPLE: it leaves its arm now, after heavy loss */
	TP_RECORD_FORGOTTEN = 8, /* its start was lost: arm, class and probability are not known */
	TP_RECORD_FOREIGN = 16,	 /* its application has chosen since: it does not measure the arm */
	TP_RECORD_TUNED = 32,	 /* its rate is due to a tuned window */
	TP_RECORD_UNDONE = 64,	 /* with SAMPLE: it leaves the rescue's arm, without success */
	TP_RECORD_MOVED = 128,	 /* with SAMPLE: it leaves its arm now for a better one */
};

/* The measures of one connection.  Times in ticks are the kernel's jiffies: the kernel counts
 * them no finer. */
struct tp_record {
	__u32 remote[4]; /* network byte order, IPv4 mapped into IPv6, NAT64 unwrapped */
	__u64 cookie;	 /* of the socket, if something has asked the kernel for it; else 0 */
	__u64 netns_cookie;
	__u64 at_ns;
	__u64 opened_ns;
	__u64 bytes_acked;
	__u64 bytes_received;
	__u32 busy_ticks;   /* data was under way and nothing below was the limit */
	__u32 window_ticks; /* the peer's window was the limit */
	__u32 buffer_ticks; /* our send buffer was the limit */
	__u32 handshake_us; /* round-trip times in microseconds; 0: none */
	__u32 srtt_us;
	__u32 min_rtt_us;
	__u32 segments; /* with data, retransmissions included */
	__u32 retransmitted;
	__u32 ssthresh_packets; /* 0: slow start never ended */
	__u32 rate;	    /* the last sample's, kbyte/s; 0: none, or the application limited it */
	__u16 queued_bouts; /* of loss, with a queue (core/rescue.h) */
	__u16 clear_bouts;  /* and without */
	__u16 class;
	__u16 probability;
	__u16 weight; /* number of ends represented */
	__u8 policy;
	__u8 arm;	 /* the arm to charge: in force at the opening; TP_NO_ARM: none */
	__u8 level;	 /* enum tp_level */
	__u8 why;	 /* enum tp_why */
	__u8 flags;	 /* enum tp_record_flags */
	__u8 conn_flags; /* enum tp_conn_flags */
	__u32 domain;	 /* of its choice distribution's key */
	__u8 trial;	 /* enum tp_trial, at its opening */
	__u8 beside;	 /* open connections of its path at a time, itself included; 0: unknown */
	__u16 egress;	 /* the interface separating its path; 0: none */
};

/* A long connection to be moved to another arm, by its socket's cookie.  The
 * program reporting long connections moves it. */
struct tp_move {
	__u8 from; /* the order is stale if the connection has another arm now */
	__u8 to;
	__u8 pad[6];
};

#define TP_MOVES 256 /* at a time */

#define TP_RECORDS_BYTES (8 << 20) /* of the ring: some 61,000 records */

TP_ASSERT_SIZE(tp_node_key, 24);
TP_ASSERT_SIZE(tp_choice_dist, 32);
TP_ASSERT_SIZE(tp_choice_dist_bucket, 32 * TP_CHOICE_DIST_WAYS);
TP_ASSERT_SIZE(tp_assignment, 32);
TP_ASSERT_SIZE(tp_conn_start, 32);
TP_ASSERT_SIZE(tp_conn_start_bucket, 32 * TP_CONN_START_WAYS);
TP_ASSERT_SIZE(tp_learner_status, 128);
TP_ASSERT_SIZE(tp_record, 128);
TP_ASSERT_SIZE(tp_move, 8);

#endif
