/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * windows.c - congestion controls that grow a window and choose a threshold, as
 * tables of functions for the tests in Rust.  Nothing is computed here.
 */
#include <linux/types.h>
#include "cc/bic.h"
#include "cc/hstcp.h"
#include "cc/hybla.h"
#include "cc/illinois.h"
#include "cc/vegas.h"
#include "cc/veno.h"
#include "cc/westwood.h"
#include "cc/yeah.h"

struct native_control {
	void (*begin)(void *s, const struct tp_ack *a);
	void (*enter)(void *s, const struct tp_ack *a, __u8 state, const struct tp_cwnd *w);
	void (*sample)(void *s, __s32 rtt_us, __u32 acked, __u64 now_us);
	void (*grow)(void *s, struct tp_cwnd *w, const struct tp_ack *a);
	__u32 (*threshold)(void *s, const struct tp_cwnd *w);
};

static void no_enter(void *s, const struct tp_ack *a, __u8 state, const struct tp_cwnd *w)
{
}

static void no_sample(void *s, __s32 rtt_us, __u32 acked, __u64 now_us)
{
}

/* Those functions that every algorithm has, and the table with the others. */
#define CONTROL(name, begin_, enter_, sample_)                                                     \
	static void name##_grow_(void *s, struct tp_cwnd *w, const struct tp_ack *a)               \
	{                                                                                          \
		name##_grow(s, w, a);                                                              \
	}                                                                                          \
	static __u32 name##_threshold_(void *s, const struct tp_cwnd *w)                           \
	{                                                                                          \
		return name##_threshold(s, w);                                                     \
	}                                                                                          \
	const struct native_control native_##name = {begin_, enter_, sample_, name##_grow_,        \
						     name##_threshold_}

#define BEGIN(name)                                                                                \
	static void name##_begin_(void *s, const struct tp_ack *a)                                 \
	{                                                                                          \
		name##_begin(s, a);                                                                \
	}
#define ENTER(name)                                                                                \
	static void name##_enter_(void *s, const struct tp_ack *a, __u8 state,                     \
				  const struct tp_cwnd *w)                                         \
	{                                                                                          \
		name##_enter(s, a, state, w);                                                      \
	}
#define SAMPLE(name)                                                                               \
	static void name##_sample_(void *s, __s32 rtt_us, __u32 acked, __u64 now_us)               \
	{                                                                                          \
		name##_sample(s, rtt_us, acked, now_us);                                           \
	}

BEGIN(bic)
ENTER(bic)
CONTROL(bic, bic_begin_, bic_enter_, no_sample);

BEGIN(hstcp)
CONTROL(hstcp, hstcp_begin_, no_enter, no_sample);

BEGIN(hybla)
ENTER(hybla)
CONTROL(hybla, hybla_begin_, hybla_enter_, no_sample);

BEGIN(illinois)
ENTER(illinois)
SAMPLE(illinois)
CONTROL(illinois, illinois_begin_, illinois_enter_, illinois_sample_);

BEGIN(vegas)
ENTER(vegas)
SAMPLE(vegas)
CONTROL(vegas, vegas_begin_, vegas_enter_, vegas_sample_);

BEGIN(veno)
SAMPLE(veno)
CONTROL(veno, veno_begin_, no_enter, veno_sample_);

/* Westwood+ counts what was delivered since the connection began: no `acked` here. */
static void westwood_begin_(void *s, const struct tp_ack *a)
{
	westwood_begin(s, a->now_us, 0);
}
ENTER(westwood)
SAMPLE(westwood)
CONTROL(westwood, westwood_begin_, westwood_enter_, westwood_sample_);

BEGIN(yeah)
ENTER(yeah)
SAMPLE(yeah)
CONTROL(yeah, yeah_begin_, yeah_enter_, yeah_sample_);

__u32 native_hstcp_a(__u32 packets)
{
	return hstcp_a(packets);
}

__u32 native_hybla_rho(__u32 rtt_us)
{
	return hybla_rho(rtt_us);
}

__u32 native_hybla_exp2(__u32 x)
{
	return hybla_exp2(x);
}

__u32 native_illinois_hyperbola(__u32 da, __u32 dm)
{
	return illinois_hyperbola(da, dm);
}

__u32 native_illinois_beta(__u32 da, __u32 dm)
{
	return illinois_beta(da, dm);
}

__u32 native_bic_per(__u32 max, __u32 packets)
{
	struct tp_bic s = {.max = max};

	return bic_per(&s, packets);
}

__u32 native_queued(__u32 packets, __u32 rtt_us, __u32 base_us)
{
	return tp_queued(packets, rtt_us, base_us);
}
