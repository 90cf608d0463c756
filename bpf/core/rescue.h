/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * rescue.h - does a connection lose packets through no fault of its own, and did another
 * algorithm help?  bpf/pilot/rescue.h asks this at each retransmission.
 *
 * Losses are judged by bouts: a bout is all losses in one window, with one reduction of that
 * window as the answer.  Before a bout of the connection's own making, a queue fills, so the
 * packets after the lost one come back late.  If a link drops packets at random, the others
 * come back as fast as ever.  Bouts count if they follow each other after slow start, without a
 * queue: each came although the window had been reduced for the last one.  If three of them make
 * a heavy loss, or eight a light one, the algorithm is the wrong one, as it takes these losses for
 * congestion.  One heavy bout is enough where the learner would hardly choose the algorithm again.
 *
 * With jitter, or a queue filled by others, the cause is uncertain, and nothing is done.  The
 * learner compares whole connections, without such a guess.
 */
#ifndef TCPILOT_CORE_RESCUE_H
#define TCPILOT_CORE_RESCUE_H

#include "../abi/rescue.h"
#include "../abi/choices.h"
#include "loss.h"
#include "num.h"

/* Bouts in a row, as evidence.  One or two are chance. */
#define TP_RESCUE_BOUTS 3
/* Light loss takes more of them: it costs less each second, so that there is time to be sure.
 * Loss is light down to 1/2^shift of the bound of heavy loss. */
#define TP_RESCUE_LIGHT_BOUTS 8
#define TP_RESCUE_LIGHT_SHIFT 3
/* Least busy ticks of a measured rate: fewer are too coarse a time. */
#define TP_RESCUE_TICKS 5
/* A trial lasts so many round trips, and half a second at least.  BBR needs its startup, and
 * then enough rounds at its rate that a few losses do not decide. */
#define TP_RESCUE_ROUNDS 64
/* A trial has helped if the utility rose by 1/2^shift. */
#define TP_RESCUE_GAIN_SHIFT 3
/* A delay below 1/2^shift of the least round-trip time is no queue, nor is one below so many
 * microseconds: interrupts and timers cause that. */
#define TP_QUEUE_SHIFT 3
#define TP_QUEUE_DEAD_US 50
/* A window of fewer packets is a burst, whose own packets wait for each other. */
#define TP_QUEUE_BURST 8
/* After each failure on a path the next rescue waits twice as long, but no longer than 2^most
 * times. */
#define TP_REFUSALS_MOST 6

/* Figures of the socket at a retransmission. */
struct tp_loss_now {
	__u64 bytes_acked;
	__u32 sent; /* segments */
	__u32 lost; /* retransmissions, without needless ones */
	__u32 busy_ticks;
	__u32 bout;	/* identifies it: the end of its first window */
	__u32 ssthresh; /* packets, after the reduction for this bout */
	__u32 cwnd;	/* packets, before it */
	__u32 rtt_us;	/* of the packet acknowledged last */
	__u32 srtt_us;	/* of the last windows */
	__u32 min_rtt_us;
};

/* The bounds of the configuration. */
struct tp_rescue_terms {
	__u32 min_sent;
	__u32 loss_shift;
	__u32 ticks_per_s;
	__u32 is_published;
};

/* Whether packets come back so late that they waited in a queue.  The last packet alone does
 * not show it: if the end of a window was lost, it is a probe, sent long after, and the queue
 * may have drained.  With few packets in flight both have to be late: at a low rate the second of
 * two waits for the first, and in a queue of others' packets all are late. */
TP_INLINE int tp_has_queue(const struct tp_loss_now *n)
{
	__u32 bound = n->min_rtt_us + (n->min_rtt_us >> TP_QUEUE_SHIFT) + TP_QUEUE_DEAD_US;
	__u32 late_us = n->cwnd < TP_QUEUE_BURST ? tp_min(n->rtt_us, n->srtt_us)
						 : tp_max(n->rtt_us, n->srtt_us);

	return late_us > bound;
}

