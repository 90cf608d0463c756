/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * report.h - the record of a connection, for the daemon and for a learner here: at its end, and
 * when it goes on with another algorithm.
 */
#ifndef TCPILOT_PILOT_REPORT_H
#define TCPILOT_PILOT_REPORT_H

#include "../core/sample.h"
#include "act.h"
#include "choose.h"
#include "connection.h"
#include "greedy.h"
#include "conn_starts.h"
#include "shares.h"
#include "socket.h"
#include "state.h"
#include "visit.h"

/* The kernel's times, in ticks, with those of the limit in force now. */
static __always_inline void record_times(const struct tcp_sock *tp, struct tp_record *r)
{
	__u32 type = BPF_CORE_READ_BITFIELD(tp, chrono_type), now = 0;

	r->busy_ticks = tp->chrono_stat[0];
	r->window_ticks = tp->chrono_stat[1];
	r->buffer_ticks = tp->chrono_stat[2];
	if (!type)
		return;
	now = (__u32)bpf_jiffies64() - tp->chrono_start;
	if (type == 1)
		r->busy_ticks += now;
	else if (type == 2)
		r->window_ticks += now;
	else
		r->buffer_ticks += now;
}

/* r->at_ns is known. */
static __always_inline void record_conn_start(const struct tp_conn_start *start,
					      struct tp_record *r)
{
	r->opened_ns = opened_ns_of(start, r->at_ns);
	r->handshake_us = start->rtt_us;
	r->class = start->class;
	r->probability = start->probability;
	r->policy = start->policy;
	r->arm = start->arm;
	r->level = start->level;
	r->why = start->why;
	r->conn_flags = start->flags;
	r->trial = start->trial;
	r->egress = start->egress;
}

/* How many connections of its path were open at a time with this one; 0: unknown.  A function of
 * its own, called high up: the frames of functions that call each other share 512 bytes. */
__noinline __u32 beside_of(__u32 tag)
{
	const struct tp_conn_start *start = conn_start_of(tag);

	return start && start->flags & TP_CONN_ASSIGNED ? open_beside(start->path) : 0;
}

static __always_inline void record_place(const struct tp_node_key *place, struct tp_record *r)
{
	__builtin_memcpy(r->remote, place->prefix, sizeof(r->remote));
	r->domain = place->domain;
	r->policy = place->policy;
}

/* The kernel's counts of a connection, read through bpf_tcp_sock: its reads are not guarded. */
static __always_inline void record_counts(const struct bpf_tcp_sock *ts, const struct tcp_sock *tp,
					  struct tp_record *r)
{
	r->bytes_acked = ts->bytes_acked;
	r->bytes_received = ts->bytes_received;
	r->srtt_us = ts->srtt_us >> 3;
	r->min_rtt_us = tp_valid_rtt_us(ts->rtt_min);
	r->segments = ts->data_segs_out;
	r->retransmitted = ts->total_retrans;
	r->ssthresh_packets = tp_valid_ssthresh(ts->snd_ssthresh);
	r->rate = (__u32)tp_min64(tp_last_rate(ts, tp) / 1000, ~0U);
}

/* The same in an iterator. */
static __always_inline void record_live_counts(const struct tcp_sock *tp, struct tp_record *r)
{
	r->bytes_acked = tp->bytes_acked;
	r->bytes_received = tp->bytes_received;
	r->srtt_us = tp->srtt_us >> 3;
	r->min_rtt_us = tp_valid_rtt_us(tp->rtt_min.s[0].v);
	r->segments = tp->data_segs_out;
	r->retransmitted = tp->total_retrans;
	r->ssthresh_packets = tp_valid_ssthresh(tp->snd_ssthresh);
	if (!BPF_CORE_READ_BITFIELD(tp, rate_app_limited))
		r->rate = (__u32)tp_min64(
		    tp_delivery_rate(tp->rate_delivered, tp->rate_interval_us, tp->mss_cache) /
			1000,
		    ~0U);
}

static __always_inline void send_record(const struct tp_record *r)
{
	if (bpf_ringbuf_output(&records, (void *)r, sizeof(*r), BPF_RB_NO_WAKEUP))
		__sync_fetch_and_add(&learner_status.dropped, 1);
}

/* The bouts of loss so far. */
static __always_inline void record_bouts(const struct tp_rescue *losses, struct tp_record *r)
{
	r->queued_bouts = losses ? losses->queued : 0;
	r->clear_bouts = losses ? losses->clear : 0;
}

/* Everything except the connection start and the place. */
static __always_inline void record_measures(const struct visit *v, const struct bpf_tcp_sock *ts,
					    struct tp_record *r)
{
	r->at_ns = coarse_ns();
	r->netns_cookie = netns_cookie_of(v->hands);
	record_times(v->tp, r);
	record_counts(ts, v->tp, r);
}

