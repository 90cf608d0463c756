/* SPDX-License-Identifier: GPL-2.0-or-later */
/* lola.h - TCP LoLa's arithmetic; see lola.bpf.c. */
#ifndef TCPILOT_LOLA_H
#define TCPILOT_LOLA_H

#include "lib/cubicroot.h"

#define LOLA_Q_LOW_US 1000
#define LOLA_Q_TARGET_US 5000
#define LOLA_HOLD_US 250000
#define LOLA_PHI_MS 35
#define LOLA_GAMMA_OF_1024 973
#define LOLA_PACKET 1448U	    /* bytes, Ethernet's with timestamps */
#define LOLA_MEASURE_US 20000	    /* at least so long is the least RTT taken over */
#define LOLA_RTT_AGE_US 10000000ULL /* a base RTT not seen for so long is dropped */
#define LOLA_RTT_NEAR_US 200
#define LOLA_NO_RTT 0x7fffffffU

enum lola_phase { LOLA_SLOW_START, LOLA_CUBIC, LOLA_FAIR, LOLA_HOLD };

struct tp_lola {
	__u64 since_us;			 /* of the phase */
	__u64 round_us;			 /* of the measurement */
	__u64 base_seen_us;		 /* when the base RTT was last nearly seen */
	__u32 base_us, now_us, least_us; /* RTTs: without queue, current, of the measurement */
	__u32 origin, k_ms;
	__u32 seen_us; /* least since the last decongestion */
	__u32 end;
	__u32 rest;	  /* bytes of the balance, not yet a packet */
	__u64 climb_rest; /* the same of the cubic's growth */
	__u8 phase, samples;
};

TP_INLINE void lola_begin(struct tp_lola *l, const struct tp_ack *a)
{
	*l = (struct tp_lola){};
	l->since_us = l->round_us = l->base_seen_us = a->now_us;
	l->base_us = l->least_us = l->seen_us = LOLA_NO_RTT;
	l->phase = LOLA_SLOW_START;
}

/* RTT_now is the least of a short interval: a filter against delayed acknowledgements. */
TP_INLINE void lola_sample(struct tp_lola *l, __s32 rtt_us, __u32 acked, __u64 now_us)
{
	if (rtt_us <= 0)
		return;
	if ((__u32)rtt_us < l->base_us)
		l->base_us = rtt_us;
	if ((__u32)rtt_us <= l->base_us + LOLA_RTT_NEAR_US)
		l->base_seen_us = now_us;
	l->seen_us = tp_min(l->seen_us, rtt_us);
	l->least_us = tp_min(l->least_us, rtt_us);
	l->samples = tp_min(l->samples + 1, 255);
	if (now_us - l->round_us >= tp_max(LOLA_MEASURE_US, l->base_us / 2) && l->samples > 2) {
		l->now_us = l->least_us;
		l->least_us = LOLA_NO_RTT;
		l->round_us = now_us;
		l->samples = 0;
	}
}

TP_INLINE __u32 lola_delay_us(const struct tp_lola *l)
{
	return l->now_us > l->base_us ? l->now_us - l->base_us : 0;
}

/*
 * Bytes of this flow in the queue: the window's times the queue's share of the RTT
 * (section III.C).  In packets, few as they are on a slow link, different shares
 * would often look alike.
 */
TP_INLINE __u64 lola_queued(const struct tp_lola *l, __u32 cwnd)
{
	return l->now_us ? (__u64)cwnd * LOLA_PACKET * lola_delay_us(l) / l->now_us : 0;
}

/* X(t) = (t / phi)^3 bytes: the same for every flow, and it only depends on time. */
TP_INLINE __u64 lola_share(__u64 t_us)
{
	__u64 ms = tp_min64(t_us / TP_USEC_PER_MSEC, 100000);

	return ms * ms * ms / (LOLA_PHI_MS * LOLA_PHI_MS * LOLA_PHI_MS);
}

TP_INLINE void lola_enter_phase(struct tp_lola *l, enum lola_phase phase, __u64 now_us)
{
	l->phase = phase;
	l->since_us = now_us;
}

/* Cubic increase starts below `max`, with the window as it is. */
TP_INLINE void lola_climb(struct tp_lola *l, __u32 cwnd, __u32 max, __u64 now_us)
{
	lola_enter_phase(l, LOLA_CUBIC, now_us);
	l->origin = tp_max(cwnd, max);
	l->k_ms = tp_cubic_ms(l->origin - cwnd);
	l->climb_rest = 0;
}