/* Begins a new stretch of counts. */
TP_INLINE void tp_rescue_begin(struct tp_rescue *r, const struct tp_loss_now *n)
{
	r->bytes_acked = n->bytes_acked;
	r->sent = n->sent;
	r->lost = n->lost;
	r->busy_ticks = n->busy_ticks;
	r->bouts = 0;
	r->flags &= ~TP_RESCUE_RESTART;
}

/* Losses in the stretch, without those disproved later. */
TP_INLINE __u32 tp_lost_since(const struct tp_rescue *r, const struct tp_loss_now *n)
{
	return (__u32)tp_max_signed((__s32)(n->lost - r->lost), 0);
}

/* The utility of a stretch: bytes per tick times the share of segments not lost, times
 * 256. The learner's reward judges goodput and retransmissions the same way. */
TP_INLINE __u64 tp_rescue_utility(const struct tp_rescue *r, const struct tp_loss_now *n)
{
	__u32 ticks = n->busy_ticks - r->busy_ticks, sent = n->sent - r->sent;
	__u32 lost = tp_lost_since(r, n);
	__u64 good = 0;

	if (!ticks || !sent)
		return 0;
	if (lost < sent)
		good = ((__u64)(sent - lost) << 16) / sent;
	return (((n->bytes_acked - r->bytes_acked) << 8) / ticks * good) >> 16;
}

/* Whether the stretch is long enough for its loss and its rate to mean something. */
TP_INLINE int tp_is_told(const struct tp_rescue *r, const struct tp_loss_now *n,
			 const struct tp_rescue_terms *t)
{
	return n->sent - r->sent >= t->min_sent && n->busy_ticks - r->busy_ticks >= TP_RESCUE_TICKS;
}

/* Counts a bout of the connection's life.  The learner reads from these counts whether others may
 * share the queue. */
TP_INLINE void tp_rescue_count(__u16 *bouts)
{
	*bouts = (__u16)tp_min64((__u64)*bouts + 1, 0xffff);
}

/* Whether the stretch lost enough for its number of bouts.  The overshoot of a slow start would
 * look heavy. */
TP_INLINE int tp_loss_lasts(const struct tp_rescue *r, const struct tp_loss_now *n,
			    const struct tp_rescue_terms *t)
{
	__u32 bouts = TP_RESCUE_BOUTS, shift = t->loss_shift;

	if (r->flags & TP_RESCUE_RESTART)
		bouts = TP_RESCUE_LIGHT_BOUTS;
	if (r->bouts >= TP_RESCUE_LIGHT_BOUTS)
		shift += TP_RESCUE_LIGHT_SHIFT;
	return r->bouts >= bouts && tp_is_told(r, n, t) &&
	       tp_loss_is_heavy(tp_lost_since(r, n), n->sent - r->sent, t->min_sent, shift);
}

/* Whether one bout is heavy by half of the least number of segments: one loss in 32 to 63, say. */
TP_INLINE int tp_is_early(const struct tp_rescue *r, const struct tp_loss_now *n,
			  const struct tp_rescue_terms *t)
{
	return !(r->flags & TP_RESCUE_RESTART) &&
	       n->busy_ticks - r->busy_ticks >= TP_RESCUE_TICKS &&
	       tp_loss_is_heavy(tp_lost_since(r, n), n->sent - r->sent, t->min_sent / 2,
				t->loss_shift);
}

/* A new bout.  cwnd and ssthresh show whether it ended a slow start, which always overshoots. */
TP_INLINE __u32 tp_rescue_bout(struct tp_rescue *r, const struct tp_loss_now *n,
			       const struct tp_rescue_terms *t)
{
	int is_slow_start = n->cwnd < r->ssthresh, has_queue = tp_has_queue(n);
	int is_heavy =
	    tp_loss_is_heavy(tp_lost_since(r, n), n->sent - r->sent, t->min_sent, t->loss_shift);

	r->bout = n->bout;
	r->ssthresh = n->ssthresh;
	if (!is_slow_start)
		tp_rescue_count(has_queue ? &r->queued : &r->clear);
	if (has_queue || (is_slow_start && !r->bouts)) {
		tp_rescue_begin(r, n);
		return is_heavy && !is_slow_start ? TP_VERDICT_OWN : TP_VERDICT_NONE;
	}
	if (is_slow_start) { /* after a pause, say: what was seen before it counts */
		r->flags |= TP_RESCUE_RESTART;
		return TP_VERDICT_NONE;
	}
	r->bouts = (__u8)tp_min64(r->bouts + 1, 0xff);
	if (tp_loss_lasts(r, n, t))
		return TP_VERDICT_SWITCH;
	if (r->bouts >= TP_RESCUE_LIGHT_BOUTS && tp_is_told(r, n, t))
		tp_rescue_begin(r, n);
	else if (tp_is_early(r, n, t))
		return TP_VERDICT_EARLY;
	return TP_VERDICT_NONE;
}

