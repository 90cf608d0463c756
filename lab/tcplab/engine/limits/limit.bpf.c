// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * limit.bpf.c - the indispensable steps of such a sockops program, one by one, as the measure of a
 * tuner's own cost.
 *
 * Compiled once for each sum of the parts below (-D PARTS=...; __init__.py).  All ask for the
 * pilot's callbacks.
 *
 * It includes no header of libbpf, since the host need not have libbpf.
 */
#include <linux/types.h>
#include <linux/bpf.h>

#define SEC(name) __attribute__((section(name), used))
#define __uint(name, value) int(*name)[value]
#define __type(name, value) typeof(value) *name

static void *(*map_find)(void *map, const void *key) = (void *)BPF_FUNC_map_lookup_elem;
static long (*map_put)(void *map, const void *key, const void *value,
		       __u64 flags) = (void *)BPF_FUNC_map_update_elem;
static long (*set_option)(void *ctx, int level, int name, const void *value,
			  int length) = (void *)BPF_FUNC_setsockopt;
static long (*ask_for_callbacks)(struct bpf_sock_ops *ctx,
				 int flags) = (void *)BPF_FUNC_sock_ops_cb_flags_set;
static void *(*storage_of)(void *map, void *sk, void *value,
			   __u64 flags) = (void *)BPF_FUNC_sk_storage_get;
static long (*ring_put)(void *ring, const void *data, __u64 size,
			__u64 flags) = (void *)BPF_FUNC_ringbuf_output;
static __u32 (*random_number)(void) = (void *)BPF_FUNC_get_prandom_u32;

#define LEVEL_TCP 6
#define TCP_CONGESTION 13

/* A program's additional work. */
enum {
	SET = 1,     /* sets bbr at the establishment */
	RANDOM = 2,  /* draws a random number there */
	LOOKUP = 4,  /* finds a path by its key there, and again at the end */
	STORAGE = 8, /* makes the socket's storage there, and finds it at the end */
	RECORD = 16, /* writes a record of 64 bytes to a ring at the end */
	MOVE = 32,   /* sets bbr at the first retransmission */
};

char _license[] SEC("license") = "GPL";

/* As large as the pilot's. */
struct path_key {
	__u64 netns;
	__u32 prefix[4];
	__u64 rest;
};

struct record {
	__u64 word[8];
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, struct path_key);
	__type(value, struct record);
} paths SEC(".maps");

static __attribute__((always_inline)) void find_path(struct bpf_sock_ops *ctx)
{
	struct path_key key = {.prefix = {0, 0, 0xffff, ctx->remote_ip4 & 0xffffff}};
	struct record *path = map_find(&paths, &key), none = {};

	if (path)
		path->word[0]++;
	else
		map_put(&paths, &key, &none, BPF_ANY);
}

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct record);
} connections SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} ends SEC(".maps");

static __attribute__((always_inline)) void set_bbr(struct bpf_sock_ops *ctx)
{
	char name[] = "bbr";

	set_option(ctx, LEVEL_TCP, TCP_CONGESTION, name, sizeof(name));
}

static __attribute__((always_inline)) void opened(struct bpf_sock_ops *ctx)
{
	if (PARTS & LOOKUP)
		find_path(ctx);
	if (PARTS & RANDOM && random_number() == 1)
		return;
	if (PARTS & SET)
		set_bbr(ctx);
	if (PARTS & STORAGE && ctx->sk)
		storage_of(&connections, ctx->sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
	ask_for_callbacks(ctx, BPF_SOCK_OPS_STATE_CB_FLAG | BPF_SOCK_OPS_RETRANS_CB_FLAG);
}

static __attribute__((always_inline)) void ended(struct bpf_sock_ops *ctx)
{
	struct record *kept, told = {.word = {ctx->remote_ip4}};

	if (PARTS & LOOKUP)
		find_path(ctx);
	if (PARTS & STORAGE && ctx->sk) {
		kept = storage_of(&connections, ctx->sk, 0, 0);
		if (kept)
			kept->word[0]++;
	}
	if (PARTS & RECORD)
		ring_put(&ends, &told, sizeof(told), BPF_RB_NO_WAKEUP);
}

SEC("sockops")
int floor_of(struct bpf_sock_ops *ctx)
{
	switch (ctx->op) {
	case BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB:
	case BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB:
		opened(ctx);
		break;
	case BPF_SOCK_OPS_RETRANS_CB:
		if (PARTS & MOVE)
			set_bbr(ctx); /* the kernel does nothing if it is set already */
		break;
	case BPF_SOCK_OPS_STATE_CB:
		if (ctx->args[1] == BPF_TCP_CLOSE)
			ended(ctx);
		break;
	}
	return 1;
}
