/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * mark.h - writes the group of a flow into its packets, for `tcpilot watch --mark` only: into
 * the packet's mark, for qdiscs of this host, or into the DSCP, for other hosts
 * too.
 *
 * fair_mark is attached to the device's egress (tcx), before its qdisc.  A packet costs one
 * parse and one look-up of its flow.  It is never dropped.
 */
#ifndef TCPILOT_WATCH_MARK_H
#define TCPILOT_WATCH_MARK_H

#include "fair.h"

/* Parts of the 16 bits at the start of a header: bits 8 to 13 of IPv4's (RFC 791, section 3.1), and
 * 4 to 9 of IPv6's (RFC 8200, section 3). */
#define TP_DSCP_IPV4 0x00fc
#define TP_DSCP_IPV6 0x0fc0

/* By enum tp_group. */
const volatile struct tp_mark marks[TP_GROUP_COUNT];

static __always_inline void tp_set_dscp(struct __sk_buff *skb, __u16 dscp)
{
	int at = tp_fair_network_at(skb), is_ipv4;
	__be16 before, after;
	__u16 word;

	if (at < 0 || bpf_skb_load_bytes(skb, at, &before, sizeof(before)))
		return;
	word = bpf_ntohs(before);
	is_ipv4 = word >> 12 == 4;
	word = is_ipv4 ? (word & ~TP_DSCP_IPV4) | dscp << 2 : (word & ~TP_DSCP_IPV6) | dscp << 6;
	after = bpf_htons(word);
	if (before == after)
		return;
	/* Byte 10 of IPv4's header is its checksum; IPv6 has none. */
	if (is_ipv4 && bpf_l3_csum_replace(skb, at + 10, before, after, sizeof(after)))
		return;
	bpf_skb_store_bytes(skb, at, &after, sizeof(after), 0);
}

SEC("tcx/egress")
int fair_mark(struct __sk_buff *skb)
{
	const volatile struct tp_mark *mark;
	const struct tp_watch_flow *flow;
	struct tp_fair_packet p;
	__u32 group;

	if (tp_fair_parse(skb, &p))
		return -1;
	flow = tp_find_flow(&p.key);
	if (!flow)
		return -1;
	group = cfg.classifier == TP_CLASSIFIER_P4AIR ? flow->p4air.group : flow->verdict.group;
	mark = &marks[group & (TP_GROUP_COUNT - 1)];
	if (mark->mask)
		skb->mark = (skb->mark & ~mark->mask) | mark->value;
	if (mark->has_dscp)
		tp_set_dscp(skb, mark->dscp);
	return -1; /* TCX_NEXT */
}

#endif
