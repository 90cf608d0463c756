/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * watch.h - the ABI of `tcpilot watch`.
 *
 * Times are nanoseconds of CLOCK_MONOTONIC, packets are those on the wire (a
 * GSO super-packet counts as its segments), ports host byte order.
 */
#ifndef TCPILOT_ABI_WATCH_H
#define TCPILOT_ABI_WATCH_H

#include "verdict.h"
#include "measures.h"

#define TP_WATCH_ABI_VERSION 1

/* The groups of P4air.  docs/understand/decisions/13-fair.md says how they become queues. */
enum tp_group {
	TP_GROUP_UNKNOWN = 0,	 /* no group: tp_watch_reason says why */
	TP_GROUP_ANT = 1,	 /* sparse, not bulk */
	TP_GROUP_MOUSE = 2,	 /* in slow start */
	TP_GROUP_LOSS = 3,	 /* fills the queue until it loses */
	TP_GROUP_DELAY = 4,	 /* backs off when the queue grows */
	TP_GROUP_LOSS_DELAY = 5, /* hybrid: both */
	TP_GROUP_MODEL = 6,	 /* hybrid: follows a model of the path (BBR) */
	TP_GROUP_UDP = 7,	 /* UDP but QUIC; with P4air's rules QUIC, too */
	TP_GROUP_COUNT = 8,
};

/* Why a flow is in its group. */
enum tp_watch_reason {
	TP_REASON_NEW = 0,	   /* too little was seen yet */
	TP_REASON_SPARSE = 1,	   /* few packets per round trip */
	TP_REASON_SLOW_START = 2,  /* grows exponentially */
	TP_REASON_RULE = 3,	   /* a certain case: see docs/use/watch.md */
	TP_REASON_MODEL = 4,	   /* the trees */
	TP_REASON_P4AIR = 5,	   /* P4air's counters */
	TP_REASON_UNSURE = 6,	   /* no rule holds, and the trees do not agree */
	TP_REASON_NO_QUEUE = 7,	   /* it never had a queue here */
	TP_REASON_RECEIVER = 8,	   /* its receiver's window is the limit */
	TP_REASON_APPLICATION = 9, /* it pauses: its application is the limit */
	TP_REASON_ONE_WAY = 10,	   /* no acknowledgement passes here */
	TP_REASON_UDP = 11,	   /* neither TCP nor QUIC */
	TP_REASON_OUTSIDE = 12,	   /* the trees, on a path beyond their training paths */
	TP_REASON_SHARE = 13,	   /* the sender's share of the round trip is not known */
	TP_REASON_COUNT = 14,
};

enum tp_classifier {
	TP_CLASSIFIER_TCPILOT = 0,
	TP_CLASSIFIER_P4AIR = 1,
};

/* A flow's key, as in its queued packets: from the sender's side. */
struct tp_watch_key {
	__u32 source[4]; /* IPv4 as IPv4-mapped IPv6, network byte order */
	__u32 destination[4];
	__u16 source_port;
	__u16 destination_port;
	__u8 protocol; /* of IP: 6 or 17 */
	__u8 pad[3];
};

/* P4air's state of a flow (bpf/core/watch/p4air.h). */
struct tp_p4air {
	__u32 rtt_us; /* from the handshake, fixed; 0: not known */
	__u32 packets_before;
	__u32 queue_before_us;
	__u8 group;	     /* enum tp_group */
	__u8 aggressiveness; /* intervals in a row in which the queue rose */
	__u8 bandwidth;	   /* intervals in which the rate grew by an eighth, since the last loss */
	__u8 reclassified; /* times */
	__u32 intervals;
	__u32 group_since; /* interval */
};

/* Counts of a flow from its start on; they wrap. */
struct tp_watch_counts {
	__u32 in_packets; /* before the queue, including those dropped there */
	__u32 in_bytes;
	__u64 sojourn_sum_us; /* over the timed packets */
	__u32 sojourn_samples;
	__u32 dropped_packets; /* by the kernel's reports; counted when a later packet comes out */
	__u32 again_packets;   /* retransmitted, by sequence numbers */
	__u32 burst_packets;   /* closer to their predecessor than a quarter of the mean gap */
	__u32 acks;
	__u32 acked_bytes;
	__u32 marked_acks; /* with ECN's echo */
	__u32 pad;
};

/* A round: from a packet's queueing to the acknowledgement that passes it,
 * and the sender's share of the round trip, as the handshake showed it. */
