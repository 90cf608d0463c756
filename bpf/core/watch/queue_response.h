/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * queue_response.h - a flow's response when the others make the queue longer or shorter.
 *
 * If a queue grows while the flow's own window shrinks, others filled it, and the flow gave
 * way: only an algorithm that reacts to delay does that without a loss.  If a flow keeps
 * its rate, whatever the queue does, its window does not limit it at all: its application,
 * or a bound on its pacing, does.  In somebody else's queue both have a few packets
 * waiting, so that alone is no sign.
 */
#ifndef TCPILOT_QUEUE_RESPONSE_H
#define TCPILOT_QUEUE_RESPONSE_H

#include "../../abi/watch.h"
#include "../num.h"

#define TP_QUEUE_RESPONSE_ROUNDS 8	 /* between the two compared rounds */
#define TP_QUEUE_RESPONSES_MAX (12 * 16) /* fading by one a round, they last for 96 rounds */
#define TP_QUEUE_RESPONSES_ENOUGH (6 * 16)
#define TP_JUST_PAUSED 2800 /* of 65536: s->idle for eight rounds after a pause */
#define TP_STEADY_ROUNDS 24
#define TP_RATE_SHIFT 3

/* If the queue has grown by an eighth of the path's round trip: did the window shrink? */
TP_INLINE void tp_shape_queue_response(struct tp_shape *s, const struct tp_round *r, __u32 window)
{
	__u32 i = (s->rounds - TP_QUEUE_RESPONSE_ROUNDS) & (TP_SHAPE_ROUNDS - 1);
	__u32 then = s->window[i], queue = s->queue[i];

	s->queue_responses -= s->queue_responses > 0;
	/* A pause makes the window shrink, too, while others fill the queue. */
	if (s->idle >= TP_JUST_PAUSED) {
		s->queue_responses = 0;
		return;
	}
	if (s->rounds < TP_QUEUE_RESPONSE_ROUNDS || !then ||
	    s->since_loss < TP_QUEUE_RESPONSE_ROUNDS + 2)
		return;
	if (r->sojourn_mean_us < queue + tp_max(r->min_rtt_us / 8, 1000))
		return;
	if (window + tp_max(then / 16, 16) <= then)
		s->queue_responses = tp_min(s->queue_responses + 16, TP_QUEUE_RESPONSES_MAX);
	else if (window >= then)
		s->queue_responses -= tp_min(s->queue_responses, 16);
}

/* Whether the rate of a round is as in the rounds before: within an eighth, or within a packet
 * and a half, since the ends of a round cut packets off. */
TP_INLINE int tp_is_steady(const struct tp_shape *s, const struct tp_round *r)
{
	__u64 expected = (__u64)s->rate_mean * r->duration_us / 1000;
	__u64 apart = r->in_bytes > expected ? r->in_bytes - expected : expected - r->in_bytes;

	return apart <= tp_max64(expected / 8, r->segment_bytes * 3 / 2);
}

/* A flow is paced if the round trip fell by a fifth and rose by a quarter in many rounds
 * without a loss, and the rate was always the same.  A constant window would have sent
 * faster and slower.  A fall or a rise alone is no sign: on a full link flows keep the same
 * rate while they make the queue longer, and while Vegas drains the queue that slow start left. */
TP_INLINE void tp_shape_pace(struct tp_shape *s, const struct tp_round *r, int is_lossy)
{
	__u64 rate = (__u64)r->in_bytes * 1000 / (r->duration_us ? r->duration_us : 1);

	if (is_lossy || !tp_is_steady(s, r)) {
		s->steady_rounds = s->steady_rtt_us = s->steady_least_us = 0;
		s->is_paced = 0;
	} else {
		s->steady_rounds += s->steady_rounds < 255;
		s->steady_rtt_us = tp_max(s->steady_rtt_us, r->rtt_us);
		if ((__u64)r->rtt_us * 5 <= (__u64)s->steady_rtt_us * 4)
			s->steady_least_us = tp_min_nonzero(s->steady_least_us, r->rtt_us);
		if (s->steady_rounds >= TP_STEADY_ROUNDS && s->steady_least_us &&
		    (__u64)r->rtt_us * 4 >= (__u64)s->steady_least_us * 5)
			s->is_paced = 1;
	}
	s->rate_mean += (__s32)(tp_min64(rate, 1U << 30) - s->rate_mean) >> TP_RATE_SHIFT;
}

#endif
