/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * rescue.h - a retransmission.  If a connection's loss lasts, and the connection did not cause
 * it, it is switched to the rescue's algorithm.  Without success it gets its former one
 * back, and its path is not rescued again for a while.  core/rescue.h has the rules, and the
 * published rule, which knows neither causes nor a way back.
 *
 * A record at each switch separates the measures of one algorithm from those of the next.
 */
#ifndef TCPILOT_PILOT_RESCUE_H
#define TCPILOT_PILOT_RESCUE_H

#include "../core/draw.h"
#include "../core/rescue.h"
#include "act.h"
#include "connection.h"
#include "greedy.h"
#include "conn_starts.h"
#include "report.h"
#include "shares.h"
#include "tune/tuning.h"
#include "visit.h"

static __always_inline void loss_now(const struct tcp_sock *tp, struct tp_loss_now *now)
{
	now->bytes_acked = tp->bytes_acked;
	now->sent = tp->data_segs_out;
	now->lost = tp->total_retrans;
	/* Duplicate arrivals were not lost. */
	if (!cfg.rescue_published)
		now->lost -= tp_min(tp->dsack_dups, tp->total_retrans);
	now->busy_ticks = tp_busy_ticks(tp);
	now->bout = tp->high_seq;
	now->ssthresh = tp->snd_ssthresh;
	now->cwnd = tp->prior_cwnd;
	now->rtt_us = tp->rack.rtt_us;
	now->srtt_us = tp->srtt_us >> 3;
	now->min_rtt_us = tp_valid_rtt_us(tp->rtt_min.s[0].v);
}

/* The first bout is noted and no more: slow start ends with it. */
static __always_inline void watch_from_now(struct bpf_sock *sk, struct tp_rescue *r,
					   const struct tp_loss_now *now)
{
	struct tp_rescue fresh = {.bout = now->bout, .ssthresh = now->ssthresh};

	tp_rescue_begin(&fresh, now);
	if (r)
		*r = fresh;
	else
		bpf_sk_storage_get(&rescues, sk, &fresh, BPF_SK_STORAGE_GET_F_CREATE);
}

/* The losses of a connection under watch; 0: it is not, or only from now on. */
static __always_inline struct tp_rescue *watched(struct bpf_sock *sk, const struct tp_loss_now *now)
{
	struct tp_rescue *r;

	if (now->sent < cfg.loss_min_segments)
		return 0;
	r = bpf_sk_storage_get(&rescues, sk, 0, 0);
	if (r && now->sent >= r->sent)
		return r;
	watch_from_now(sk, r, now); /* also if the socket's connection before left it */
	return cfg.rescue_published ? bpf_sk_storage_get(&rescues, sk, 0, 0) : 0;
}

/* The meaning of a retransmission: enum tp_loss_verdict. */
static __noinline __u32 judge_loss(struct bpf_sock_ops *ctx)
{
	struct tp_rescue_terms terms = {.min_sent = cfg.loss_min_segments,
					.loss_shift = cfg.loss_shift,
					.ticks_per_s = ticks_per_s,
					.is_published = cfg.rescue_published};
	struct visit v = begin_visit(ctx, 0);
	struct tp_loss_now now = {};
	struct tp_rescue *r;
	__u32 verdict;

	if (!v.tp || !v.sk || !is_taken_up(ctx))
		return TP_VERDICT_NONE;
	loss_now(v.tp, &now);
	r = watched(v.sk, &now);
	if (!r)
		return TP_VERDICT_NONE;
	verdict = tp_rescue_judge(r, &now, &terms);
	if (verdict == TP_VERDICT_OWN && !(r->flags & TP_RESCUE_OWN)) {
		r->flags |= TP_RESCUE_OWN;
		COUNT(own_losses);
	}
	if (verdict == TP_VERDICT_HELPED)
		r->phase = TP_RESCUE_KEPT;
	return verdict;
}

static __always_inline struct tp_refusal *refusal_at(__u32 tag)
{
	__u32 index = tag & (TP_REFUSALS - 1);

	return bpf_map_lookup_elem(&refusals, &index);
}

/* With less than this share the learner has little hope for an algorithm: a quarter. */
#define TP_LITTLE_SHARE 0x4000

/* What the choice distribution of the path, or else of its group, says of a rescue.  A distribution
 * further up says too little about this path.  If it has no share left for the rescue's algorithm,
 * there is none.  An early one needs that it has little for the connection's own. */