struct tp_round {
	__u32 kind; /* TP_RECORD_ROUND */
	__u32 flow; /* its id */
	__u64 end_ns;
	__u32 number;
	__u32 duration_us; /* since the last round's end */
	__u32 rtt_us;
	__u32 min_rtt_us;
	__u32 in_packets;
	__u32 in_bytes;
	__u32 backlog_bytes; /* of QUIC: own bytes in the queue, in minus out, the mean */
	__u32 link_used;     /* x256: what leaves of what can; 0: not known */
	__u32 acks;
	__u32 acked_bytes;
	__u32 marked_acks;
	__u32 again_packets;
	__u32 dropped_packets;
	__u32 burst_packets;
	__u32 sojourn_samples;
	__u32 sojourn_min_us;
	__u32 sojourn_max_us;
	__u32 sojourn_mean_us;
	__u32 flight_max_bytes; /* the sender's most bytes in flight: bpf/core/watch/whole.h */
	__u32 flight_end_bytes;
	__u32 receiver_window_bytes; /* as last advertised; 0: not known */
	__u32 segment_bytes;	     /* payload of its largest packet */
	__u32 gap_max_us;	     /* longest pause between two packets */
	__u32 link_queue_us;	     /* longest recent sojourn of any flow */
	__u32 link_rate;	     /* bytes per second, the highest recent one */
	__u32 flags;		     /* enum tp_watch_flags */
};

/* One of P4air's intervals: the four measures of its slides, and its time. */
struct tp_interval {
	__u32 kind; /* TP_RECORD_INTERVAL */
	__u32 flow;
	__u64 end_ns;
	__u32 duration_us;
	__u32 rtt_us;
	__u32 packets;
	__u32 acks;
	__u32 max_queue_us;
	__u32 dropped_packets;
	__u32 bdp_packets; /* the flow's share; 0: not known */
	__u32 group;	   /* enum tp_group, after this interval */
	__u32 long_flows;
	__u32 link_rate;
};

/* A flow's first record. */
struct tp_opened {
	__u32 kind; /* TP_RECORD_OPENED */
	__u32 flow;
	__u64 at_ns;
	struct tp_watch_key key;
	__u32 handshake_rtt_us; /* 0: not seen */
	__u32 flags;
};

enum tp_record_kind {
	TP_RECORD_OPENED = 1,
	TP_RECORD_ROUND = 2,
	TP_RECORD_INTERVAL = 3,
};

enum tp_watch_flags {
	TP_FLOW_HANDSHAKE = 1, /* its handshake was seen */
	TP_FLOW_ECT_SYN = 2,   /* ECT on its SYN: its algorithm wants ECN (DCTCP, Prague) */
	TP_FLOW_BASE = 4,      /* base_seq is known */
	TP_FLOW_CLOSED = 8,    /* FIN or RST */
	TP_FLOW_MARK = 16,     /* a round's mark is under way */
	TP_FLOW_WINDOW = 32,   /* the scale of the receiver's window is known */
	TP_FLOW_ACKED = 64,    /* an acknowledgement was seen; of UDP, a reply */
	TP_FLOW_QUIC = 128,    /* QUIC: see struct tp_quic */
	TP_FLOW_SPIN = 256,    /* its spin bit separates rounds */
	TP_FLOW_LIGHT = 512,   /* its rounds are not measured: bpf/core/watch/light_tracking.h */
	TP_FLOW_ACCECN = 1024, /* ECE is a part of a count (RFC 9768) */
	TP_FLOW_SHARE = 2048,  /* up_us is known */
	TP_FLOW_ECHO = 4096,   /* no mark before an acknowledgement's timestamp is echoed */
};

/* Where a flow's data were, some times in a round trip: see bpf/core/watch/order.h and whole.h. */
#define TP_NEWEST 8 /* a power of two */
struct tp_newest {
	__u32 at;    /* when, in units of 1024 ns; it wraps; 0: none */
	__u32 seq;   /* data from here on came later */
	__u32 acked; /* the end of data acknowledged then */
};

struct tp_newest_notes {
	struct tp_newest newest[TP_NEWEST];
	__u32 last;	/* the number of the last one */
	__u32 waited;	/* the number of the one that shows a window next: see whole.h */
	__u32 again_at; /* the last retransmission, as in a note; 0: none */
	__u32 again_seq;
};

