/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * flood.bpf.c - writes records of made-up connections into a daemon's ring, more than real
 * traffic could make here.  The daemon learns from them as from any other.
 */
#include "../../bpf/abi/abi.h"
#include "../../bpf/kernel/types.h"

char _license[] SEC("license") = "GPL";

/* The loader puts the daemon's ring in place of this one. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, TP_RECORDS_BYTES);
} records SEC(".maps");

/* The order to write, and its outcome; flood.rs has the same structure. */
struct flood {
	__u32 first; /* number of the first connection */
	__u32 count;
	__u32 paths;	 /* number of addresses */
	__u32 per_group; /* addresses in each /24 */
	__u32 arms;
	__u32 dropped; /* out: records without room in the ring */
};

/* An order of the paths in which neighbours do not follow each other. */
#define STEP 7368787ULL

static __always_inline void fill(const struct flood *f, __u32 number, struct tp_record *r)
{
	__u32 path = number * STEP % f->paths;
	__u32 address = 0x0b000000 + (path / f->per_group << 8) + path % f->per_group;

	r->remote[2] = __builtin_bswap32(0xffff);
	r->remote[3] = __builtin_bswap32(address);
	r->at_ns = bpf_ktime_get_ns();
	r->opened_ns = r->at_ns - 1000000000ULL;
	r->bytes_acked = 1000000;
	r->handshake_us = r->srtt_us = r->min_rtt_us = 40000;
	r->segments = 700;
	r->ssthresh_packets = 46;
	r->rate = 1000;
	r->class = 15;
	r->probability = 0x8000;
	r->weight = 1;
	r->why = TP_WHY_DRAWN;
	r->arm = (number * 2654435761U >> 16) % f->arms;
	/* In each third group the other algorithm is better; and no two connections are alike. */
	r->busy_ticks = 200 + number % 128;
	if (r->arm && path / f->per_group % 3 == 0)
		r->busy_ticks /= 2;
}

struct pieces {
	struct flood *flood;
};

static long write_one(__u32 index, struct pieces *pieces)
{
	struct flood *f = pieces->flood;
	struct tp_record r = {};

	if (!f->paths || !f->per_group || !f->arms)
		return 1;
	fill(f, f->first + index, &r);
	if (bpf_ringbuf_output(&records, &r, sizeof(r), BPF_RB_NO_WAKEUP))
		f->dropped++;
	return 0;
}

SEC("syscall")
int flood(struct flood *ctx)
{
	struct flood f = *ctx;
	struct pieces pieces = {.flood = &f};

	bpf_loop(f.count, write_one, &pieces, 0);
	ctx->dropped = f.dropped;
	return 0;
}
