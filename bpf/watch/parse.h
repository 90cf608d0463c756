/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * parse.h - reads a packet's headers.
 *
 * VLAN tags are skipped, in the packet or in the skb; they are no part of a flow's key.  So are
 * the headers of a PPPoE session.  In
 * tunnels the outer headers count: their packets are "other" unless they are UDP.  Fragments
 * after the first have no ports and are "other" too.
 */
#ifndef TCPILOT_WATCH_PARSE_H
#define TCPILOT_WATCH_PARSE_H

#include "../kernel/skb.h"
#include <bpf/bpf_endian.h>
#include "../abi/abi.h"
#include "../core/bits.h"
#include "ip.h"

struct tp_packet {
	struct tp_watch_key key;
	__u64 address; /* of its struct sk_buff */
	__u32 seq;
	__u32 ack;
	__u32 payload;	   /* bytes of TCP or UDP */
	__u32 packets;	   /* on the wire */
	__u32 bytes;	   /* on the wire, link headers included */
	__u32 version;	   /* of UDP: bytes 1 to 4 of the payload, see quic_handshake.h */
	__u16 window;	   /* as written: not scaled */
	__u8 flags;	   /* of TCP; of UDP the payload's first byte */
	__u8 is_ect;	   /* of a SYN */
	__u8 window_scale; /* of a SYN; 0xff: no option */
	__u8 id_length;	   /* of UDP: byte 5 of the payload */
	__u8 is_ae;	   /* of TCP: the bit AE, set by AccECN only (RFC 9768, section 2) */
};

#define TP_READ(to, skb_head, at) bpf_probe_read_kernel(&(to), sizeof(to), (skb_head) + (at))

static __always_inline int tp_read_kernel(const void *head, __u32 at, void *to, __u32 bytes)
{
	return bpf_probe_read_kernel(to, bytes, head + at);
}

/* The options of a TCP header, with room for every index of six bits. */
struct tp_options {
	__u8 byte[64];
};

/* The scale of the window in a SYN (RFC 7323, section 2.2).  A function of its own, so
 * that the verifier follows the loop only once. */
__noinline int tp_window_scale(struct tp_options *options, __u32 length)
{
	__u32 at = 0;

	for (int i = 0; options && i < 10; i++) {
		__u8 kind = options->byte[at & 63], size = options->byte[(at + 1) & 63];
		__u8 value = options->byte[(at + 2) & 63];

		if (at + 2 >= length || kind == 0)
			break;
		if (kind == TCP_OPTION_WINDOW)
			return value < 14 ? value : 14;
		at += tp_select(size, 1, tp_is_zero(kind ^ 1) | ((__u64)size - 2) >> 63);
	}
	return 0xff;
}

static __always_inline __u8 tp_read_window_scale(const unsigned char *head, __u32 at, __u32 length)
{
	struct tp_options options = {};

	if (length > TCP_OPTIONS_MAX || bpf_probe_read_kernel(options.byte, length & 63, head + at))
		return 0xff;
	return (__u8)tp_window_scale(&options, length);
}

static __always_inline int tp_parse_tcp(const unsigned char *head, const struct tp_ip *ip,
					__u32 length, struct tp_packet *p)
{
	struct {
		__u16 source, destination;
		__u32 seq, ack;
		__u8 offset, flags;
		__u16 window, check, urgent;
	} h;
	__u32 header;

	if (TP_READ(h, head, ip->at))
		return TP_UNREADABLE;
	header = (h.offset >> 4) * 4;
	if (header < sizeof(h) || header > length)
		return TP_OTHER;
	p->key.source_port = bpf_ntohs(h.source);
	p->key.destination_port = bpf_ntohs(h.destination);
	p->seq = bpf_ntohl(h.seq);
	p->ack = bpf_ntohl(h.ack);
	p->flags = h.flags;
	p->is_ae = h.offset & 1;
	p->window = bpf_ntohs(h.window);
	p->payload = length - header;
	p->window_scale = 0xff;
	if (h.flags & TCP_SYN)
		p->window_scale =
		    tp_read_window_scale(head, ip->at + sizeof(h), header - sizeof(h));
	return TP_PARSED;
}

/* The first byte of a payload that is not in the packet's linear part, as that of a super-packet
 * that UDP_SEGMENT made: it may be QUIC's. */
