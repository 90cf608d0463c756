/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * kernel.h - the few kernel types that our programs read.
 *
 * Only the fields that are used are declared; CO-RE finds each by its name in
 * the BTF of the kernel that the program is loaded on, so neither the order nor
 * the types' sizes here mean anything.  UAPI comes from <linux/bpf.h>.
 */
#ifndef TCPILOT_KERNEL_H
#define TCPILOT_KERNEL_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

#define AF_INET 2
#define AF_INET6 10
#define SOL_TCP 6
#define TCP_CONGESTION 13
#define TCP_THIN_LINEAR_TIMEOUTS 16
#define ETIMEDOUT 110
#define EHOSTUNREACH 113
#define ENETUNREACH 101
#define TCP_ECN_OK 1	/* tcp_sock.ecn_flags: both ends agreed, RFC 3168 */
#define RTAX_CC_ALGO 16 /* linux/rtnetlink.h; metrics are counted from 1 */
#define DST_METRICS_FLAGS 3UL
#define DST_METRICS_REFCOUNTED 2UL /* the route has metrics of its own */

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct ns_common {
	unsigned int inum;
};

struct net {
	__u64 net_cookie;
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

struct sock_common {
	unsigned short skc_family;
	volatile unsigned char skc_state;
	__u32 skc_daddr;
	__u32 skc_rcv_saddr;
	__u16 skc_dport;
	__u16 skc_num;
	struct in6_addr skc_v6_daddr;
	struct in6_addr skc_v6_rcv_saddr;
	possible_net_t skc_net;
};

struct dst_entry {
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
	int sk_wmem_queued;
	int sk_sndbuf;
	struct sock_common __sk_common;
	struct dst_entry *sk_dst_cache;
	int sk_err;
	struct sock_cgroup_data sk_cgrp_data;
};

struct inet_sock {
	struct sock sk;
};

struct tcp_congestion_ops {
	__u32 key;
	char name[16];
};

struct inet_connection_sock {
	struct inet_sock icsk_inet;
	const struct tcp_congestion_ops *icsk_ca_ops;
	__u8 icsk_ca_state : 5, icsk_ca_initialized : 1, icsk_ca_setsockopt : 1,
	    icsk_ca_dst_locked : 1;
};

struct minmax_sample {
	__u32 v;
};

struct minmax {
	struct minmax_sample s[3];
};

struct tcp_sock {
	struct inet_connection_sock inet_conn;
	__u32 snd_una;
	__u32 write_seq;
	__u32 snd_cwnd;
	__u32 snd_ssthresh;
	__u32 srtt_us; /* eight times the smoothed RTT */
	__u32 mss_cache;
	__u32 data_segs_out;
	__u32 total_retrans;
	__u32 rate_delivered; /* packets */
	__u32 rate_interval_us;
	__u64 bytes_acked;
	struct minmax rtt_min;
	__u8 rate_app_limited : 1;
	__u8 chrono_type : 2; /* 0 while nothing is under way */
	__u32 chrono_start;   /* ticks, of what is under way now */
	__u32 chrono_stat[3]; /* ticks: busy, limited by receive window, by send buffer */
	__u8 ecn_flags;
	__u8 bpf_sock_ops_cb_flags;
};

struct bpf_iter_meta {
	struct seq_file *seq;
};

struct bpf_iter__tcp {
	struct bpf_iter_meta *meta;
	struct sock_common *sk_common;
};

#pragma clang attribute pop

#endif
