/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * kernel.h - the few kernel types read by our programs.
 *
 * Only the fields in use are declared; CO-RE finds each by its name in
 * the running kernel's BTF, so neither the order nor
 * the types' sizes here mean anything.  UAPI comes from <linux/bpf.h>.
 */
#ifndef TCPILOT_KERNEL_H
#define TCPILOT_KERNEL_H

#include <stdbool.h>
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

#define AF_INET 2
#define AF_INET6 10
#define SOL_SOCKET 1
#define SOL_TCP 6
#define SO_MAX_PACING_RATE 47
#define TCP_CONGESTION 13
#define TCP_THIN_LINEAR_TIMEOUTS 16
#define ETIMEDOUT 110
#define EHOSTUNREACH 113
#define ENETUNREACH 101
#define TCP_ECN_OK 1	    /* tcp_sock.ecn_flags: both ends agreed, RFC 3168 */
#define TCP_ECN_ACCURATE 16 /* the same, RFC 9768; from 6.18 on */
#define TCP_ECN_ANY (TCP_ECN_OK | TCP_ECN_ACCURATE)
#define RTAX_CC_ALGO 16 /* linux/rtnetlink.h; metrics are counted from 1 */
#define DST_METRICS_FLAGS 3UL
#define DST_METRICS_READ_ONLY 1UL
#define IFF_LOOPBACK 8	   /* net_device.flags, linux/if.h */
#define LOOPBACK_IFINDEX 1 /* of the loopback device, in every network namespace */
/* enum tcp_ca_state, linux/tcp.h */
#define TCP_CA_Open 0
#define TCP_CA_Disorder 1
#define TCP_CA_CWR 2
#define TCP_CA_Recovery 3
#define TCP_CA_Loss 4
/* enum tcp_ca_event */
#define CA_EVENT_TX_START 0
#define CA_EVENT_CWND_RESTART 1
#define CA_EVENT_COMPLETE_CWR 2
#define CA_EVENT_LOSS 3
#define CA_EVENT_ECN_NO_CE 4
#define CA_EVENT_ECN_IS_CE 5
/* tcp_congestion_ops.flags: ask for ECN in the SYN, and set ECT on every segment */
#define TCP_CONG_NEEDS_ECN 2
/* from 7.0; cleared before loading on others: accurate ECN, and ECT(1) on the SYN */
#define TCP_CONG_NEEDS_ACCECN 4
#define TCP_CONG_ECT_1_NEGOTIATION 8
/* sock.sk_pacing_status: pace by a timer of TCP's own unless a qdisc does */
#define SK_PACING_NONE 0
#define SK_PACING_NEEDED 1

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct ns_common {
	unsigned int inum;
};

struct netns_ipv4 {
	int sysctl_tcp_rmem[3];
	const struct tcp_congestion_ops *tcp_congestion_control; /* the default */
};

struct net {
	__u64 net_cookie;
	struct netns_ipv4 ipv4;
	struct ns_common ns;
};

typedef struct {
	struct net *net;
} possible_net_t;

struct in6_addr {
	union {
		__u32 u6_addr32[4];
	} in6_u;
};

typedef struct {
	__s64 counter;
} atomic64_t;

struct sock_common {
	unsigned short skc_family;
	volatile unsigned char skc_state;
	__u32 skc_hash;
	atomic64_t skc_cookie; /* 0: nobody has asked for it */
	__u32 skc_daddr;
	__u32 skc_rcv_saddr;
	__u16 skc_dport;
	__u16 skc_num;
	int skc_bound_dev_if;
	struct in6_addr skc_v6_daddr;
	struct in6_addr skc_v6_rcv_saddr;
	possible_net_t skc_net;
};

/* Kinds of interfaces missing in UAPI's flags. */
enum netdev_priv_flags {
	IFF_L3MDEV_MASTER = 1 << 18, /* a VRF */
};

struct net_device {
	int ifindex;
	unsigned int flags;
	unsigned int priv_flags; /* a bit field since 6.12 */
	possible_net_t nd_net;
	void *ieee80211_ptr; /* set for a wireless interface */
};

struct dst_entry {
	struct net_device *dev;
	unsigned long _metrics;
};

struct kernfs_node {
	__u64 id;
};

struct cgroup;

struct cgroup_subsys_state {
	struct cgroup *cgroup;
	struct cgroup_subsys_state *parent;
};

struct cgroup {
	struct cgroup_subsys_state self;
	struct kernfs_node *kn;
};

struct sock_cgroup_data {
	struct cgroup *cgroup;
};

struct sock {
	void *sk_socket; /* 0: its application has closed it */
	int sk_wmem_queued;
	int sk_sndbuf;
	struct sock_common __sk_common;
	struct dst_entry *sk_dst_cache;
	int sk_rx_dst_ifindex; /* the device by which a packet of the handshake came */
	int sk_err;
	struct sock_cgroup_data sk_cgrp_data;
	unsigned long sk_pacing_rate; /* bytes per second */
	unsigned long sk_max_pacing_rate;
	__u32 sk_pacing_status;
	__u8 sk_pacing_shift;
	__u8 sk_kern_sock : 1; /* the kernel made it, or the socket that listened for it */
};

struct inode {
	unsigned long i_ino;
};

/* sk_socket points to its beginning. */
struct socket_alloc {
	struct inode vfs_inode;
};

