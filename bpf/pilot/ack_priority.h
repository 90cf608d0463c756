/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ack_priority.h - pure acknowledgements first: an egress program of the cgroup
 * gives them the priority that pfifo_fast and prio take from their first band.
 * If an upload fills the link, acknowledgements of a download wait in its queue,
 * and slow the download down.
 */
#ifndef TCPILOT_PILOT_ACK_PRIORITY_H
#define TCPILOT_PILOT_ACK_PRIORITY_H

#include "../core/prefix.h"
#include "state.h"

#define ETH_P_IP 0x0800
#define ETH_P_IPV6 0x86dd
#define IPPROTO_TCP 6
#define TC_PRIO_INTERACTIVE 6 /* linux/pkt_sched.h */
#define TCP_FLAG_BYTE 13
#define TCP_FIN_SYN_RST 0x07
#define TCP_ACK 0x10

/* Offset of the TCP header in bytes; 0: not TCP, or behind IPv6 extension
 * headers, which are not read. */
static __always_inline __u32 tcp_header_at(const struct __sk_buff *skb)
{
	__u8 first, protocol;

	if (skb->protocol == TP_BE32(ETH_P_IP << 16)) {
		if (bpf_skb_load_bytes(skb, 0, &first, 1) ||
		    bpf_skb_load_bytes(skb, 9, &protocol, 1) || protocol != IPPROTO_TCP)
			return 0;
		return (first & 15) * 4;
	}
	if (skb->protocol != TP_BE32(ETH_P_IPV6 << 16) ||
	    bpf_skb_load_bytes(skb, 6, &protocol, 1) || protocol != IPPROTO_TCP)
		return 0;
	return 40;
}

SEC("cgroup_skb/egress")
int ack_priority(struct __sk_buff *skb)
{
	__u32 at = tcp_header_at(skb);
	__u8 tcp[2]; /* the header's length, and the flags */

	if (!at || skb->priority || bpf_skb_load_bytes(skb, at + TCP_FLAG_BYTE - 1, tcp, 2))
		return 1;
	if ((tcp[1] & (TCP_FIN_SYN_RST | TCP_ACK)) != TCP_ACK || skb->len > at + (tcp[0] >> 4) * 4)
		return 1;
	skb->priority = TC_PRIO_INTERACTIVE;
	COUNT(acks_first);
	return 1;
}

#endif
