/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * record.h - the record of a connection, from the programs to the learner in the daemon.
 */
#ifndef TCPILOT_PILOT_RECORD_H
#define TCPILOT_PILOT_RECORD_H

#include "../core/sample.h"
#include "openings.h"
#include "shares.h"
#include "socket.h"
#include "state.h"

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
	__u32 age = (__u32)(r->at_ns >> TP_OPENED_SHIFT) - note->opened;

	r->opened_ns = r->at_ns - ((__u64)age << TP_OPENED_SHIFT);
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

#endif