static __always_inline __u32 withheld_by_choice_dist(const struct tp_node_key *place, __u8 arm,
						     __u32 is_early)
{
	struct tp_shares shares = {};
	int is_known = learner_status.levels && nearest_choice_dist(place, &shares) &&
		       shares.level <= TP_LEVEL_GROUP;

	if (is_known && !tp_probability(shares.upto, cfg.rescue_arm))
		return TP_WITHHELD_CHOICE_DIST;
	if (!is_early)
		return TP_WITHHELD_COUNT;
	return is_known && arm < TP_MAX_ARMS &&
		       tp_probability(shares.upto, tp_within(arm, TP_MAX_ARMS)) < TP_LITTLE_SHARE
		   ? TP_WITHHELD_COUNT
		   : TP_WITHHELD_CHOICE_DIST;
}

/* The reason not to rescue a connection after all: enum tp_withheld; TP_WITHHELD_COUNT: none. */
static __always_inline __u32 why_withheld(struct visit *v, __u32 is_early)
{
	__u32 now = bpf_ktime_get_coarse_ns() >> TP_OPENED_SHIFT;
	struct tp_node_key place = {};
	struct tp_conn_start start = {};
	struct tp_refusal *refusal;
	__u32 tag;

	locate_again(v, &place);
	if (!v->policy || !v->policy->rescue || !(v->policy->arms >> (cfg.rescue_arm & 31) & 1))
		return TP_WITHHELD_POLICY;
	/* if not: its application has chosen since, or nobody knows who did */
	if (!find_conn_start(tag_of(v->tp), &start) || is_foreign(v->tp, &start))
		return TP_WITHHELD_POLICY;
	if (start.arm == cfg.rescue_arm)
		return TP_WITHHELD_ALREADY;
	if (cfg.rescue_published)
		return TP_WITHHELD_COUNT;
	if (cfg.model_based >> (start.arm & 31) & 1)
		return TP_WITHHELD_ALREADY;
	if (!choice_dists_are_valid(bpf_ktime_get_coarse_ns()))
		return TP_WITHHELD_STALE;
	part_by_egress(&place, start.egress);
	tag = assignment_tag(&place);
	refusal = refusal_at(tag);
	if (refusal && tp_refusal_holds(refusal, tag, now, cfg.rescue_retry_s))
		return TP_WITHHELD_FAILED;
	place.class = choice_dist_class(start.class);
	return withheld_by_choice_dist(&place, start.arm, is_early);
}

/* The losses of a visited connection; 0 if it cannot be steered, or is not under watch. */
static __always_inline struct tp_rescue *rescue_of(const struct visit *v)
{
	return v->tp && v->sk ? bpf_sk_storage_get(&rescues, v->sk, 0, 0) : 0;
}

/* Whether it may be rescued.  If not, the reason is counted once, and the watch goes on.  An early
 * rescue may be made later. */
static __noinline __u32 may_rescue(struct bpf_sock_ops *ctx, __u32 is_early)
{
	struct visit v = begin_visit(ctx, 0);
	struct tp_rescue *r = rescue_of(&v);
	struct tp_loss_now now = {};
	__u32 why;

	if (!r)
		return 0;
	why = why_withheld(&v, is_early);
	if (why == TP_WITHHELD_COUNT || is_early)
		return why == TP_WITHHELD_COUNT;
	loss_now(v.tp, &now);
	tp_rescue_begin(r, &now);
	if (!(r->flags & TP_RESCUE_WITHHELD))
		COUNT(withheld[tp_within(why, TP_WITHHELD_SLOTS)]);
	r->flags |= TP_RESCUE_WITHHELD;
	return 0;
}

/* With few segments in flight the retransmission timer need not back off. */
static __always_inline void put_timeouts(const struct visit *v, struct tp_rescue *r, int linear)
{
	if (linear ? !cfg.rescue_thin || has_linear_timeouts(v->tp) : !(r->flags & TP_RESCUE_THIN))
		return;
	set_linear_timeouts(v->hands, linear);
	r->flags ^= TP_RESCUE_THIN;
}

/* If the connection has storage for other reasons, it must not take the new algorithm for the
 * application's choice. */
static __always_inline void remember_moved(const struct visit *v, __u8 arm, __u8 why)
{
	struct tp_conn *conn = remembered(v->sk);

	if (!conn)
		return;
	conn->cc_key = tp_cc_key(v->tp);
	conn->arm = arm;
	conn->why = why;
	conn->flags |= TP_CONN_RESCUED;
}

