// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * neighbour.bpf.c - somebody else's sockops program on the same cgroup: it asks
 * for callbacks when a connection is established, and counts those of round trips.
 */
#include <linux/types.h>
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

char _license[] SEC("license") = "GPL";

__u64 rtt_calls;
const volatile __u32 wanted; /* callback flags */

SEC("sockops")
int neighbour(struct bpf_sock_ops *ctx)
{
	switch (ctx->op) {
	case BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB:
	case BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB:
		bpf_sock_ops_cb_flags_set(ctx, ctx->bpf_sock_ops_cb_flags | wanted);
		break;
	case BPF_SOCK_OPS_RTT_CB:
		__sync_fetch_and_add(&rtt_calls, 1);
		break;
	}
	return 1;
}