/* Further state of a QUIC flow (bpf/watch/quic.h).  Bytes wrap. */
struct tp_quic {
	__u64 edge_ns; /* the replies' spin bit changed; 0: not yet */
	__u64 mark_ns; /* a super-packet was queued then; 0: none is marked */
	__u64 backlog_sum;
	__u32 backlog_samples;
	__u32 in_bytes;	  /* queued, without those refused at the queue's tail */
	__u32 mark_bytes; /* in_bytes before the marked one, and one more */
	__u32 mark_drops; /* of the flow before it */
	__u32 edge_replies;
	__u8 spin;  /* the bit of the last reply: 0 or TP_QUIC_SPIN */
	__u8 edges; /* in a row that may be round trips, bounded */
	__u8 pad[2];
};

/*
 * A place of the table of flows.  The fields that each packet needs come first, in as few cache
 * lines as possible.
 *
 * id 0: the place is free.  User space frees it by writing 0 over the id.
 */
struct tp_watch_flow {
	struct tp_watch_key key;
	__u32 id;    /* TP_FLOW_BUSY: the place is being taken */
	__u32 flags; /* enum tp_watch_flags */
	__u64 seen_ns;
	__u64 last_in_ns;
	__u64 mark_after_ns; /* no mark before: the sender has not answered yet */
	__u64 window_at_ns;  /* from then on, order.waited shows a window; ~0: no note does */
	__u64 gap_max_ns;
	__u64 bytes; /* queued since its start */
	__u32 max_seq;
	__u32 acked_seq;
	__u32 mark_seq;
	__u32 until_timed; /* untimed packets before the next timed one */
	__u32 drops;	   /* since its start, as the kernel reports them */
	__u32 last_seq;	   /* of the last queued packet */
	__u32 last_payload;
	__u32 gap_ns; /* mean between packets, gain 1/16 */
	__u32 segment_bytes;
	__u32 flight_max_bytes;
	__u32 receiver_window; /* as written: not scaled */
	__u8 window_scale;
	__u8 marks;  /* the last bits of AccECN's count, beyond its first value */
	__u8 echoes; /* of timestamps, for the sender's share: bpf/watch/echo.h */
	__u8 pad;
	struct tp_watch_counts now;
	struct tp_watch_counts round;	 /* when the round began */
	struct tp_watch_counts interval; /* when the interval began */
	__u64 mark_ns;
	__u64 born_ns;
	__u64 round_at_ns;
	__u64 interval_at_ns;
	__u64 interval_ends_ns; /* its end */
	__u64 dropped_bytes;	/* since its start */
	__u32 up_us;		/* the sender's share of the round trip */
	__u32 handshake_rtt_us;
	__u32 rtt_us; /* of the last round */
	__u32 min_rtt_us;
	__u32 rounds;
	__u32 base_seq; /* acknowledged at the last round's end: see tp_whole_window() */
	__u64 light_ends_ns;
	__u64 lost_ns;	  /* the last loss in light tracking; 0: none */
	__u32 echo_stamp; /* the timestamp whose echo is waited for */
	__u32 pad_end;
	struct tp_newest_notes order;
	struct tp_quic quic;
	struct tp_p4air p4air;
	struct tp_verdict verdict;
	struct tp_shape shape;
};

#define TP_FLOW_BUSY 0xffffffff

/* The flows whose keys have the same hash, but for the bits of a tag. */
#define TP_FLOW_WAYS 8

struct tp_flow_bucket {
	__u32 tag[TP_FLOW_WAYS];   /* 0: empty */
	__u32 place[TP_FLOW_WAYS]; /* in the table of flows */
};

/* The time when a packet was queued, at a place in a table by its address in the kernel, or by its
 * flow and sequence number. */
struct tp_stamp {
	__u64 tag;	/* identifies the packet; 0: empty */
	__u64 at_ns;	/* 0: neither TCP nor UDP */
	__u32 flow;	/* its id */
	__u32 drops;	/* of its flow before it */
	__u32 twin;	/* 1 + the place of its stamp by sequence number; 0: it has none */
	__u32 in_bytes; /* of QUIC: the flow's when this packet was in */
};

/* The times in the queue of a flow's stamped packets, at a place by the flow's id. */
struct tp_sojourn {
	__u64 sum_ns;
	__u32 flow; /* its id */
	__u32 samples;
	__u32 min_ns; /* in this round; longer than four seconds is four seconds */
	__u32 max_ns;
	__u32 interval_ns; /* the longest in this interval */
	__u32 drops;	   /* of the flow, before the last packet that left */
	__u32 out_bytes;   /* of QUIC: the flow's in_bytes up to the last packet that left */
	__u32 last_ns;
};

/* A candidate for the table of flows: no acknowledgement of its data has passed yet. */
struct tp_candidate {
	__u64 first_ns;
	__u64 last_ns;
	__u32 first_seq;
	__u32 max_seq;
	__u32 packets;
	__u32 replies;
};