/* The weight of a connection's record; 0: none is sent.  A connection with too little data
 * to judge an algorithm shows only the absence of a time-out: one in sixteen of these sends a
 * record for all. */
#define TP_SMALL_WEIGHT_SHIFT 4

static __always_inline __u32 record_weight(const struct visit *v, __u64 bytes_acked, int timed_out)
{
	if (bytes_acked >= cfg.min_flow_bytes || timed_out || retransmitted_by(v->hands))
		return 1;
	return tp_is_one_of(TP_SMALL_WEIGHT_SHIFT, v->sk->src_port, v->sk->dst_port)
		   ? 1 << TP_SMALL_WEIGHT_SHIFT
		   : 0;
}

/* The application may connect this socket again.  Then our algorithm must not be taken for its
 * own choice (is_left_over), nor the old storage for that of the next connection. */
static __noinline int leave_over(struct bpf_sock *sk, __u32 cc_key)
{
	struct tp_conn left = {.cc_key = cc_key}, *conn;

	conn = bpf_sk_storage_get(&conns, sk, &left, cc_key ? BPF_SK_STORAGE_GET_F_CREATE : 0);
	if (!conn)
		return 0;
	conn->open = 0;
	conn->cc_key = left.cc_key;
	return 1;
}

/* The key of the algorithm in force if it is this arm; else 0. */
static __always_inline __u32 key_if(const struct tcp_sock *tp, __u8 arm)
{
	__u32 key = tp_cc_key(tp);

	return arm < TP_MAX_ARMS && arm_key[tp_within(arm, TP_MAX_ARMS)] == key ? key : 0;
}

/* Releases the assignment of a connection; says how many of its path were open at a time. */
static __always_inline __u32 beside_at_end(const struct tp_conn_start *start)
{
	return start->flags & TP_CONN_ASSIGNED ? release_assignment(start->path) : 0;
}

/* Removes the connection start; 0: it was lost. */
static __always_inline void give_back(const struct visit *v, struct tp_conn_start *start)
{
	int is_kept = tp_sock_of(v->tp)->sk_socket != 0;

	if (!start) {
		if (is_kept)
			leave_over(v->sk, 0);
		return;
	}
	if (start->flags & TP_CONN_STEERED && is_kept)
		leave_over(v->sk, key_if(v->tp, start->arm));
	start->tag = 0;
}

/* A tuned window is not the congestion control's work. */
static __always_inline __u8 tuned_flag(const struct visit *v, const struct bpf_tcp_sock *ts)
{
	struct tp_conn *conn = cfg.tunes && v->policy->tuned ? remembered(v->sk) : 0;

	return is_creditable(conn, ts->data_segs_out) ? 0 : TP_RECORD_TUNED;
}

/* A record, and what else epsilon-greedy learns from. */
struct report {
	struct tp_record record;
	__u64 rate;	/* bytes per second; 0: none is known */
	__u32 eligible; /* the arms it could have had, as bits */
	__u32 pad;
};

/* Finds the place, and records the measures; 0: there is nothing to report. */
static __always_inline struct bpf_tcp_sock *begin_report(struct visit *v, struct tp_node_key *place,
							 struct tp_record *r)
{
	struct bpf_tcp_sock *ts;

	if (!v->tp || !v->sk)
		return 0;
	ts = bpf_tcp_sock(v->sk);
	locate_again(v, place);
	if (!ts || !v->policy)
		return 0;
	record_measures(v, ts, r);
	return ts;
}

/* whole: see sockops.bpf.c. */
static __always_inline void learn_from(const struct report *report, const int whole)
{
	if (whole && learns_here())
		learn_here(&report->record, report->rate, report->eligible);
}

static __always_inline void record_no_conn_start(struct tp_record *r)
{
	r->opened_ns = 0;
	r->handshake_us = r->class = r->probability = r->egress = 0;
	r->why = r->conn_flags = r->trial = 0;
	r->arm = TP_NO_ARM;
	r->level = TP_LEVEL_NONE;
}

/* Reports what the start of a connection that ends says; returns flags: enum tp_record_flags.
 * The tag is compared last: another connection may take the place at any time. */
static __noinline __u32 report_conn_start(const struct tcp_sock *tp, struct report *to)
{
	__u8 in_force = arm_in_force(tp);
	__u32 tag = tag_of(tp);
	const struct tp_conn_start *start = conn_start_of(tag);
	int foreign;

	if (start) {
		record_conn_start(start, &to->record);
		to->rate = (__u64)start->rate << TP_START_RATE_SHIFT;
		foreign = is_foreign_with(tp, start, in_force);
		asm volatile("" ::: "memory");
		if (start->tag == tag)
			return foreign ? TP_RECORD_FOREIGN : 0;
	}
	record_no_conn_start(&to->record);
	to->rate = 0;
	return TP_RECORD_FORGOTTEN;
}