#define TP_FIRST_UNREAD 0x40
#define TP_UDP_HEADER 8

/* tail: the end of the packet's linear part. */
static __always_inline int tp_parse_udp(const unsigned char *head, const struct tp_ip *ip,
					__u32 length, __u32 tail, struct tp_packet *p)
{
	struct {
		__u16 source, destination, length, check;
		__u32 first, second;
	} h;

	if (length < TP_UDP_HEADER)
		return TP_OTHER;
	/* If the payload is shorter, the rest is not looked at. */
	if (TP_READ(h, head, ip->at))
		return TP_UNREADABLE;
	p->key.source_port = bpf_ntohs(h.source);
	p->key.destination_port = bpf_ntohs(h.destination);
	p->payload = length - TP_UDP_HEADER;
	p->flags = TP_FIRST_UNREAD;
	if (ip->at + TP_UDP_HEADER < tail) {
		p->flags = h.first;
		p->version = h.first >> 8 | h.second << 24;
		p->id_length = h.second >> 8;
	}
	return TP_PARSED;
}

/* What may lie before an IP header: two tags of a VLAN, and the header of a PPPoE session. */
struct tp_tags {
	struct {
		__u16 tag, protocol;
	} part[4];
};

/* Offset of the IP header from the head; 0: not IP.  A tag in the packet lies before the IP
 * header, unless the network header was set behind the tag already.  A global function, so the
 * verifier follows its ways once, and not again with all that comes after each of them. */
__noinline __u32 tp_skip_tags(const struct tp_tags *tags, __u32 at, __u32 protocol)
{
	const struct tp_pppoe *session;
	int i;

	if (!tags)
		return 0;
	for (i = 0; i < 2; i++) {
		if (protocol != bpf_htons(ETH_P_8021Q) && protocol != bpf_htons(ETH_P_8021AD))
			break;
		protocol = tags->part[i].protocol;
		if (protocol != bpf_htons(ETH_P_IP) && protocol != bpf_htons(ETH_P_IPV6) &&
		    protocol != bpf_htons(ETH_P_8021Q) && protocol != bpf_htons(ETH_P_PPP_SES))
			return at; /* no tag here: the network header is IP's own */
		at += sizeof(tags->part[i]);
	}
	if (protocol == bpf_htons(ETH_P_PPP_SES)) {
		session = (const struct tp_pppoe *)&tags->part[i];
		return tp_is_pppoe_ip(session) ? at + sizeof(*session) : 0;
	}
	return protocol == bpf_htons(ETH_P_IP) || protocol == bpf_htons(ETH_P_IPV6) ? at : 0;
}

static __always_inline __u32 tp_find_ip(const unsigned char *head, __u32 at, __u16 protocol)
{
	struct tp_tags tags;

	if (protocol == bpf_htons(ETH_P_IP) || protocol == bpf_htons(ETH_P_IPV6))
		return at;
	if (TP_READ(tags, head, at))
		return 0;
	return tp_skip_tags(&tags, at, protocol);
}

/*
 * A queued packet's number of packets on the wire.  It carries its length on the wire.  If that
 * is the length of the buffer, it is one packet.  A GSO super-packet is longer on the wire, by
 * the headers of its packets.  length: skb->len.  payload: the same if it is not known.
 */
static __always_inline __u32 tp_packets_of(struct sk_buff *skb, __u32 length, __u32 payload)
{
	struct skb_shared_info *shared;
	__u32 size, segments;

	if (((const struct qdisc_skb_cb *)skb->cb)->pkt_len == length)
		return 1;
	shared = (void *)(skb->head + skb->end);
	size = BPF_CORE_READ(shared, gso_size);
	if (!size || payload <= size)
		return 1;
	segments = BPF_CORE_READ(shared, gso_segs);
	return segments > 1 ? segments : (payload + size - 1) / size;
}

static __always_inline void tp_count_packets(struct sk_buff *skb, __u32 headers, __u32 payload,
					     struct tp_packet *p)
{
	p->packets = payload ? tp_packets_of(skb, skb->len, payload) : 1;
	p->bytes = skb->len + (p->packets - 1) * headers;
}

