/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * skb.h - the few kernel types that a look at a packet in flight needs, found
 * by CO-RE as in types.h, and the headers on the wire.
 */
#ifndef TCPILOT_SKB_H
#define TCPILOT_SKB_H

#include "types.h"

#define ETH_P_IP 0x0800
#define ETH_P_IPV6 0x86dd
#define ETH_P_8021Q 0x8100
#define ETH_P_8021AD 0x88a8
#define ETH_P_PPP_SES 0x8864
#define IPPROTO_HOPOPTS 0
#define IPPROTO_TCP 6
#define IPPROTO_UDP 17
#define IPPROTO_ROUTING 43
#define IPPROTO_FRAGMENT 44
#define IPPROTO_DSTOPTS 60
#define TCP_FIN 0x01
#define TCP_SYN 0x02
#define TCP_RST 0x04
#define TCP_ACK 0x10
#define TCP_ECE 0x40
#define TCP_OPTION_WINDOW 3 /* RFC 7323, section 2.2 */
#define TCP_OPTIONS_MAX 40  /* bytes: RFC 9293, section 3.1 */

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct sk_buff {
	struct sk_buff *next; /* in a list */
	struct net_device *dev;
	int skb_iif; /* the device that it came by */
	unsigned int len;
	unsigned char *head;
	unsigned char *data;
	unsigned int tail; /* offsets from head on 64-bit machines */
	unsigned int end;
	__u16 network_header;
	__u16 protocol; /* network byte order */
	char cb[48];	/* of the packet's present owner: in a qdisc qdisc_skb_cb */
};

/* The context of a sockops program: one event. */
struct bpf_sock_ops_kern {
	struct sk_buff *skb; /* 0: the event has no packet */
};

/* __dev_queue_xmit writes the length on the wire into cb. */
struct qdisc_skb_cb {
	unsigned int pkt_len;
};

struct skb_shared_info {
	unsigned short gso_size;
	unsigned short gso_segs;
};

#pragma clang attribute pop

/* Why the kernel frees a packet.  CO-RE finds the values by name; which names there are
 * depends on the kernel. */
enum skb_drop_reason {
	SKB_DROP_REASON_NOT_SPECIFIED,
	SKB_DROP_REASON_QDISC_DROP,
	SKB_DROP_REASON_QDISC_OVERLIMIT,  /* 6.18 */
	SKB_DROP_REASON_QDISC_CONGESTED,  /* 6.18 */
	SKB_DROP_REASON_QDISC_BURST_DROP, /* 7.2 */
	SKB_DROP_REASON_CAKE_FLOOD,
	SKB_DROP_REASON_FQ_BAND_LIMIT,
	SKB_DROP_REASON_FQ_HORIZON_LIMIT,
	SKB_DROP_REASON_FQ_FLOW_LIMIT,
};

/* 7.2: reasons of qdiscs are a range of their own, which this value begins. */
enum qdisc_drop_reason {
	__QDISC_DROP_REASON,
};

#endif
