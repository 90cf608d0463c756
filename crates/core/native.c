/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * native.c - bpf/core's inline functions as symbols, for the tests in Rust.
 * The text under test is included unchanged; nothing is computed here.
 */
#include <linux/types.h>
#include "abi/abi.h"
#include "core/atomic.h"
#include "core/bucket.h"
#include "core/hash.h"
#include "core/loss.h"
#include "core/prefix.h"
#include "core/sample.h"

__u32 native_victim(const struct tp_bucket *bucket, __u64 now_ns)
{
	return tp_victim(bucket, now_ns);
}

void native_begin_slot(struct tp_slot *slot, const struct tp_path_key *key, __u64 now_ns)
{
	tp_begin_slot(slot, key, now_ns);
}

__u64 native_delivery_rate(__u32 packets, __u32 interval_us, __u32 mss)
{
	return tp_delivery_rate(packets, interval_us, mss);
}

__u32 native_valid_rtt_us(__u32 rtt_us)
{
	return tp_valid_rtt_us(rtt_us);
}

int native_loss_is_heavy(__u32 retransmitted, __u32 sent, __u32 min_sent, __u32 shift)
{
	return tp_loss_is_heavy(retransmitted, sent, min_sent, shift);
}

__u64 native_busy_rate(__u64 bytes_acked, __u32 busy_ticks, __u32 ticks_per_s)
{
	return tp_busy_rate(bytes_acked, busy_ticks, ticks_per_s);
}

void native_decrement(__u32 *count)
{
	tp_decrement(count);
}

void native_learn_path(const struct tp_config *cfg, struct tp_path *path,
		       const struct tp_sample *sample, __u64 now_ns)
{
	tp_learn_path(cfg, path, sample, now_ns);
}

__u64 native_window_max(const struct tp_window64 *window)
{
	return tp_window_max(window);
}

__u32 native_window_min(const struct tp_window32 *window)
{
	return tp_window_min(window);
}

void native_path_prefix(const struct tp_policy_config *policy, const __u32 addr[4],
			struct tp_path_key *key)
{
	tp_path_prefix(policy, addr, key);
}

int native_is_loopback(const __u32 addr[4])
{
	return tp_is_loopback(addr);
}

__u32 native_mask_word(__u32 bits, __u32 word)
{
	return tp_mask_word(bits, word);
}

__u32 native_hash(const __u64 secret[TP_HASH_SECRETS], const __u32 word[TP_HASH_WORDS])
{
	return tp_hash(secret, word);
}