/* network_at: offset of the network header from the head. */
static __noinline int tp_parse_any(struct sk_buff *skb, __u32 network_at, struct tp_packet *p)
{
	const unsigned char *head = skb->head;
	__u32 data_at = skb->data - head;
	__u32 at = tp_find_ip(head, network_at, skb->protocol);
	struct tp_ip ip = {};
	__u8 version;
	__u32 length;
	int result;

	if (!p)
		return TP_OTHER;
	__builtin_memset(p, 0, sizeof(*p));
	if (!at || TP_READ(version, head, at))
		return TP_OTHER;
	result = version >> 4 == 4   ? tp_read_ipv4(tp_read_kernel, head, at, &p->key, &ip)
		 : version >> 4 == 6 ? tp_read_ipv6(tp_read_kernel, head, at, &p->key, &ip)
				     : TP_OTHER;
	if (result)
		return result;
	p->is_ect = ip.ecn;
	length = skb->len - (ip.at - data_at);
	if ((__s32)length < 0)
		return TP_OTHER;
	/* Short frames are padded; a longer one that exceeds its header's length is GSO's. */
	if (ip.length != TP_NO_LENGTH && (__u32)ip.length < length && length < 64)
		length = ip.length;
	p->key.protocol = ip.protocol;
	if (ip.protocol == IPPROTO_TCP)
		result = tp_parse_tcp(head, &ip, length, p);
	else if (ip.protocol == IPPROTO_UDP)
		result = tp_parse_udp(head, &ip, length, skb->tail, p);
	else
		return TP_OTHER;
	if (!result)
		tp_count_packets(skb, ip.at - data_at + (length - p->payload), p->payload, p);
	return result;
}

/* Eight bytes of anything. */
typedef __u64 __attribute__((may_alias)) tp_word;

/* Takes the twenty bytes of TCP; the addresses are known before.  length: from TCP's header on.
 * Only what is asked for in its direction is taken. */
static __always_inline int tp_take_tcp(const __u32 *tcp, __u32 length, struct tp_packet *p,
				       int is_back)
{
	__u32 ports = bpf_ntohl(tcp[0]), rest = tcp[3], header = (rest & 0xf0) >> 2;
	tp_word *key = (tp_word *)&p->key;

	if (header < 20 || header > length || rest & TCP_SYN << 8)
		return 0;
	if (!is_back)
		ports = ports >> 16 | ports << 16;
	key[4] = (__u64)IPPROTO_TCP << 32 | ports;
	p->flags = rest >> 8;
	p->payload = length - header;
	if (is_back) {
		p->is_ae = rest & 1;
		p->ack = bpf_ntohl(tcp[2]);
		p->window = bpf_ntohs(rest >> 16);
	} else {
		p->seq = bpf_ntohl(tcp[1]);
	}
	return 1;
}

/* The same of UDP's header and the payload's first six bytes. */
static __always_inline int tp_take_udp(const __u32 *udp, __u32 length, struct tp_packet *p,
				       int is_back)
{
	__u32 ports = bpf_ntohl(udp[0]);
	tp_word *key = (tp_word *)&p->key;

	if (!is_back)
		ports = ports >> 16 | ports << 16;
	key[4] = (__u64)IPPROTO_UDP << 32 | ports;
	p->payload = length - TP_UDP_HEADER;
	p->flags = udp[2];
	p->version = udp[2] >> 8 | udp[3] << 24;
	p->id_length = udp[3] >> 8;
	p->seq = 0;
	return 1;
}

/* Bytes from the network header to the end of TCP's header, without options; UDP packets are as
 * long, too. */
#define TP_USUAL_IPV4 40
#define TP_USUAL_IPV6 60

/* Takes the usual packet of IPv4: TCP but no SYN, or UDP, without options of IP; 0: another one. w:
 * from the network header on, of the length above.  length: of all from there on.  A shorter packet
 * in a padded frame is another one, so its lengths are checked by tp_parse_any().  is_back: the key
 * is that of the other direction. */
