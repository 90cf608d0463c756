/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * native_watch.c - the classifiers of `tcpilot watch` as symbols, for the tests
 * in Rust. The text under test is included unchanged; nothing is computed here.
 */
#include <linux/types.h>
#include "abi/abi.h"
#include "core/sparse.h"
#include "core/turns.h"
#include "core/watch/p4air.h"
#include "core/watch/shape.h"
#include "core/watch/light_tracking.h"

__s64 native_ants_credit(__s64 credit, __u32 bytes, int is_ants)
{
	return tp_ants_credit(credit, bytes, is_ants);
}

__s64 native_credit_at_leave(__s64 credit)
{
	return tp_credit_at_leave(credit);
}

int native_is_sparse(struct tp_sparse *sparse, __u64 rate, __u32 turn_bytes, int is_alone,
		     __u32 bytes, __u64 now_ns)
{
	struct tp_sparse_share share = {rate, turn_bytes, is_alone};

	return tp_is_sparse(sparse, &share, bytes, now_ns);
}

__u32 native_p4air_bdp_packets(__u64 link_rate, __u32 long_flows, __u32 rtt_us, __u32 packet_bytes)
{
	return tp_p4air_bdp_packets(link_rate, long_flows, rtt_us, packet_bytes);
}

void native_p4air_interval(struct tp_p4air *flow, __u32 packets, __u32 dropped, __u32 queue_us,
			   __u32 bdp_packets)
{
	tp_p4air_interval(flow, packets, dropped, queue_us, bdp_packets);
}

__u32 native_mean_gap(__u32 mean_ns, __u32 gap_ns, __u32 packets)
{
	return tp_mean_gap(mean_ns, gap_ns, packets);
}

void native_shape_round(struct tp_shape *shape, const struct tp_round *round)
{
	tp_shape_round(shape, round);
}

void native_features(const struct tp_shape *shape, const struct tp_round *round, __s32 *features)
{
	tp_features(shape, round, features);
}

void native_classify(struct tp_verdict *verdict, const struct tp_shape *shape,
		     const struct tp_round *round, const struct tp_model *model)
{
	struct tp_scratch scratch;

	tp_classify(verdict, shape, round, model, &scratch);
}

int native_may_track_lightly(const struct tp_verdict *verdict, const struct tp_shape *shape,
			     const struct tp_round *round)
{
	return tp_may_track_lightly(verdict, shape, round);
}

__u32 native_light_us(const struct tp_shape *shape, const struct tp_round *round)
{
	return tp_light_us(shape, round);
}

void native_shape_resumes(struct tp_shape *shape, __u32 light_us, __u32 rtt_us, int has_lost,
			  __u32 lost_us)
{
	tp_shape_resumes(shape, light_us, rtt_us, has_lost, lost_us);
}

__u32 native_cubic_k_ms(__u32 lost_x16)
{
	return tp_cubic_k_ms(lost_x16);
}

__s64 native_cubic_window(__u32 origin, __u32 after, __u32 ms, __u32 rounds)
{
	__u32 k_ms = tp_cubic_k_ms(origin > after ? origin - after : 0);

	return tp_cubic_window(origin, after, k_ms, ms, rounds);
}

__u32 native_htcp_growth(__u32 since_us, __u32 min_rtt_us, __u32 response)
{
	return tp_htcp_growth(since_us, min_rtt_us, response);
}

__u32 native_illinois_growth(__u32 share)
{
	return tp_illinois_growth(share);
}

__u32 native_bic_growth(__u32 window, __u32 before)
{
	return tp_bic_growth(window, before);
}

__u32 native_highspeed_growth(__u32 window)
{
	return tp_highspeed_growth(window);
}

int native_quotient(int a, int b)
{
	return tp_quotient(a, b);
}