/* Reports the end of a connection, whose connection start is still there.  to: its weight is known,
 * the connections beside it, and whether it timed out.  It is a function of its own, so that its
 * stack is not that of the caller, who learns from the record. */
static __noinline __u32 report_end(hands_t *hands, struct report *to)
{
	struct visit v = begin_visit(hands, 0);
	struct tp_record *r = &to->record;
	struct tp_node_key place = {};
	struct bpf_tcp_sock *ts = begin_report(&v, &place, r);
	__u8 says_nothing;

	if (!ts)
		return 0;
	r->cookie = tp_common_of(v.tp)->skc_cookie.counter;
	says_nothing = (__u8)report_conn_start(v.tp, to);
	if (says_nothing)
		r->arm = TP_NO_ARM;
	r->flags |= says_nothing | tuned_flag(&v, ts);
	record_bouts(r->retransmitted ? bpf_sk_storage_get(&rescues, v.sk, 0, 0) : 0, r);
	part_by_egress(&place, r->egress);
	record_place(&place, r);
	if (learns_here()) {
		to->rate = rate_at_end(&v, ts, to->rate);
		to->eligible = eligible_arms(&v, r->handshake_us);
	}
	return 1;
}

static __always_inline int send_end_by(hands_t *hands, __u32 weight, __u32 timed_out, __u32 beside,
				       const int whole)
{
	struct report report;

	report.record.weight = (__u16)weight;
	report.record.flags = (__u8)timed_out;
	report.record.beside = (__u8)beside;
	if (!report_end(hands, &report))
		return 0;
	learn_from(&report, whole);
	send_record(&report.record);
	return 1;
}

__noinline int send_end(hands_t *hands, __u32 weight, __u32 timed_out, __u32 beside)
{
	return send_end_by(hands, weight, timed_out, beside, 0);
}

__noinline int send_end_whole(hands_t *hands, __u32 weight, __u32 timed_out, __u32 beside)
{
	return send_end_by(hands, weight, timed_out, beside, 1);
}

/* The end of a connection that was taken up.  Most ends are not worth a record: they only give
 * back their connection start and their assignment.  It is counted last: who sees the count finds
 * the record. */
static __always_inline void emit_end(const struct visit *v, const int whole)
{
	__u32 timed_out = tp_timed_out(v->tp) ? TP_RECORD_TIMED_OUT : 0;
	__u32 weight = record_weight(v, bytes_acked_of(v->hands), timed_out);
	struct tp_conn_start *start = conn_start_of(tag_of(v->tp));
	__u32 beside = start ? beside_at_end(start) : 0;

	if (weight) {
		whole ? send_end_whole(v->hands, weight, timed_out, beside)
		      : send_end(v->hands, weight, timed_out, beside);
		/* The verifier has to see its comparison with 0.  The stack of Linux 6.1 has no
		 * room for that beside learn_here, and needs none. */
		if (!whole)
			asm volatile("" : "+r"(start));
		if (start && start->tag != tag_of(v->tp))
			start = 0; /* another connection has taken the place meanwhile */
	}
	give_back(v, start);
	count_closed(bytes_acked_of(v->hands));
}

/* A connection goes on with another algorithm: reports its measures until now, and keeps the new
 * arm.  to: its flags are known.  The rate after a rescue is another algorithm's, and the rate
 * before it was that of slow start, so that none is learned from. */
static __noinline __u32 report_segment(hands_t *hands, __u32 why, struct report *to)
{
	struct visit v = begin_visit(hands, 0);
	struct tp_record *r = &to->record;
	struct tp_node_key place = {};
	struct tp_conn_start start = {};

	if (!begin_report(&v, &place, r))
		return 0;
	if (find_conn_start(tag_of(v.tp), &start))
		record_conn_start(&start, r);
	else
		r->flags |= TP_RECORD_FORGOTTEN;
	part_by_egress(&place, start.egress);
	record_place(&place, r);
	if (learns_here())
		to->eligible = eligible_arms(&v, start.rtt_us);
	record_bouts(bpf_sk_storage_get(&rescues, v.sk, 0, 0), r);
	r->beside = (__u8)beside_of(tag_of(v.tp));
	r->cookie = bpf_get_socket_cookie(hands); /* the record of the next segment has it, too */
	change_conn_start(tag_of(v.tp), arm_in_force(v.tp), why, TP_CONN_RESCUED | TP_CONN_STEERED);
	return 1;
}

#endif