/* Duration of a trial, in ticks. */
TP_INLINE __u64 tp_trial_ticks(__u32 min_rtt_us, __u32 ticks_per_s)
{
	__u64 rounds = (__u64)TP_RESCUE_ROUNDS * min_rtt_us * ticks_per_s / 1000000;

	return tp_max64(tp_max64(rounds, ticks_per_s / 2), TP_RESCUE_TICKS);
}

/* Judges the trial when a packet is lost after the switch.  If none is lost, nobody calls this,
 * and there is nothing to undo. */
TP_INLINE __u32 tp_rescue_trial(struct tp_rescue *r, const struct tp_loss_now *n,
				const struct tp_rescue_terms *t)
{
	__u64 needed = r->before + (r->before >> TP_RESCUE_GAIN_SHIFT);

	if (n->sent - r->sent < t->min_sent ||
	    n->busy_ticks - r->busy_ticks < tp_trial_ticks(n->min_rtt_us, t->ticks_per_s))
		return TP_VERDICT_NONE;
	return tp_rescue_utility(r, n) > needed ? TP_VERDICT_HELPED : TP_VERDICT_UNDO;
}

/* The published rule: once, as soon as more than the bound of all segments was retransmitted,
 * whatever the cause. */
TP_INLINE __u32 tp_rescue_published(const struct tp_rescue *r, const struct tp_loss_now *n,
				    const struct tp_rescue_terms *t)
{
	if (r->phase != TP_RESCUE_WATCHED ||
	    !tp_loss_is_heavy(n->lost, n->sent, t->min_sent, t->loss_shift))
		return TP_VERDICT_NONE;
	return TP_VERDICT_SWITCH;
}

/* A retransmission. */
TP_INLINE __u32 tp_rescue_judge(struct tp_rescue *r, const struct tp_loss_now *n,
				const struct tp_rescue_terms *t)
{
	if (t->is_published)
		return tp_rescue_published(r, n, t);
	if (r->phase == TP_RESCUE_TRIED)
		return tp_rescue_trial(r, n, t);
	if (r->phase == TP_RESCUE_KEPT || r->bout == n->bout)
		return TP_VERDICT_NONE;
	return tp_rescue_bout(r, n, t);
}

/* The switch was made: the trial begins. */
TP_INLINE void tp_rescue_tried(struct tp_rescue *r, const struct tp_loss_now *n)
{
	r->before = tp_rescue_utility(r, n);
	tp_rescue_begin(r, n);
	r->phase = TP_RESCUE_TRIED;
}

/* Whether a path may not be rescued again yet.  now: ns >> TP_OPENED_SHIFT, as tp_refusal.since. */
TP_INLINE int tp_refusal_holds(const struct tp_refusal *refusal, __u32 tag, __u32 now,
			       __u32 retry_s)
{
	__u64 wait = ((__u64)retry_s * 1000000000ULL >> TP_OPENED_SHIFT)
		     << ((tp_max64(refusal->times, 1) - 1) & 7);

	return refusal->tag == tag && refusal->times && now - refusal->since < wait;
}

/* Notes how a rescue of this path ended. */
TP_INLINE void tp_refusal_note(struct tp_refusal *refusal, __u32 tag, __u32 now, int has_helped)
{
	__u32 times = refusal->tag == tag ? refusal->times : 0;

	if (has_helped && refusal->tag != tag)
		return; /* the entry is another path's, and a success needs none */
	refusal->times = has_helped ? 0 : (__u32)tp_min64(times + 1, TP_REFUSALS_MOST + 1);
	refusal->since = now;
	refusal->tag = tag;
}

#endif