/* A handshake under way. */
struct tp_handshake {
	__u64 first_ns;	 /* SYN */
	__u64 second_ns; /* SYN-ACK */
	__u32 down_us;
	__u32 up_us;
	__u8 window_scale; /* of the receiver */
	__u8 flags;	   /* enum tp_watch_flags */
	__u8 is_server;	   /* the sender of data sent the SYN-ACK */
	__u8 pad[5];
};

/* A conversation over UDP that began as QUIC does and is not proved yet, at a place by its key. The
 * times are when packets left the queue here, or arrived. */
struct tp_quic_handshake {
	struct tp_watch_key key;
	__u64 first_ns;	 /* the last Initial packet of the one who began */
	__u64 second_ns; /* the first reply; 0: none yet */
	__u64 last_ns;
	__u32 up_us;   /* the sender's share of the round trip, and one; 0: not known */
	__u32 down_us; /* the other share, and one */
	__u32 packets; /* of data, queued */
	__u32 replies;
	__u8 is_server; /* the sender of data did not begin */
	__u8 pad[7];
};

/* Sums over everything at the device, of each processor. */
struct tp_watch_totals {
	__u64 in_packets;
	__u64 out_packets;	  /* of all protocols */
	__u64 left_bytes;	  /* of all protocols, as the device got them */
	__u64 other_packets;	  /* neither TCP nor UDP: not watched */
	__u64 unreadable_packets; /* the header is not in the readable part */
	__u64 unproved_packets;	  /* with data not yet acknowledged here */
	__u64 opened;
	__u64 reused;	    /* addresses and ports used again while their entry was there */
	__u64 lost_records; /* not read in time */
	__u64 rounds;
	__u64 full; /* flows without room in the table */
	__u64 dropped_packets;
	__u64 out_other_packets; /* other_packets and unreadable ones, as they left */
	__u64 scratch[3];	 /* of the programs */
};

TP_ASSERT_SIZE(tp_watch_totals, 128);

#define TP_FLOW_SECRETS 11

struct tp_watch_config {
	__u32 abi_version;
	__u32 netns_inum;
	__u32 classifier;     /* enum tp_classifier */
	__u32 record;	      /* rounds and intervals go to the ring */
	__u32 one_way;	      /* flows enter the table without an acknowledgement */
	__u32 udp;	      /* so does other UDP than QUIC, if it has replies */
	__u64 link_rate;      /* bytes per second, as configured; 0: not known */
	__u32 sojourns;	      /* places in that table; a power of two */
	__u32 flows;	      /* places in the table of flows */
	__u32 buckets;	      /* of the table of flows; a power of two */
	__u32 light_tracking; /* settled flows are tracked lightly */
	__u32 processors;     /* with counts of their own, at most */
	__u32 pad;
	__u64 secrets[TP_FLOW_SECRETS]; /* random: nobody can aim at a bucket */
};

/* User space and programs write it while they run. */
struct tp_watch_link {
	__u32 ifindex;	  /* 0: the device is not there */
	__u32 long_flows; /* neither ants nor mice */
	__u64 rate;	  /* bytes per second, the highest recent one; user space measures it */
	__u64 device;	  /* its address in the kernel, as the programs found it; 0: not yet */
	__u64 taken;	  /* places of the table of flows, counting those taken again */
	__u32 is_split; /* super-packets are queued: the queue may cut them; user space resets it */
	__u32 pad;
	__u64 queue_epoch_ends_ns;
	struct tp_window32 queue_us; /* longest sojourn */
	__u64 rate_mean;   /* bytes per second, over about a second; user space measures it */
	__u64 rate_recent; /* the highest rate_mean of the last seconds */
	__u64 busy_rate;   /* while packets wait: see bpf/watch/busy.h; 0: not known */
	__u64 busy_bytes;  /* sent in runs, and their time */
	__u64 busy_us;
	__u64 run_ns;	      /* a run of waiting packets began; 0: none is followed */
	__u64 run_left_bytes; /* had left by then */
	__u64 run_after_ns;   /* none begins before */
	__u64 timed_left_ns;  /* the last timed packet left */
};

TP_ASSERT_SIZE(tp_watch_key, 40);
TP_ASSERT_SIZE(tp_watch_counts, 48);
TP_ASSERT_SIZE(tp_round, 120);
TP_ASSERT_SIZE(tp_interval, 56);
TP_ASSERT_SIZE(tp_opened, 64);

#endif
