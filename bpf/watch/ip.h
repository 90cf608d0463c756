/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ip.h - reads the header of IPv4 or IPv6, for programs with different access to a packet: a
 * reader copies so many bytes from an offset, and returns 0 if it could.
 */
#ifndef TCPILOT_WATCH_IP_H
#define TCPILOT_WATCH_IP_H

#include <bpf/bpf_endian.h>
#include "../abi/abi.h"
#include "../core/prefix.h"
#include "../kernel/skb.h"

enum tp_parsed {
	TP_PARSED = 0,
	TP_OTHER = 1,	   /* neither TCP nor UDP */
	TP_UNREADABLE = 2, /* the headers are not in readable memory */
};

struct tp_ip {
	__u32 at;     /* offset of the layer above, by the reader's count */
	__s32 length; /* of that layer, as in the header; TP_NO_LENGTH: not given */
	__u8 protocol;
	__u8 ecn;
};

#define TP_NO_LENGTH (-1)

/* What PPPoE puts before the IP header in a session (RFC 2516, sections 4 and 6).  A first byte of
 * 0x11 is no version of IP. */
struct tp_pppoe {
	__u8 version_type, code;
	__u16 session, length;
	__u16 protocol; /* of PPP */
};
#define TP_PPPOE 0x11
#define TP_PPP_IP 0x0021
#define TP_PPP_IPV6 0x0057

static __always_inline int tp_is_pppoe_ip(const struct tp_pppoe *h)
{
	return h->version_type == TP_PPPOE && !h->code &&
	       (h->protocol == bpf_htons(TP_PPP_IP) || h->protocol == bpf_htons(TP_PPP_IPV6));
}

/* The length of the layer above.  total: the field, which is 0 in a packet too long for it.
 * headers: what the field counts besides; a field that is too small leaves nothing. */
static __always_inline __s32 tp_length_above(__u32 total, __u32 headers)
{
	if (!total)
		return TP_NO_LENGTH;
	return total > headers ? total - headers : 0;
}

typedef int tp_reader(const void *from, __u32 at, void *to, __u32 bytes);

static __always_inline int tp_read_ipv4(tp_reader read, const void *from, __u32 at,
					struct tp_watch_key *key, struct tp_ip *ip)
{
	struct {
		__u8 version_ihl, tos;
		__u16 length, id, fragment;
		__u8 ttl, protocol;
		__u16 check;
		__u32 source, destination;
	} h;
	__u32 header;

	if (read(from, at, &h, sizeof(h)))
		return TP_UNREADABLE;
	header = (h.version_ihl & 0xf) * 4;
	if (header < sizeof(h) || (h.fragment & bpf_htons(0x1fff)))
		return TP_OTHER;
	key->source[2] = key->destination[2] = TP_MAPPED;
	key->source[3] = h.source;
	key->destination[3] = h.destination;
	ip->ecn = h.tos & 3;
	ip->protocol = h.protocol;
	ip->at = at + header;
	ip->length = tp_length_above(bpf_ntohs(h.length), header);
	return TP_PARSED;
}

/* RFC 8200, section 4: up to three extension headers are skipped. */
static __always_inline int tp_read_ipv6(tp_reader read, const void *from, __u32 at,
					struct tp_watch_key *key, struct tp_ip *ip)
{
	struct {
		__u32 version;
		__u16 length;
		__u8 next, hops;
		__u32 source[4], destination[4];
	} h;
	struct {
		__u8 next, length;
	} extension;
	__u32 skipped = 0;

	if (read(from, at, &h, sizeof(h)))
		return TP_UNREADABLE;
	__builtin_memcpy(key->source, h.source, sizeof(h.source));
	__builtin_memcpy(key->destination, h.destination, sizeof(h.destination));
	ip->ecn = (bpf_ntohl(h.version) >> 20) & 3;
	at += sizeof(h);
	for (int i = 0; i < 3; i++) {
		if (h.next != IPPROTO_HOPOPTS && h.next != IPPROTO_ROUTING &&
		    h.next != IPPROTO_DSTOPTS)
			break;
		if (read(from, at + skipped, &extension, sizeof(extension)))
			return TP_UNREADABLE;
		h.next = extension.next;
		skipped += (extension.length + 1) * 8;
	}
	ip->protocol = h.next;
	ip->at = at + skipped;
	ip->length = tp_length_above(bpf_ntohs(h.length), skipped);
	return TP_PARSED;
}

#endif
