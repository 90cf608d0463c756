/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * prefix.h - addresses as the pilot sees them: 128 bits in network byte order,
 * IPv4 written IPv4-mapped (RFC 4291, section 2.5.5.2).  Pure functions, also
 * compiled for the host by tests.
 */
#ifndef TCPILOT_PREFIX_H
#define TCPILOT_PREFIX_H

#include "../abi/config.h"
#include "../abi/path.h"
#include "num.h"

#define TP_BE32(x) __builtin_bswap32(x)
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#undef TP_BE32
#define TP_BE32(x) (x)
#endif

#define TP_MAPPED TP_BE32(0x0000ffffU)

TP_INLINE int tp_is_ipv4(const __u32 addr[4])
{
	return !addr[0] && !addr[1] && addr[2] == TP_MAPPED;
}

TP_INLINE int tp_in_ipv4(const __u32 addr[4], __u32 net, __u32 mask)
{
	return (addr[3] & TP_BE32(mask)) == TP_BE32(net);
}

TP_INLINE int tp_is_loopback_ipv4(const __u32 addr[4])
{
	return tp_in_ipv4(addr, 0x7f000000, 0xff000000);
}

/* 127.0.0.0/8 and ::1 (RFC 1122, section 3.2.1.3; RFC 4291, section 2.5.3). */
TP_INLINE int tp_is_loopback(const __u32 addr[4])
{
	if (tp_is_ipv4(addr))
		return tp_is_loopback_ipv4(addr);
	return !addr[0] && !addr[1] && !addr[2] && addr[3] == TP_BE32(1);
}

/* Private, shared and link-local space: RFC 1918, RFC 6598, RFC 3927. */
TP_INLINE int tp_is_private_ipv4(const __u32 addr[4])
{
	return tp_in_ipv4(addr, 0x0a000000, 0xff000000) ||
	       tp_in_ipv4(addr, 0xac100000, 0xfff00000) ||
	       tp_in_ipv4(addr, 0xc0a80000, 0xffff0000) ||
	       tp_in_ipv4(addr, 0x64400000, 0xffc00000) || tp_in_ipv4(addr, 0xa9fe0000, 0xffff0000);
}

/* RFC 4291, section 2.5.6. */
TP_INLINE int tp_is_link_local_ipv6(const __u32 addr[4])
{
	return (addr[0] & TP_BE32(0xffc00000)) == TP_BE32(0xfe800000);
}

/* Whether each link may have another host of this address: RFC 3927 and RFC 4291. */
TP_INLINE int tp_is_link_local(const __u32 addr[4])
{
	return tp_is_ipv4(addr) ? tp_in_ipv4(addr, 0xa9fe0000, 0xffff0000)
				: tp_is_link_local_ipv6(addr);
}

/* Unique local (RFC 4193) and link-local (RFC 4291). */
TP_INLINE int tp_is_private_ipv6(const __u32 addr[4])
{
	return (addr[0] & TP_BE32(0xfe000000)) == TP_BE32(0xfc000000) ||
	       tp_is_link_local_ipv6(addr);
}

TP_INLINE int tp_is_private(const __u32 addr[4])
{
	return tp_is_ipv4(addr) ? tp_is_private_ipv4(addr) : tp_is_private_ipv6(addr);
}

/* A word of a netmask.  bits is the whole mask's length, word counts from 0. */
TP_INLINE __u32 tp_mask_word(__u32 bits, __u32 word)
{
	if (bits >= 32 * (word + 1))
		return ~0U;
	if (bits <= 32 * word)
		return 0;
	return TP_BE32(~0U << (32 * (word + 1) - bits));
}

/* The prefix separating paths under this policy: its words, and its length
 * in bits of the 128. */
TP_INLINE void tp_path_prefix(const struct tp_policy_config *policy, const __u32 addr[4],
			      struct tp_path_key *key)
{
	__u32 len;

	if (tp_is_ipv4(addr)) { /* the usual case: three words are known */
		len = tp_is_private_ipv4(addr) ? policy->prefix_len_ipv4_private
					       : policy->prefix_len_ipv4_public;
		key->prefix[0] = key->prefix[1] = 0;
		key->prefix[2] = TP_MAPPED;
		key->prefix[3] = addr[3] & tp_mask_word(len, 0);
		key->prefix_len = 96 + len;
		return;
	}
	len = tp_is_private_ipv6(addr) ? policy->prefix_len_ipv6_private
				       : policy->prefix_len_ipv6_public;
#pragma unroll
	for (int i = 0; i < 4; i++)
		key->prefix[i] = addr[i] & tp_mask_word(len, i);
	key->prefix_len = len;
}

#endif
