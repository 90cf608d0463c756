/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * westwood.h - Westwood+'s estimate of the bandwidth, and its window.
 * Described in westwood.bpf.c.
 */
#ifndef TCPILOT_WESTWOOD_H
#define TCPILOT_WESTWOOD_H

#include "lib/pacing.h"

/* A sample covers a round trip, and so many at least: a burst is no rate. */
#define WESTWOOD_LEAST_US 50000
/* An eighth of each sample goes into the average. */
#define WESTWOOD_SHIFT 3

struct tp_westwood {
	__u64 start_us; /* of the interval being measured */
	__u64 bw;	/* packets per microsecond, times TP_BW_UNIT; 0: none yet */
	__u64 bw_once;	/* the average before its second averaging */
	__u32 start_delivered;
	__u32 min_rtt_us; /* all ones: none yet */
	__u32 rtt_us;	  /* the newest */
	__u8 forget;	  /* the path may have changed: the next RTT is the least */
};

TP_INLINE void westwood_begin(struct tp_westwood *s, __u64 now_us, __u32 delivered)
{
	*s = (struct tp_westwood){
	    .start_us = now_us, .start_delivered = delivered, .min_rtt_us = ~0U};
}

TP_INLINE __u64 westwood_smooth(__u64 bw, __u64 sample)
{
	return bw - (bw >> WESTWOOD_SHIFT) + (sample >> WESTWOOD_SHIFT);
}

/* delivered: of the connection so far, in order or not.  rtt_us is negative if it is not known.
 */
TP_INLINE void westwood_sample(struct tp_westwood *s, __s32 rtt_us, __u32 delivered, __u64 now_us)
{
	__u64 interval_us = now_us - s->start_us, sample;

	if (rtt_us > 0) {
		s->rtt_us = rtt_us;
		s->min_rtt_us = s->forget ? rtt_us : tp_min(s->min_rtt_us, rtt_us);
		s->forget = 0;
	}
	if (!s->rtt_us || interval_us < tp_max(s->rtt_us, WESTWOOD_LEAST_US))
		return;
	sample = tp_bandwidth(delivered - s->start_delivered, interval_us);
	s->bw_once = s->bw ? westwood_smooth(s->bw_once, sample) : sample;
	s->bw = s->bw ? westwood_smooth(s->bw, s->bw_once) : sample;
	s->start_us = now_us;
	s->start_delivered = delivered;
}

TP_INLINE void westwood_grow(const struct tp_westwood *s, struct tp_cwnd *w, const struct tp_ack *a)
{
	tp_reno_increase(w, a->acked);
}

/* The packets a path holds without a queue. */
TP_INLINE __u32 westwood_fitting(const struct tp_westwood *s)
{
	if (s->min_rtt_us == ~0U)
		return TP_CWND_MIN;
	return tp_max(tp_min64(tp_delivers(s->bw, s->min_rtt_us), TP_SSTHRESH_MAX), TP_CWND_MIN);
}

/* While a loss is repaired the window is Reno's. */
TP_INLINE __u32 westwood_threshold(const struct tp_westwood *s, const struct tp_cwnd *w)
{
	return tp_half(w->packets);
}

/* Once it is: the fitting window. */
TP_INLINE void westwood_repaired(const struct tp_westwood *s, struct tp_cwnd *w)
{
	w->packets = w->ssthresh = westwood_fitting(s);
}

/* A time-out: slow start up to the fitting window. */
TP_INLINE void westwood_timed_out(struct tp_westwood *s, struct tp_cwnd *w)
{
	w->ssthresh = westwood_fitting(s);
	s->forget = 1;
}

#endif
