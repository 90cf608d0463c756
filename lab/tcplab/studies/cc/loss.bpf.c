/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * loss.bpf.c - drops PER_MILLE of a thousand data packets, pseudo-randomly but
 * always the same ones for one SEED: netem's draws differ from run to run, and then so would two
 * runs of one algorithm.
 *
 * A tc classifier for the router's ingress.  Packets without data pass uncounted.
 */
#include <linux/bpf.h>
#include <linux/pkt_cls.h>

#define SEC(name) __attribute__((section(name), used))
#define SMALL 200 /* bytes; acknowledgements are smaller */

__u64 packets = SEED * 1000000ULL;

/* SplitMix64's mixing (Steele, Lea, Flood 2014). */
static __u64 mix(__u64 z)
{
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return z ^ (z >> 31);
}

SEC("tc")
int lose(struct __sk_buff *skb)
{
	if (skb->len < SMALL)
		return TC_ACT_OK;
	packets++;
	return mix(packets * 0x9e3779b97f4a7c15ULL) % 1000 < PER_MILLE ? TC_ACT_SHOT : TC_ACT_OK;
}

char _license[] SEC("license") = "GPL";