/* Tailored decrease (section III.E): the queue, and a little more to empty it. */
TP_INLINE void lola_decongest(struct tp_lola *l, struct tp_cwnd *w, __u64 now_us)
{
	__u32 max = w->packets;
	__u64 kept = (__u64)max * LOLA_PACKET - lola_queued(l, max);

	/* to the nearest: rounded down, a window of three packets would lose a third */
	kept = (kept * LOLA_GAMMA_OF_1024 / 1024 + LOLA_PACKET / 2) / LOLA_PACKET;
	w->packets = tp_max(kept, TP_CWND_MIN);
	w->ssthresh = w->packets;
	/* the base RTT was not seen for long, so the path is another one */
	if (now_us - l->base_seen_us > LOLA_RTT_AGE_US) {
		l->base_us = l->seen_us;
		l->base_seen_us = now_us;
	}
	l->seen_us = LOLA_NO_RTT;
	l->now_us = 0;
	lola_climb(l, w->packets, max, now_us);
}

TP_INLINE void lola_slow_start(struct tp_lola *l, struct tp_cwnd *w, const struct tp_ack *a)
{
	if (!tp_in_slow_start(w)) {
		lola_climb(l, w->packets, w->packets, a->now_us);
		return;
	}
	tp_slow_start(w, a->acked);
	if (lola_delay_us(l) > 2 * LOLA_Q_LOW_US)
		lola_decongest(l, w, a->now_us);
}

TP_INLINE void lola_climbing(struct tp_lola *l, struct tp_cwnd *w, const struct tp_ack *a)
{
	__u64 t_us = a->now_us - l->since_us + a->srtt_us;
	__u32 t_ms = tp_min64(t_us / TP_USEC_PER_MSEC, TP_CUBIC_MS_MAX * 2);

	tp_approach(w, &l->climb_rest, tp_cubic_parts(t_ms, l->k_ms, l->origin), a->acked);
	if (lola_delay_us(l) > LOLA_Q_LOW_US) {
		lola_enter_phase(l, LOLA_FAIR, a->now_us);
		l->end = a->una; /* a sequence number of now, wherever they began */
	}
}

/*
 * What makes the queue longer by its target, if every flow does so.  X(t) knows no
 * rate, and a step is seen only an RTT later: by then it would have passed the
 * target of a slow link many times over.
 */
TP_INLINE __u64 lola_step_most(const struct tp_lola *l, __u32 packets)
{
	return tp_max64((__u64)packets * LOLA_Q_TARGET_US / tp_max(l->now_us, 1), 1);
}

/* Fair flow balancing (section III.C): as many packets in the queue as every other flow has. */
TP_INLINE void lola_balance(struct tp_lola *l, struct tp_cwnd *w, const struct tp_ack *a)
{
	__u64 queued = lola_queued(l, w->packets);
	__u64 share = lola_share(a->now_us - l->since_us);

	if (share > queued && tp_before(l->end, a->una)) {
		/* once an RTT, since the queue shows the last step only then */
		__u64 most = lola_step_most(l, w->packets) * LOLA_PACKET;
		__u64 bytes = l->rest + tp_min64(share - queued, most);

		w->packets += bytes / LOLA_PACKET;
		l->rest = bytes % LOLA_PACKET;
		l->end = a->nxt;
	}
	if (lola_delay_us(l) > LOLA_Q_TARGET_US)
		lola_enter_phase(l, LOLA_HOLD, a->now_us);
}

TP_INLINE void lola_grow(struct tp_lola *l, struct tp_cwnd *w, const struct tp_ack *a)
{
	switch (l->phase) {
	case LOLA_SLOW_START:
		lola_slow_start(l, w, a);
		break;
	case LOLA_CUBIC:
		lola_climbing(l, w, a);
		break;
	case LOLA_FAIR:
		lola_balance(l, w, a);
		break;
	default: /* hold (section III.D): all flows see the target exceeded, then reduce together */
		if (a->now_us - l->since_us >= LOLA_HOLD_US)
			lola_decongest(l, w, a->now_us);
	}
	w->packets = tp_min(w->packets, w->clamp);
}

/* A loss is congestion for LoLa too: as cubic. */
TP_INLINE __u32 lola_threshold(struct tp_lola *l, const struct tp_cwnd *w, __u64 now_us)
{
	__u32 kept = tp_scale(w->packets, 7, 10);

	lola_climb(l, kept, w->packets, now_us);
	return kept;
}

#endif