/* Switches to the rescue's algorithm; says whether it worked. */
static __noinline __u32 rescue_now(struct bpf_sock_ops *ctx)
{
	struct visit v = begin_visit(ctx, 0);
	struct tp_rescue *r = rescue_of(&v);
	struct tp_loss_now now = {};

	if (!r)
		return 0;
	COUNT(rescues);
	r->arm = arm_in_force(v.tp);
	bpf_probe_read_kernel(r->cc, sizeof(r->cc), v.tp->inet_conn.icsk_ca_ops->name);
	loss_now(v.tp, &now);
	tp_rescue_tried(r, &now);
	if (cfg.rescue_published)
		r->phase = TP_RESCUE_KEPT;
	if (cfg.dry_run || !set_algorithm(ctx, config()->rescue_cc)) {
		r->phase = TP_RESCUE_KEPT; /* once is enough */
		return 0;
	}
	put_timeouts(&v, r, 1);
	remember_moved(&v, cfg.rescue_arm, TP_WHY_RESCUED);
	return 1;
}

/* Gives the former algorithm back; says whether it worked. */
static __noinline __u32 undo_rescue(struct bpf_sock_ops *ctx)
{
	struct visit v = begin_visit(ctx, 0);
	struct tp_rescue *r = rescue_of(&v);
	struct tp_conn_start start = {};
	struct tp_loss_now now = {};

	if (!r)
		return 0;
	r->phase = TP_RESCUE_KEPT;
	if (!find_conn_start(tag_of(v.tp), &start) || is_foreign(v.tp, &start) ||
	    !set_algorithm(ctx, r->cc))
		return 0;
	COUNT(rescues_undone);
	r->phase = TP_RESCUE_WATCHED;
	loss_now(v.tp, &now);
	tp_rescue_begin(r, &now);
	r->bout = now.bout;
	r->ssthresh = now.ssthresh;
	put_timeouts(&v, r, 0);
	remember_moved(&v, r->arm, TP_WHY_UNDONE);
	return 1;
}

/* Notes for the path how a rescue ended. */
static __noinline __u32 note_outcome(struct bpf_sock_ops *ctx, __u32 has_helped)
{
	struct visit v = begin_visit(ctx, 0);
	struct tp_node_key place = {};
	struct tp_conn_start start = {};
	struct tp_refusal *refusal;
	__u32 tag;

	if (!v.tp || !v.sk)
		return 0;
	locate_again(&v, &place);
	if (!v.policy)
		return 0;
	if (find_conn_start(tag_of(v.tp), &start))
		part_by_egress(&place, start.egress);
	tag = assignment_tag(&place);
	refusal = refusal_at(tag);
	if (refusal)
		tp_refusal_note(refusal, tag, bpf_ktime_get_coarse_ns() >> TP_OPENED_SHIFT,
				has_helped);
	return 0;
}

/* A connection has just left its arm.  flags: enum tp_record_flags. */
static __always_inline __u32 emit_segment_by(struct bpf_sock_ops *ctx, __u32 flags, __u32 why,
					     const int whole)
{
	struct report report = {.record = {.weight = 1,
					   .arm = TP_NO_ARM,
					   .level = TP_LEVEL_NONE,
					   .flags = (__u8)(TP_RECORD_SAMPLE | flags)}};

	if (!report_segment(ctx, why, &report))
		return 0;
	learn_from(&report, whole);
	send_record(&report.record);
	return 0;
}

static __noinline __u32 emit_segment(struct bpf_sock_ops *ctx, __u32 flags, __u32 why)
{
	return emit_segment_by(ctx, flags, why, 0);
}

static __noinline __u32 emit_rescued_whole(struct bpf_sock_ops *ctx)
{
	return emit_segment_by(ctx, TP_RECORD_RESCUED, TP_WHY_RESCUED, 1);
}

static __always_inline __u32 judged_loss(struct bpf_sock_ops *ctx, const int whole)
{
	__u32 verdict = judge_loss(ctx);

	switch (verdict) {
	case TP_VERDICT_SWITCH:
	case TP_VERDICT_EARLY:
		if (!may_rescue(ctx, verdict == TP_VERDICT_EARLY) || !rescue_now(ctx))
			break;
		whole ? emit_rescued_whole(ctx)
		      : emit_segment(ctx, TP_RECORD_RESCUED, TP_WHY_RESCUED);
		break;
	case TP_VERDICT_HELPED:
		COUNT(rescues_helped);
		note_outcome(ctx, 1);
		break;
	case TP_VERDICT_UNDO:
		if (!undo_rescue(ctx))
			break;
		note_outcome(ctx, 0);
		emit_segment(ctx, TP_RECORD_UNDONE, TP_WHY_UNDONE);
		break;
	}
	return 1;
}

#endif