static __always_inline int tp_take_ipv4(const __u32 *w, __u32 length, struct tp_packet *p,
					int is_back)
{
	__u64 source = w[is_back ? 4 : 3], destination = w[is_back ? 3 : 4];
	tp_word *key = (tp_word *)&p->key;
	__u32 first = w[0], protocol = (w[2] >> 8) & 0xff, total;

	if ((first & 0xff) != 0x45 || (w[1] & bpf_htonl(0x1fff)))
		return 0;
	if (length < 64 + 20) {
		total = bpf_ntohs(first >> 16);
		if (total && total < length)
			length = total;
	}
	if (length < TP_USUAL_IPV4)
		return 0;
	key[0] = key[2] = 0;
	key[1] = source << 32 | TP_MAPPED;
	key[3] = destination << 32 | TP_MAPPED;
	if (protocol == IPPROTO_TCP)
		return tp_take_tcp(w + 5, length - 20, p, is_back);
	return protocol == IPPROTO_UDP && tp_take_udp(w + 5, length - 20, p, is_back);
}

/* The same of IPv6, without extension headers. */
static __always_inline int tp_take_ipv6(const __u32 *w, __u32 length, struct tp_packet *p,
					int is_back)
{
	__u32 total = bpf_ntohs(w[1]), protocol = (w[1] >> 16) & 0xff;

	if ((w[0] & 0xf0) != 0x60)
		return 0;
	if (total && total + 40 < length && length < 64 + 40)
		length = total + 40;
	if (length < TP_USUAL_IPV6)
		return 0;
	__builtin_memcpy(p->key.source, w + (is_back ? 6 : 2), 16);
	__builtin_memcpy(p->key.destination, w + (is_back ? 2 : 6), 16);
	if (protocol == IPPROTO_TCP)
		return tp_take_tcp(w + 10, length - 40, p, is_back);
	return protocol == IPPROTO_UDP && tp_take_udp(w + 10, length - 40, p, is_back);
}

/* Bytes from the network header on. */
static __always_inline __u32 tp_length(const struct sk_buff *skb, __u32 network_at)
{
	return skb->len - (network_at - (__u32)(skb->data - skb->head));
}

static __always_inline struct tp_watch_key tp_reverse(const struct tp_watch_key *key)
{
	struct tp_watch_key reverse = *key;

	__builtin_memcpy(reverse.source, key->destination, sizeof(key->destination));
	__builtin_memcpy(reverse.destination, key->source, sizeof(key->source));
	reverse.source_port = key->destination_port;
	reverse.destination_port = key->source_port;
	return reverse;
}

/* Ends with a usual packet, or reads another one piece by piece. */
static __always_inline int tp_parse_rest(struct sk_buff *skb, __u32 network_at, struct tp_packet *p,
					 int is_back, int is_taken)
{
	int result;

	if (is_taken) {
		/* Incoming packets are not counted. */
		if (!is_back)
			tp_count_packets(skb, skb->len - p->payload, p->payload, p);
		return TP_PARSED;
	}
	result = tp_parse_any(skb, network_at, p);
	if (is_back && !result)
		p->key = tp_reverse(&p->key);
	return result;
}

/* Parses a packet, by a single read if it is a usual one. */
static __always_inline int tp_parse_to(struct sk_buff *skb, __u32 network_at, struct tp_packet *p,
				       int is_back)
{
	const unsigned char *at = skb->head + network_at;
	__u32 length = tp_length(skb, network_at), word[TP_USUAL_IPV6 / 4];
	int is_taken = 0;

	/* The read may pass the end of the headers: the kernel's own bytes behind the head are
	 * more than that. */
	if (network_at + TP_USUAL_IPV4 <= skb->tail) {
		if (skb->protocol == bpf_htons(ETH_P_IP))
			is_taken = !bpf_probe_read_kernel(word, TP_USUAL_IPV4, at) &&
				   tp_take_ipv4(word, length, p, is_back);
		else if (skb->protocol == bpf_htons(ETH_P_IPV6))
			is_taken = !bpf_probe_read_kernel(word, TP_USUAL_IPV6, at) &&
				   tp_take_ipv6(word, length, p, is_back);
	}
	return tp_parse_rest(skb, network_at, p, is_back, is_taken);
}

static __always_inline int tp_parse(struct sk_buff *skb, __u32 network_at, struct tp_packet *p)
{
	return tp_parse_to(skb, network_at, p, 0);
}

/* Parses an incoming packet, with the key of the watched direction. */
static __always_inline int tp_parse_back(struct sk_buff *skb, struct tp_packet *p)
{
	return tp_parse_to(skb, skb->data - skb->head, p, 1);
}

#endif
