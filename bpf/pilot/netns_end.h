/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * netns_end.h - the ends of network namespaces.  Private addresses of a namespace are paths of its
 * own, known by its cookie.  No cookie comes twice in a boot, so these paths are of no use after
 * its end, and the daemon forgets them.
 *
 * The kernel calls tcp_sk_exit for each namespace that nothing holds any more: no name, no process,
 * no socket.  It calls it by a pointer, so no compiler inlines it, as happens with __put_net.
 */
#ifndef TCPILOT_PILOT_NETNS_END_H
#define TCPILOT_PILOT_NETNS_END_H

#include "../kernel/types.h"
#include <bpf/bpf_tracing.h>

/* Cookies, the oldest first.  The daemon empties it every second. */
struct {
	__uint(type, BPF_MAP_TYPE_QUEUE);
	__uint(max_entries, 4096);
	__type(value, __u64);
} ended_netns SEC(".maps");

SEC("fentry/tcp_sk_exit")
int BPF_PROG(netns_ended, struct net *net)
{
	__u64 cookie = net->net_cookie;

	bpf_map_push_elem(&ended_netns, &cookie,
			  BPF_EXIST); /* in place of the oldest, if it is full */
	return 0;
}

#endif
