/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * report.h - the record of a connection for the daemon: at its end, and when it goes on with
 * another algorithm.
 */
#ifndef TCPILOT_PILOT_REPORT_H
#define TCPILOT_PILOT_REPORT_H

#include "../core/sample.h"
#include "act.h"
#include "connection.h"
#include "openings.h"
#include "shares.h"
#include "socket.h"
#include "state.h"
#include "visit.h"

/* The kernel's times, in ticks, with those of the limit that is in force now. */
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

static __always_inline void record_identity(const struct tcp_sock *tp, struct tp_record *r)
{
	r->cookie = tp_common_of(tp)->skc_cookie.counter;
	r->netns_cookie = tp_netns_cookie(tp);
}

/* r->at_ns is known. */
static __always_inline void record_note(const struct tp_opening *note, struct tp_record *r)
{
	r->opened_ns = opened_ns_of(note, r->at_ns);
	r->handshake_us = note->rtt_us;
	r->generation = note->generation;
	r->class = note->class;
	r->probability = note->probability;
	r->policy = note->policy;
	r->arm = note->arm;
	r->level = note->level;
	r->why = note->why;
	r->conn_flags = note->flags;
	r->trial = note->trial;
	r->egress = note->egress;
}

static __always_inline void record_place(const struct tp_row_key *place, struct tp_record *r)
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

/* The same of a connection that an iterator shows. */
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
		__sync_fetch_and_add(&pulse.dropped, 1);
}

static __always_inline void fill_record(const struct visit *v, const struct bpf_tcp_sock *ts,
					const struct tp_row_key *place, struct tp_record *r)
{
	record_place(place, r);
	record_identity(v->tp, r);
	record_times(v->tp, r);
	record_counts(ts, v->tp, r);
}

/* The weight of a connection's record; 0: none is sent.  A connection that carried too little
 * to judge an algorithm shows only that it did not time out: one in sixteen of these sends a
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
static __always_inline void leave_over(const struct visit *v, int is_ours)
{
	struct tp_conn left = {.cc_key = is_ours ? tp_cc_key(v->tp) : 0}, *conn;

	conn = bpf_sk_storage_get(&conns, v->sk, &left, is_ours ? BPF_SK_STORAGE_GET_F_CREATE : 0);
	if (!conn)
		return;
	conn->open = 0;
	conn->cc_key = left.cc_key;
}

/* The flags that note and socket give: enum tp_record_flags. */
static __always_inline __u8 end_flags(const struct visit *v, const struct tp_opening *note)
{
	if (!note->tag)
		return TP_RECORD_FORGOTTEN;
	return is_foreign(v->tp, note) ? TP_RECORD_FOREIGN : 0;
}

/* Removes the note, and releases its draw. */
static __always_inline void give_back(const struct visit *v)
{
	struct tp_opening *note = note_of(tag_of(v->tp));

	if (!note) { /* it was lost */
		if (tp_sock_of(v->tp)->sk_socket)
			leave_over(v, 0);
		return;
	}
	if (note->flags & TP_CONN_STEERED && tp_sock_of(v->tp)->sk_socket)
		leave_over(v, note->arm == arm_in_force(v->tp));
	note->tag = 0;
	if (note->flags & TP_CONN_DRAWN)
		release_draw(note->path);
}

/* A tuned window is not the congestion control's work. */
static __always_inline __u8 tuned_flag(const struct visit *v, const struct bpf_tcp_sock *ts)
{
	struct tp_conn *conn = cfg.tunes && v->policy->tuned ? remembered(v->sk) : 0;

	return is_creditable(conn, ts->data_segs_out) ? 0 : TP_RECORD_TUNED;
}

static __always_inline void send_end(struct visit *v, int timed_out, __u32 weight)
{
	struct tp_record r = {.level = TP_LEVEL_NONE, .arm = TP_NO_ARM};
	struct bpf_tcp_sock *ts = bpf_tcp_sock(v->sk);
	struct tp_opening note = {};
	struct tp_row_key place = {};

	locate(v, &place);
	if (!ts || !v->policy)
		return;
	if (!find_note(tag_of(v->tp), &note))
		note = (struct tp_opening){};
	r.at_ns = coarse_ns();
	r.weight = (__u16)weight;
	r.flags = end_flags(v, &note);
	if (note.tag)
		record_note(&note, &r);
	if (r.flags)
		r.arm = TP_NO_ARM;
	r.flags |= (timed_out ? TP_RECORD_TIMED_OUT : 0) | tuned_flag(v, ts);
	part_by_egress(&place, note.egress);
	fill_record(v, ts, &place, &r);
	send_record(&r);
}

/* The end of a connection that was taken up.  Most ends are not worth a record: they only give
 * back their note and their draw. */
static __always_inline void tell_end(struct visit *v)
{
	__u64 bytes_acked = bytes_acked_of(v->hands);
	int timed_out = tp_timed_out(v->tp);
	__u32 weight = record_weight(v, bytes_acked, timed_out);

	count_closed(bytes_acked);
	if (weight)
		send_end(v, timed_out, weight);
	give_back(v);
}

/* A connection goes on with another algorithm: sends its measures until now.  flags: enum
 * tp_record_flags. */
static __always_inline void tell_part(struct visit *v, __u32 flags)
{
	struct tp_record r = {.arm = TP_NO_ARM, .level = TP_LEVEL_NONE, .weight = 1};
	struct bpf_tcp_sock *ts = bpf_tcp_sock(v->sk);
	struct tp_row_key place = {};
	struct tp_opening note = {};

	locate(v, &place);
	if (!ts || !v->policy)
		return;
	r.at_ns = bpf_ktime_get_coarse_ns();
	r.flags = TP_RECORD_SAMPLE | flags;
	if (find_note(tag_of(v->tp), &note))
		record_note(&note, &r);
	else
		r.flags |= TP_RECORD_FORGOTTEN;
	part_by_egress(&place, note.egress);
	fill_record(v, ts, &place, &r);
	r.cookie = bpf_get_socket_cookie(v->hands); /* the record of the next part has it, too */
	send_record(&r);
}

#endif
