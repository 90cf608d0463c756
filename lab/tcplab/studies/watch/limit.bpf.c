// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * limit.bpf.c - the least cost of programs at the hooks of `tcpilot watch`, step by step, as the
 * measure of the watch's own cost.  cost.py attaches them.
 *
 * Compiled once for each step and each kind of hook (-D STEP=..., -D TCX):
 *
 *  - with tracepoints: before the queue, behind it, and where packets come in, of all devices;
 *  - TCX: at the device's egress and ingress instead of the first and the last.
 *
 * It needs no header of libbpf, since the host need not have libbpf.
 */
#include <linux/types.h>
#include <linux/bpf.h>

#define SEC(name) __attribute__((section(name), used))
#define INLINE static inline __attribute__((always_inline, unused))
#define __uint(name, value) int(*name)[value]
#define __type(name, value) typeof(value) *name

static void *(*map_find)(void *map, const void *key) = (void *)BPF_FUNC_map_lookup_elem;
static long (*map_put)(void *map, const void *key, const void *value,
		       __u64 flags) = (void *)BPF_FUNC_map_update_elem;
static long (*read_kernel)(void *to, __u32 size,
			   const void *from) = (void *)BPF_FUNC_probe_read_kernel;
static __u64 (*clock_ns)(void) = (void *)BPF_FUNC_ktime_get_ns;

enum {
	EMPTY = 0,  /* returns at once */
	DEVICE = 1, /* compares the device */
	HEADER = 2, /* and reads the headers */
	LRU = 3,    /* and finds the flow in the kernel's LRU hash */
	ARRAY = 4, /* or in an array, by hashes: nothing is ever put there, so no key is compared */
	CLOCK = 5, /* and reads the clock */
};

char _license[] SEC("license") = "GPL";

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct ns_common {
	unsigned int inum;
};
struct net {
	struct ns_common ns;
};
typedef struct {
	struct net *net;
} possible_net_t;
struct net_device {
	int ifindex;
	possible_net_t nd_net;
};
struct sk_buff {
	struct net_device *dev;
	unsigned int len;
	unsigned char *head;
	unsigned char *data;
	__u16 network_header;
};
#pragma clang attribute pop

struct {
	__u32 ifindex;
	__u32 netns;
	__u32 seen; /* written, so that the compiler leaves nothing out */
} place;

/* As large as the watch's key. */
struct key {
	__u32 address[8];
	__u32 ports;
	__u32 protocol;
};

struct flow {
	__u64 at_ns;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, struct key);
	__type(value, struct flow);
} flows SEC(".maps");

struct bucket {
	__u32 tag[8];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 4096);
	__type(key, __u32);
	__type(value, struct bucket);
} buckets SEC(".maps");

INLINE int find_in_array(const struct key *key)
{
	const __u64 *w = (const void *)key;
	__u64 hash = (w[1] + 0x9e3779b97f4a7c15ULL) * (w[3] + 0xd6e8feb86659fd93ULL) +
		     (w[0] + w[2]) * 0xa0761d6478bd642fULL + w[4] * 0xe7037ed1a0b428dbULL;
	__u32 at = hash >> 52, tag = hash >> 8 | 1, found = 0;
	struct bucket *bucket = map_find(&buckets, &at);

	if (!bucket)
		return 0;
#pragma unroll
	for (int i = 0; i < 8; i++)
		found += bucket->tag[i] == tag;
	return found;
}

/* IPv4 and TCP, from the network header on; is_back: of the other direction. */
INLINE void take(const __u32 *w, int is_back)
{
	struct key key = {.protocol = 6};
	struct flow *flow, first = {};

	key.address[3] = w[is_back ? 4 : 3];
	key.address[7] = w[is_back ? 3 : 4];
	key.ports = is_back ? w[5] >> 16 | w[5] << 16 : w[5];
	if (STEP == ARRAY) {
		place.seen = find_in_array(&key);
		return;
	}
	flow = map_find(&flows, &key);
	if (!flow)
		map_put(&flows, &key, &first, BPF_ANY);
	else if (STEP == CLOCK)
		flow->at_ns = clock_ns();
	else
		flow->at_ns++;
}

INLINE int is_ours(const struct net_device *dev)
{
	return dev->ifindex == place.ifindex && dev->nd_net.net->ns.inum == place.netns;
}

INLINE int traced(struct sk_buff *skb, struct net_device *dev, __u32 at, int is_back)
{
	__u32 word[16];

	if (STEP == EMPTY || !is_ours(dev))
		return 0;
	place.seen = 1;
	if (STEP == DEVICE || read_kernel(word, sizeof(word), skb->head + at))
		return 0;
	if (STEP == HEADER)
		place.seen = word[0];
	else
		take(word, is_back);
	return 0;
}

INLINE int at_tc(struct __sk_buff *skb, int is_back)
{
	const __u8 *from = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	__u32 word[6];

	if (STEP == EMPTY)
		return -1;
	place.seen = 1;
	if (STEP == DEVICE || from + 14 + 40 > end)
		return -1;
#pragma unroll
	for (int i = 0; i < 6; i++)
		word[i] = *(const __u32 *)(from + 14 + i * 4);
	if (STEP == HEADER)
		place.seen = word[0] + word[3] + word[4] + word[5];
	else
		take(word, is_back);
	return -1; /* TCX_NEXT */
}

#ifdef TCX
SEC("tc")
int limit_in(struct __sk_buff *skb)
{
	return at_tc(skb, 0);
}

SEC("tc")
int limit_back(struct __sk_buff *skb)
{
	return at_tc(skb, 1);
}
#else
SEC("tp_btf/net_dev_queue")
int limit_in(__u64 *ctx)
{
	struct sk_buff *skb = (void *)ctx[0];

	return traced(skb, skb->dev, skb->network_header, 0);
}

SEC("tp_btf/netif_receive_skb")
int limit_back(__u64 *ctx)
{
	struct sk_buff *skb = (void *)ctx[0];

	return traced(skb, skb->dev, skb->data - skb->head, 1);
}
#endif

SEC("tp_btf/net_dev_start_xmit")
int limit_out(__u64 *ctx)
{
	struct sk_buff *skb = (void *)ctx[0];

	return traced(skb, (void *)ctx[1], skb->network_header, 0);
}
