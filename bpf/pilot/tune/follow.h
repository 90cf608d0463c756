/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * follow.h - tuned connections under way: the phases of an initial window, and
 * the search for a policer.  It runs at each retransmission, and once per round
 * trip if something has to be followed.
 */
#ifndef TCPILOT_PILOT_TUNE_FOLLOW_H
#define TCPILOT_PILOT_TUNE_FOLLOW_H

#include "../../core/tune/police.h"
#include "../../core/tune/tune.h"
#include "../act.h"
#include "../connection.h"
#include "../visit.h"
#include "table.h"
#include "tuning.h"

/* The first loss of an unvalidated window. */
static __always_inline void retreat(const struct visit *v, struct tp_conn *conn, struct tp_tuned *t)
{
	__u64 now_ns = bpf_ktime_get_coarse_ns();
	__u32 brake = tp_brake_now(t->brake, t->brake_ns, now_ns);

	if (conn->phase == TP_PHASE_PACED)
		set_option(v->hands, SOL_SOCKET, SO_MAX_PACING_RATE, NO_PACING, TP_TUNE_IW);
	set_option(v->hands, SOL_TCP, TCP_BPF_SNDCWND_CLAMP,
		   (__u32)tp_max64(v->tp->delivered / 2, 10), TP_TUNE_IW);
	conn->phase = TP_PHASE_RETREAT;
	COUNT(retreats);
	__sync_fetch_and_add(&t->retreats, 1);
	t->brake = (__u8)tp_min64(brake + 1, TP_BRAKE_MOST);
	t->brake_ns = now_ns;
	t->clean = 0;
}

static __always_inline void police_measures(const struct tcp_sock *tp, struct tp_police_now *n)
{
	n->now_us = bpf_ktime_get_ns() / 1000;
	n->bytes_acked = tp->bytes_acked;
	n->sent_packets = tp->data_segs_out;
	n->lost_packets = tp->total_retrans;
	n->srtt_us = tp->srtt_us >> 3;
	n->min_rtt_us = tp_valid_rtt_us(tp->rtt_min.s[0].v);
}

/* A loss, if the rate limit's tuning is on: it looks for a policer. */
static __always_inline void suspect_policer(const struct visit *v, const struct tuning *t)
{
	struct tp_police *p;
	struct tp_police_now n;
	__u64 rate;

	p = bpf_sk_storage_get(&police, v->sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
	if (!p || p->paced)
		return;
	police_measures(v->tp, &n);
	rate = tp_police_loss(p, &n);
	if (!rate) {
		follow_round_trips(v->hands);
		return;
	}
	v->path->skips &= ~(1 << TP_TUNE_RATE_LIMIT);
	t->known->limit_rate = rate;
	t->known->limit_until_ns = bpf_ktime_get_coarse_ns() + t->settings->probe_s * 1000000000ULL;
	pace_as_policed(v->hands, v->tp, t->known);
	p->paced = 1;
}

/* The path of an open connection, if it may be tuned. */
static __always_inline void find_tuned(struct visit *v)
{
	identify(v);
	v->path = v->policy && !v->policy->leave_alone ? find_path(v->key, &v->slot) : 0;
}

static __always_inline void tune_lost(const struct visit *v, const struct tuning *t)
{
	struct tp_conn *conn = remembered(v->sk);

	if (conn && (conn->phase == TP_PHASE_PACED || conn->phase == TP_PHASE_UNVALIDATED))
		retreat(v, conn, t->known);
	if (is_on(t, TP_TUNE_RTO) && !has_short_timer(v->tp))
		tune_min_rto(v->hands, v->path, t);
	if (is_on(t, TP_TUNE_THIN) && !has_linear_timeouts(v->tp) &&
	    set_option(v->hands, SOL_TCP, TCP_THIN_LINEAR_TIMEOUTS, 1, TP_TUNE_THIN))
		count_set(t->known, TP_TUNE_THIN);
	if (is_on(t, TP_TUNE_RATE_LIMIT))
		suspect_policer(v, t);
}

/* At each retransmission, before the loss rule. */
__noinline int tune_loss(hands_t *hands)
{
	struct tp_path_key key = {};
	struct visit v = begin_visit(hands, &key);
	struct tuning t;

	if (!v.sk || !v.tp)
		return 0;
	note_loss();
	find_tuned(&v);
	if (!v.path)
		return 0;
	t = find_tuning(v.path, v.slot, key.policy, tp_local_port(v.tp), tp_remote_port(v.tp));
	if (t.known)
		tune_lost(&v, &t);
	return 0;
}

/* Steps of the initial window; says whether the last one is done. */
static __always_inline int follow_window(const struct visit *v, struct tp_conn *conn)
{
	if (conn->phase == TP_PHASE_PACED) {
		set_option(v->hands, SOL_SOCKET, SO_MAX_PACING_RATE, NO_PACING, TP_TUNE_IW);
		conn->phase = TP_PHASE_UNVALIDATED;
	}
	if (conn->phase == TP_PHASE_UNVALIDATED && v->tp->delivered >= conn->iw_packets)
		conn->phase = TP_PHASE_NORMAL;
	if (conn->phase == TP_PHASE_RETREAT && v->tp->inet_conn.icsk_ca_state == TCP_CA_Open) {
		set_option(v->hands, SOL_TCP, TCP_BPF_SNDCWND_CLAMP, NO_CLAMP, TP_TUNE_IW);
		conn->phase = TP_PHASE_NORMAL;
	}
	return conn->phase == TP_PHASE_NORMAL;
}

/* A policer's rate is believed for a limited time.  Then a connection that is
 * paced by it is let go, and finds the policer again if it is still there. */
static __always_inline void follow_policer(struct visit *v, struct tp_police *p)
{
	struct tp_tuned *t;

	if (!p->paced) {
		tp_police_round_trip(p);
		return;
	}
	find_tuned(v);
	t = v->path ? tuned_of(v->path, v->slot) : 0;
	if (t && bpf_ktime_get_coarse_ns() <= t->limit_until_ns)
		return;
	set_option(v->hands, SOL_SOCKET, SO_MAX_PACING_RATE, NO_PACING, TP_TUNE_RATE_LIMIT);
	p->paced = 0;
}

/* The callback of each round trip. */
__noinline int tune_round_trip(hands_t *hands)
{
	struct tp_path_key key = {};
	struct visit v = begin_visit(hands, &key);
	struct tp_police *p = 0;
	struct tp_conn *conn;
	int done = 1;

	if (!v.sk || !v.tp)
		return 0;
	conn = remembered(v.sk);
	if (conn && conn->phase != TP_PHASE_NORMAL)
		done = follow_window(&v, conn);
	if (cfg.tunes & 1 << TP_TUNE_RATE_LIMIT)
		p = bpf_sk_storage_get(&police, v.sk, 0, 0);
	if (p)
		follow_policer(&v, p);
	else if (done)
		stop_following(hands);
	return 0;
}

#endif
