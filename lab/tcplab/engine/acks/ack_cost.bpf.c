/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ack_cost.bpf.c - how long the kernel works on an acknowledgement, by the name of the congestion
 * control: the mean time in tcp_ack(), the caller of all callbacks except those for sending.
 *
 * In virtual time an instruction takes 1 ns.  The cost of the measuring itself is the same for a
 * module and for BPF, so it cancels out in a difference.  Only connections to PORT count: their
 * other ends take acknowledgements of nothing.
 */
#include <linux/bpf.h>
#include <linux/types.h>

#define SEC(name) __attribute__((section(name), used))
#define PORT 5201
#define NAME 16
#define READ(to, from)                                                                             \
	bpf_probe_read_kernel(to, sizeof(*(to)), __builtin_preserve_access_index(from))

static void *(*bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;
static long (*bpf_map_update_elem)(void *map, const void *key, const void *value,
				   __u64 flags) = (void *)2;
static __u64 (*bpf_ktime_get_ns)(void) = (void *)5;
static long (*bpf_probe_read_kernel)(void *to, __u32 size, const void *from) = (void *)113;

struct sock_common {
	__be16 skc_dport;
} __attribute__((preserve_access_index));

struct sock {
	struct sock_common __sk_common;
} __attribute__((preserve_access_index));

struct tcp_congestion_ops {
	char name[NAME];
} __attribute__((preserve_access_index));

struct inet_connection_sock {
	const struct tcp_congestion_ops *icsk_ca_ops;
} __attribute__((preserve_access_index));

struct cost {
	__u64 calls, ns;
};

struct {
	int (*type)[BPF_MAP_TYPE_HASH];
	int (*max_entries)[64];
	char (*key)[NAME];
	struct cost *value;
} costs SEC(".maps");

struct call {
	__u64 socket, began_ns;
};

/* The acknowledgement in progress on a processor. If another one interrupts it, that one takes its
 * place, and the first does not count. */
struct {
	int (*type)[BPF_MAP_TYPE_PERCPU_ARRAY];
	int (*max_entries)[1];
	__u32 *key;
	struct call *value;
} calls SEC(".maps");

SEC("fentry/tcp_ack")
int begin(__u64 *arguments)
{
	__u32 zero = 0;
	struct call *call = bpf_map_lookup_elem(&calls, &zero);

	if (!call)
		return 0;
	call->socket = arguments[0];
	call->began_ns = bpf_ktime_get_ns();
	return 0;
}

SEC("fexit/tcp_ack")
int end(__u64 *arguments)
{
	__u64 now_ns = bpf_ktime_get_ns();
	__u32 zero = 0;
	struct call *call = bpf_map_lookup_elem(&calls, &zero);
	struct cost first = {.calls = 1}, *cost;
	const struct sock *sk = (void *)arguments[0];
	const struct tcp_congestion_ops *ops = 0;
	char name[NAME] = {};
	__be16 port = 0;

	READ(&port, &sk->__sk_common.skc_dport);
	if (!call || call->socket != arguments[0] || port != __builtin_bswap16(PORT))
		return 0;
	first.ns = now_ns - call->began_ns;
	READ(&ops, &((const struct inet_connection_sock *)sk)->icsk_ca_ops);
	READ(&name, &ops->name);
	cost = bpf_map_lookup_elem(&costs, name);
	if (!cost) {
		bpf_map_update_elem(&costs, name, &first, BPF_ANY);
		return 0;
	}
	__sync_fetch_and_add(&cost->calls, 1);
	__sync_fetch_and_add(&cost->ns, first.ns);
	return 0;
}

char _license[] SEC("license") = "GPL";
