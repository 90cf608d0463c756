/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * direct.h - reads a packet's headers in place, in programs at hooks of tc (tcx, kernel 6.6).
 *
 * A tracepoint has to copy headers, and sees every device.  A hook of tc belongs to one device,
 * and the verifier lets it read the packet itself.
 */
#ifndef TCPILOT_WATCH_DIRECT_H
#define TCPILOT_WATCH_DIRECT_H

#include "parse.h"

/* Kernel 6.2; weak, for kernels on which these programs are not loaded. */
extern void *bpf_cast_to_kern_ctx(void *context) __ksym __weak;

/* The longest link header: two VLAN tags in it, and some room. */
#define TP_LINK_HEADER_MOST 63

static __always_inline int tp_parse_direct(struct __sk_buff *context, struct sk_buff *skb,
					   struct tp_packet *p, int is_back)
{
	const __u8 *data = (const void *)(long)context->data, *network;
	const __u8 *end = (const void *)(long)context->data_end;
	__u32 network_at = skb->network_header, length = tp_length(skb, network_at);
	__u32 before = skb->len - length;
	int is_taken = 0;

	network = data + tp_within(before, TP_LINK_HEADER_MOST + 1);
	if (before > TP_LINK_HEADER_MOST)
		is_taken = 0;
	else if (skb->protocol == bpf_htons(ETH_P_IP) && network + TP_USUAL_IPV4 <= end)
		is_taken = tp_take_ipv4((const void *)network, length, p, is_back);
	else if (skb->protocol == bpf_htons(ETH_P_IPV6) && network + TP_USUAL_IPV6 <= end)
		is_taken = tp_take_ipv6((const void *)network, length, p, is_back);
	return tp_parse_rest(skb, network_at, p, is_back, is_taken);
}

#endif
