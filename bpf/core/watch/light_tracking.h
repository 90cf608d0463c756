/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * light_tracking.h - a flow that has been in its group for long is measured in some rounds only.
 *
 * Most bytes of a link belong to few long flows, whose algorithm does not change.  So all rounds of
 * a settled flow are measured for TP_FULL_TRACKING_ROUNDS, and none in the light tracking that
 * follows, for up to a minute: it counts packets, bytes and losses.  A change of the algorithm is
 * found afterwards.
 *
 * Rounds after light tracking do not continue those before it.  The window and the queue of the
 * last rounds are forgotten, and the trees are asked again when there are enough new ones.
 *
 * Pure functions, also compiled for the host by tests and by the laboratory.
 */
#ifndef TCPILOT_LIGHT_TRACKING_H
#define TCPILOT_LIGHT_TRACKING_H

#include "classify.h"

#define TP_LIGHT_AFTER 64  /* rounds in its group before the first time */
#ifndef TP_LIGHT_AGAIN	   /* the laboratory compares others: studies/watch/light.py */
#define TP_LIGHT_AGAIN 170 /* of 255: votes for the group, after the first time */
#endif
#define TP_LIGHT_NAME 128	 /* of 255: votes for its name, too */
#define TP_LIGHT_NAMELESS 512	 /* rounds after which its name is not waited for any more */
#define TP_LIGHT_MAX_US 60000000 /* a minute */

/* Whether light tracking may begin after this round, which shape and verdict include.  After the
 * first time, two thirds of the votes for the flow's group suffice. */
TP_INLINE int tp_may_track_lightly(const struct tp_verdict *v, const struct tp_shape *s,
				   const struct tp_round *r)
{
	__u32 in_group = r->number - v->since_round;
	__u32 enough = s->resumed ? TP_LIGHT_AGAIN : TP_SETTLED;

	return v->group >= TP_GROUP_LOSS && v->group <= TP_GROUP_MODEL &&
	       v->group_confidence >= enough && in_group >= TP_LIGHT_AFTER &&
	       (v->confidence >= TP_LIGHT_NAME || in_group >= TP_LIGHT_NAMELESS) &&
	       s->since_loss > 3 &&
	       (!s->resumed || s->rounds - s->resumed >= TP_FULL_TRACKING_ROUNDS);
}

/* The duration: as long as the flow was measured before. */
TP_INLINE __u32 tp_light_us(const struct tp_shape *s, const struct tp_round *r)
{
	return tp_min64((__u64)r->rtt_us * s->rounds, TP_LIGHT_MAX_US);
}

/* Light tracking ends.  lost_us: since the flow's last loss, if it has lost meanwhile. */
TP_INLINE void tp_shape_resumes(struct tp_shape *s, __u32 light_us, __u32 rtt_us, int has_lost,
				__u32 lost_us)
{
	__u32 since_us = has_lost ? lost_us : light_us;
	__u32 rounds = since_us / tp_max(rtt_us, 1);

	if (has_lost) {
		s->losses++;
		/* Past the rounds in which the response to a loss is measured. */
		s->since_loss = rounds + 3;
		s->since_loss_us = since_us;
	} else {
		s->since_loss += rounds;
		s->since_loss_us = tp_min64((__u64)s->since_loss_us + since_us, 1U << 30);
	}
	for (__u32 i = 0; i < TP_SHAPE_ROUNDS; i++)
		s->window[i] = 0;
	s->clock_us += light_us;
	s->deep.is_known = s->half.is_known = 0;
	s->deep.low_us = s->half.low_us = 0;
	s->steady_rounds = s->steady_rtt_us = s->steady_least_us = 0;
	s->is_paced = 0;
	s->in_dip = 0;
	s->resumed = s->rounds;
}

#endif