struct inet_sock {
	struct sock sk;
};

struct rate_sample {
	__u32 prior_delivered;
	__s32 delivered;
	__s32 delivered_ce;
	long interval_us;
	long rtt_us;
	int losses;
	__u32 acked_sacked;
	__u32 prior_in_flight;
	bool is_app_limited;
	bool is_ack_delayed;
};

struct ack_sample {
	__u32 pkts_acked;
	__s32 rtt_us;
	__u32 in_flight;
};

/*
 * The loader (crates/kernel/src/cc) reads and writes the first four members, by
 * their offsets here: it clears members unknown to the kernel, and moves
 * cong_control_2 to cong_control if this takes two arguments.
 */
struct tcp_congestion_ops {
	void (*cwnd_event_tx_start)(struct sock *sk); /* from 7.1 */
	void (*cong_control)(struct sock *sk, __u32 ack, int flag, const struct rate_sample *rs);
	void (*cong_control_2)(struct sock *sk, const struct rate_sample *rs); /* before 6.10 */
	char name[16];
	__u32 key;
	__u32 flags;
	__u32 (*ssthresh)(struct sock *sk);
	void (*cong_avoid)(struct sock *sk, __u32 ack, __u32 acked);
	void (*set_state)(struct sock *sk, __u8 new_state);
	void (*cwnd_event)(struct sock *sk, int event);
	void (*in_ack_event)(struct sock *sk, __u32 flags);
	void (*pkts_acked)(struct sock *sk, const struct ack_sample *sample);
	__u32 (*min_tso_segs)(struct sock *sk);
	__u32 (*undo_cwnd)(struct sock *sk);
	__u32 (*sndbuf_expand)(struct sock *sk);
	void (*init)(struct sock *sk);
	void (*release)(struct sock *sk);
};

struct inet_connection_sock {
	struct inet_sock icsk_inet;
	__u32 icsk_rto_min; /* ticks */
	__u32 icsk_delack_max;
	const struct tcp_congestion_ops *icsk_ca_ops;
	void *icsk_ulp_data;
	__u8 icsk_ca_state : 5, icsk_ca_initialized : 1, icsk_ca_setsockopt : 1,
	    icsk_ca_dst_locked : 1;
	struct {
		__u8 pending;
	} icsk_ack;
	__u64 icsk_ca_priv[13]; /* the congestion control's own */
};

/* MPTCP's part of a subflow. */
struct mptcp_subflow_context {
	__u32 token;
};

struct minmax_sample {
	__u32 v;
};

struct minmax {
	struct minmax_sample s[3];
};

struct tcp_options_received {
	__u16 snd_wscale : 4;
};

struct tcp_sock {
	struct inet_connection_sock inet_conn;
	struct tcp_options_received rx_opt;
	__u32 snd_una;
	__u32 write_seq;
	__u32 snd_cwnd;
	__u32 snd_ssthresh;
	__u32 srtt_us; /* eight times the smoothed RTT */
	__u32 mdev_us; /* four times its mean deviation */
	struct {
		__u32 space; /* most bytes read by the application in a round trip */
	} rcvq_space;
	__u32 mss_cache;
	__u16 advmss;
	__u32 rcv_ooopack; /* data out of order, packets */
	__u32 data_segs_out;
	__u32 total_retrans;
	__u32 rate_delivered; /* packets */
	__u32 rate_interval_us;
	__u64 bytes_acked;
	__u64 bytes_received;
	__u32 lsndtime; /* ticks, when data was sent last */
	struct minmax rtt_min;
	__u8 rate_app_limited : 1;
	__u8 is_cwnd_limited : 1;
	__u8 thin_lto : 1;
	__u8 chrono_type : 2; /* 0 while nothing is under way */
	__u32 chrono_start;   /* ticks, of the state under way now */
	__u32 chrono_stat[3]; /* ticks: busy, limited by receive window, by send buffer */
	__u8 ecn_flags;
	__u8 bpf_sock_ops_cb_flags;
	bool is_mptcp;
	/* read by congestion controls only */
	__u32 snd_nxt;
	__u32 rcv_nxt;
	__u32 snd_cwnd_cnt;
	__u32 snd_cwnd_clamp;
	__u32 prior_cwnd;
	__u32 high_seq;	  /* the end of the last recovery's first window */
	__u32 dsack_dups; /* segments received twice by the other end */
	struct {
		__u32 rtt_us; /* of the packet delivered last */
	} rack;
	__u32 max_packets_out;
	__u32 packets_out;
	__u32 sacked_out;
	__u32 lost_out;
	__u32 retrans_out;
	__u32 lost;
	__u32 delivered;
	__u32 delivered_ce;
	__u32 app_limited;
	__u64 tcp_mstamp;      /* us, of the segment being processed */
	__u64 tcp_wstamp_ns;   /* earliest departure of the next segment */
	__u64 tcp_clock_cache; /* ns, of the last look at the clock */
	__u64 delivered_mstamp;
};

struct bpf_iter_meta {
	struct seq_file *seq;
};

struct bpf_iter__tcp {
	struct bpf_iter_meta *meta;
	struct sock_common *sk_common;
};

struct socket {
	struct sock *sk;
};

struct bpf_iter__task_file {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
	struct file *file;
};

#pragma clang attribute pop

#endif
