/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * echo.h - the sender's share of the round trip, by TCP's timestamps.  A handshake shows it too,
 * but once, with any delay of that moment in it: the least of both counts.
 *
 * An acknowledgement has its sender's clock in it, and data echo the clock of the last
 * acknowledgement their sender got (RFC 7323, section 3).  So the first data that echo a later
 * clock than a passing acknowledgement's show how long it took from here to the sender and
 * back.  A clock has ticks of a millisecond and more, and other acknowledgements pass within
 * one: hence a later clock, and the least of several times.
 *
 * A round ends with an acknowledgement, and its mark waits for the echo as it would for the share.
 * So only the packets in between are read, and no other packet costs more.
 */
#ifndef TCPILOT_WATCH_ECHO_H
#define TCPILOT_WATCH_ECHO_H

#include "clock.h"

/* A longer time shows no echo: the sender had nothing to send, or the clock stands still. */
#define TP_ECHO_MOST_US 2000000
#define TP_TCP_HEADER 20

/* The option as RFC 7323, appendix A, recommends it: first, behind two paddings. */
struct tp_timestamps {
	__u32 kind;
	__u32 value, echo; /* network byte order */
};
#define TP_TIMESTAMPS bpf_htonl(0x0101080a)

/* Reads a packet's timestamps; 0: it has none there.  network_at: from the head on. */
static __noinline int tp_read_timestamps(const unsigned char *head, __u32 network_at,
					 struct tp_timestamps *to)
{
	__u32 at;
	__u8 version;

	if (!to || TP_READ(version, head, network_at))
		return 0;
	if (version == TP_PPPOE) {
		network_at += sizeof(struct tp_pppoe);
		if (TP_READ(version, head, network_at))
			return 0;
	}
	at = network_at + 40;
	if (version >> 4 == 4)
		at = network_at + (version & 15) * 4;
	else if (version >> 4 != 6)
		return 0;
	return !TP_READ(*to, head, at + TP_TCP_HEADER) && to->kind == TP_TIMESTAMPS;
}

/* A round has ended with this acknowledgement.  network_at: of its headers, from the head on. */
static __noinline int tp_echo_begins(struct tp_watch_flow *flow, const unsigned char *head,
				     __u32 network_at)
{
	struct tp_timestamps stamps = {};

	if (!flow || flow->echoes == TP_ECHOES_NONE)
		return 0;
	if (!tp_read_timestamps(head, network_at, &stamps)) {
		flow->echoes = TP_ECHOES_NONE;
		return 0;
	}
	flow->echo_stamp = bpf_ntohl(stamps.value);
	flow->flags |= TP_FLOW_ECHO;
	return 0;
}

/* The share of the coming round.  After a pause of the application it is not known, so that
 * the least counts. */
static __always_inline void tp_take_share(struct tp_watch_flow *flow, __u32 waited_us)
{
	if (TP_EACH_SHARE && flow->gap_max_ns * 2 < (__u64)waited_us * TP_NS_PER_US)
		flow->up_us = waited_us;
	else
		flow->up_us = tp_min_nonzero(flow->up_us, waited_us);
	if (!TP_EACH_SHARE || flow->echoes <= TP_ECHOES)
		flow->echoes++;
}

/* How long an echo is waited for.  A share known by the handshake has only to be corrected. */
static __always_inline __u32 tp_echo_most_us(const struct tp_watch_flow *flow)
{
	return !TP_EACH_SHARE && flow->flags & TP_FLOW_SHARE ? flow->up_us * 2 : TP_ECHO_MOST_US;
}

/* New data have come, and an echo is waited for.  Returns whether they may begin a round. */
__noinline int tp_echo_came(struct tp_watch_flow *flow, __u64 address, __u64 now_ns)
{
	struct sk_buff *skb = (struct sk_buff *)address;
	struct tp_timestamps stamps = {};
	__u32 waited_us;

	if (!flow)
		return 0;
	waited_us = tp_us_since(now_ns, flow->mark_after_ns) + 1;
	if (!tp_read_timestamps(BPF_CORE_READ(skb, head), BPF_CORE_READ(skb, network_header),
				&stamps)) {
		flow->echoes = TP_ECHOES_NONE;
	} else if (waited_us <= tp_echo_most_us(flow)) {
		if ((__s32)(bpf_ntohl(stamps.echo) - flow->echo_stamp) <= 0)
			return 0;
		tp_take_share(flow, waited_us);
	} else if (!TP_EACH_SHARE && flow->flags & TP_FLOW_SHARE) {
		flow->echoes++;
	}
	flow->flags &= ~TP_FLOW_ECHO;
	if (flow->echoes == TP_ECHOES && !(flow->flags & TP_FLOW_SHARE)) {
		flow->flags |= TP_FLOW_SHARE;
		flow->min_rtt_us = 0; /* those before lack the share */
	}
	return 1;
}

#endif
