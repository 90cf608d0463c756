/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * nap.h - a flow that has been in its group for long is measured in some rounds only.
 *
 * Most bytes of a link belong to few long flows, whose algorithm does not change.  So a
 * settled flow is awake for TP_AWAKE_ROUNDS, and then naps for up to a minute: packets, bytes and
 * losses are counted, but no rounds.  A flow that changes its algorithm is found after its nap.
 *
 * Rounds behind a nap do not continue those before it.  The window and the queue of the last
 * rounds are forgotten, and the trees are asked again when there are enough new ones.
 *
 * Pure functions, also compiled for the host by tests and by the laboratory.
 */
#ifndef TCPILOT_NAP_H
#define TCPILOT_NAP_H

#include "classify.h"

#define TP_NAP_AFTER 64		/* rounds in its group before the first nap */
#define TP_NAP_AGAIN 170	/* of 255: votes for the group of one that has napped before */
#define TP_NAP_NAME 128		/* of 255: votes for its name, too */
#define TP_NAP_NAMELESS 512	/* rounds after which its name is not waited for any more */
#define TP_NAP_MOST_US 60000000 /* a minute */

/* Whether a flow may nap after this round, which its shape and verdict include.  One that has
 * napped before naps again as long as two thirds of the votes are for its group. */
TP_INLINE int tp_may_nap(const struct tp_verdict *v, const struct tp_shape *s,
			 const struct tp_round *r)
{
	__u32 in_group = r->number - v->since_round;
	__u32 enough = s->woke ? TP_NAP_AGAIN : TP_SETTLED;

	return v->group >= TP_GROUP_LOSS && v->group <= TP_GROUP_MODEL &&
	       v->group_confidence >= enough && in_group >= TP_NAP_AFTER &&
	       (v->confidence >= TP_NAP_NAME || in_group >= TP_NAP_NAMELESS) && s->since_loss > 3 &&
	       (!s->woke || s->rounds - s->woke >= TP_AWAKE_ROUNDS);
}

/* How long it naps: as long as it was measured before. */
TP_INLINE __u32 tp_nap_us(const struct tp_shape *s, const struct tp_round *r)
{
	return tp_min64((__u64)r->rtt_us * s->rounds, TP_NAP_MOST_US);
}

/* A nap is over.  lost_us: since its last loss, if it has lost meanwhile. */
TP_INLINE void tp_shape_wakes(struct tp_shape *s, __u32 napped_us, __u32 rtt_us, int has_lost,
			      __u32 lost_us)
{
	__u32 since_us = has_lost ? lost_us : napped_us;
	__u32 rounds = since_us / tp_max(rtt_us, 1);

	if (has_lost) {
		s->losses++;
		/* Past the rounds in which the answer to a loss is measured. */
		s->since_loss = rounds + 3;
		s->since_loss_us = since_us;
	} else {
		s->since_loss += rounds;
		s->since_loss_us = tp_min64((__u64)s->since_loss_us + since_us, 1U << 30);
	}
	for (__u32 i = 0; i < TP_SHAPE_ROUNDS; i++)
		s->window[i] = 0;
	s->clock_us += napped_us;
	s->deep.is_known = s->half.is_known = 0;
	s->deep.low_us = s->half.low_us = 0;
	s->steady_rounds = s->steady_rtt_us = s->steady_least_us = 0;
	s->is_paced = 0;
	s->in_dip = 0;
	s->woke = s->rounds;
}

#endif
