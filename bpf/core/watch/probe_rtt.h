/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * probe_rtt.h - the detector of PROBE_RTT: falls of the window at BBR's period.
 *
 * BBR lets the path's queue drain to measure its least round trip: PROBE_RTT, 200 ms
 * with four packets in flight, every ten seconds (Cardwell et al. 2016).  BBRv3 does it
 * every five seconds, with half of the path's bandwidth-delay product
 * (draft-ietf-ccwg-bbr, sections 2.14 and 5.3.4.3).
 *
 * Two falls to four packets are a sign.  Falls to a half need three, since other
 * algorithms halve, too.
 *
 * A flow also has few packets in flight if its application pauses.  So one fall is no
 * sign.  Falls are a sign if they come back at BBR's period with no other fall between
 * them, if the flow never stops sending for longer than a round trip, and if each lasts
 * as long as BBR's.  The sign fades when the next fall does not come.
 */
#ifndef TCPILOT_PROBE_RTT_H
#define TCPILOT_PROBE_RTT_H

#include "../../abi/watch.h"
#include "../num.h"

#define TP_PROBE_RTT_US 200000
#define TP_PROBE_RTT_FADES_US 25000000
#define TP_PROBE_RTT_SLACK_US 10000
#define TP_FULL_WINDOW (12 * 16) /* below it four packets are no fall */
#define TP_FOUR_PACKETS (5 * 16) /* an acknowledgement may be under way */

/* The bounds of BBR's period. */
struct tp_probe_rtt_period {
	__u32 least_us; /* between the starts of two falls */
	__u32 most_us;
};

/* Whether nothing was sent for longer than a round trip: a flow that always has data
 * sends when an acknowledgement comes. */
TP_INLINE int tp_is_idle(const struct tp_round *r, __u32 rtt_before_us)
{
	__u64 rtt_us = tp_max(r->rtt_us, rtt_before_us);

	return r->gap_max_us > rtt_us * 5 / 4 + TP_PROBE_RTT_SLACK_US;
}

TP_INLINE void tp_probe_rtt_forget(struct tp_probe_rtt *c)
{
	c->is_known = 0;
	c->intervals = 0;
	c->low_us = 0;
}

/* A fall that began then is complete. */
TP_INLINE void tp_probe_rtt_fell(struct tp_probe_rtt *c, const struct tp_probe_rtt_period *period,
				 __u32 began_us)
{
	__u32 since_us = began_us - c->at_us;

	if (c->is_known && since_us >= period->least_us && since_us <= period->most_us)
		c->intervals += c->intervals < 255;
	else
		c->intervals = 0;
	c->at_us = began_us;
	c->is_known = 1;
}

/* Adds a round.  is_low: the window is low in it; is_back: it is as large as before the fall. */
TP_INLINE void tp_probe_rtt_round(struct tp_probe_rtt *c, const struct tp_probe_rtt_period *period,
				  const struct tp_round *r, __u32 now_us, int is_low, int is_back)
{
	__u64 longest_us = TP_PROBE_RTT_US + 3ULL * r->rtt_us + TP_PROBE_RTT_SLACK_US;

	if (is_low) {
		c->low_us += r->duration_us;
		return;
	}
	if (c->low_us) {
		/* If the fall was too long, or the window is not back, something else
		 * caused it, perhaps the earlier falls, too. */
		if (is_back && c->low_us <= longest_us)
			tp_probe_rtt_fell(c, period, now_us - r->duration_us - c->low_us);
		else
			tp_probe_rtt_forget(c);
	}
	c->low_us = 0;
	if (c->is_known && now_us - c->at_us > TP_PROBE_RTT_FADES_US)
		tp_probe_rtt_forget(c);
}

/* Updates the two detectors of a shape, before the shape includes this round. */
TP_INLINE void tp_shape_probe_rtt(struct tp_shape *s, const struct tp_round *r, __u32 window,
				  int is_lossy)
{
	const struct tp_probe_rtt_period v1 = {8000000, 12000000}, v3 = {4000000, 6000000};
	__u32 before = s->window[(s->rounds - 1) & (TP_SHAPE_ROUNDS - 1)];
	int is_full = s->window_max > TP_FULL_WINDOW;

	s->clock_us += r->duration_us;
	if (!s->half.low_us)
		s->half.before = before;
	if (is_lossy || s->since_loss <= 4) {
		/* A loss makes the window fall, too. */
		s->deep.low_us = s->half.low_us = 0;
	} else if (tp_is_idle(r, s->rtt_before_us)) {
		tp_probe_rtt_forget(&s->deep);
		tp_probe_rtt_forget(&s->half);
	} else {
		tp_probe_rtt_round(&s->deep, &v1, r, s->clock_us,
				   is_full && window <= TP_FOUR_PACKETS,
				   window > TP_FULL_WINDOW && window * 2 > s->window_max);
		tp_probe_rtt_round(&s->half, &v3, r, s->clock_us,
				   is_full && window * 16 <= s->half.before * 10,
				   window * 16 >= s->half.before * 13);
	}
	s->rtt_before_us = r->rtt_us;
}

/* Whether the falls are BBRv3's, to a half. */
TP_INLINE int tp_probes_rtt_by_half(const struct tp_shape *s)
{
	return s->half.intervals >= 2;
}

/* Whether they are BBR's, to four packets. */
TP_INLINE int tp_probes_rtt_by_four(const struct tp_shape *s)
{
	return s->deep.intervals >= 1;
}

/* Whether they are those of any BBR. */
TP_INLINE int tp_probes_rtt(const struct tp_shape *s)
{
	return tp_probes_rtt_by_four(s) || tp_probes_rtt_by_half(s);
}

#endif
