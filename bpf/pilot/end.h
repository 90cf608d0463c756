/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * end.h - learning when a connection ends: path and arm are charged with its measures.
 * A CPU must take the path's busy flag to learn.  If it cannot get it soon, it drops
 * the sample, and counts that.
 *
 * Every connection ends with the transition to CLOSE (close, reset, time-out, abort),
 * and all its data has been sent by then.
 */
#ifndef TCPILOT_PILOT_END_H
#define TCPILOT_PILOT_END_H

#include "../core/atomic.h"
#include "../core/cost.h"
#include "../core/learner.h"
#include "../core/sample.h"
#include "../core/tune/tune.h"
#include "connection.h"
#include "socket.h"
#include "state.h"
#include "table.h"
#include "tune/end.h"
#include "tune/tuning.h"
#include "visit.h"

#define TRIES 64

/* A function of its own, so that the verifier follows the loop only once. */
__noinline int take(struct tp_path *path)
{
	for (int i = 0; path && i < TRIES; i++)
		if (!__sync_val_compare_and_swap(&path->busy, 0, 1))
			return 1;
	COUNT(trouble[TP_TROUBLE_CONTENDED]);
	return 0;
}

static __always_inline void release(struct tp_path *path)
{
	__sync_lock_test_and_set(&path->busy, 0);
}

/* A connection that is too small to charge an arm measures only RTT and loss.  On a
 * busy path one in four of those without a loss is measured, and counts for four; 0:
 * this one is not measured.  The ports decide: of connections that close together,
 * some must be measured and some not. */
static __always_inline __u32 weight_of_small(const struct visit *v, const struct bpf_tcp_sock *ts)
{
	if (ts->total_retrans || v->path->connections < 16)
		return 1;
	if (cfg.tunes & (1 << TP_TUNE_RWND | 1 << TP_TUNE_QUICK_ACK) &&
	    ts->bytes_received > TP_RWND_KERNEL)
		return 1; /* it shows more of the received data */
	return tp_is_sampled(v->sk->src_port, v->sk->dst_port) ? 4 : 0;
}

/* A rate that comes from a tuned window is not the congestion control's: the
 * connection then counts for loss and RTT only. */
static __always_inline int is_creditable(const struct tp_conn *conn, __u32 sent_packets)
{
	return !cfg.tunes || !conn || !(conn->tuned & 1 << TP_TUNE_IW) ||
	       tp_is_creditable(sent_packets, conn->iw_packets);
}

/* Charges the arm with the connection's rate and RTT.  A rescued connection counts as
 * a failure of its arm: the rate after the rescue is another algorithm's, and the rate
 * before it was that of slow start.  A rate that is not the arm's own is excused, so
 * the arm does not become hopeless by it. */
static __always_inline void charge(const struct tp_conn *conn, struct tp_path *path, __u8 arm,
				   const struct tp_sample *s, int failed, __u64 now_ns)
{
	struct tp_cost c = {.outcome = TP_OUTCOME_EXCUSED};
	__u32 min_rtt_us = s->min_rtt_us;
	__u64 rate = s->delivery_rate;

	if (arm < TP_MAX_ARMS && is_creditable(conn, s->sent_packets)) {
		if (conn && (conn->flags & TP_CONN_RESCUED)) {
			rate = 0;
			min_rtt_us = conn->rescue_min_rtt_us;
			failed = 1;
		}
		tp_learn_arm(config(), arm_at(path, arm), rate, min_rtt_us, now_ns);
		c = tp_cost_of(path, arm_at(path, arm), rate, min_rtt_us, failed);
	}
	if (learner_charge(&config()->learner, &path->learner, arm, c.cost, c.outcome))
		COUNT(charged);
}

/* The outcome of a connection. */
struct told {
	__u8 told; /* it is large enough to charge its arm */
	__u8 failed;
	__u8 arm; /* TP_NO_ARM: none */
	__u8 weight;
};

/* With the path's busy flag held. */
static __always_inline void learn_exclusively(const struct visit *v, const struct tp_conn *conn,
					      struct tp_sample *s, struct told told)
{
	__u64 now_ns = bpf_ktime_get_coarse_ns();
	struct tp_tuned *t;

	v->path->updated_ns = now_ns;
	tp_learn_path(config(), v->path, s, now_ns);
	t = cfg.tunes && !(told.weight > 1 && is_quiet(v->path)) ? tuned_of(v->path, v->slot) : 0;
	if (t)
		tune_learn(v->hands, v->path, t, v->key->policy,
			   conn && conn->tuned & 1 << TP_TUNE_IW);
	if (told.told && s->min_rtt_us)
		charge(conn, v->path, told.arm, s, told.failed, now_ns);
}

static __always_inline void learn(const struct visit *v, const struct tp_conn *conn)
{
	struct bpf_tcp_sock *ts = bpf_tcp_sock(v->sk);
	struct told told = {.arm = TP_NO_ARM, .weight = 1, .failed = tp_timed_out(v->tp)};
	struct tp_sample s;

	if (!ts)
		return;
	told.told = told.failed || ts->bytes_acked >= cfg.min_flow_bytes;
	if (told.told)
		told.arm = arm_to_charge(v->tp, conn);
	else
		told.weight = weight_of_small(v, ts);
	if (!told.weight)
		return;
	note_uses(ts, v->path);
	tp_measure(ts, &s);
	if (told.told && is_creditable(conn, ts->data_segs_out))
		s.delivery_rate = tp_conn_rate(ts, v->tp, ticks_per_s, 0);
	s.sent_packets *= told.weight;
	if (!take(v->path))
		return;
	learn_exclusively(v, conn, &s, told);
	release(v->path);
}

static __always_inline void count_end(struct tp_path *path, const struct tp_conn *conn)
{
	if (conn && conn->path_born_ns && conn->path_born_ns != path->born_ns)
		COUNT(trouble[TP_TROUBLE_EVICTED]);
	else
		tp_decrement(&path->live_flows);
	if (conn && conn->tuned & 1 << TP_TUNE_IW)
		tp_decrement(&path->windowed_flows);
}

/*
 * Keeps the rate before a FIN if the last rate sample will not show it.  If all data
 * was acknowledged, the FIN's own sample replaces the data's.  If the application
 * filled the send buffer, the kernel calls the sample application-limited.  The same
 * maximum may be learned twice.
 */
static __always_inline void keep_rate(const struct visit *v, const struct tp_conn *conn)
{
	struct bpf_tcp_sock *ts = bpf_tcp_sock(v->sk);
	__u8 arm = arm_to_charge(v->tp, conn);
	__u64 rate = ts ? tp_conn_rate(ts, v->tp, ticks_per_s, tp_is_filled(v->tp)) : 0;
	__u64 now_ns;

	if (!rate || !ts || !is_creditable(conn, ts->data_segs_out) || !take(v->path))
		return;
	now_ns =
	    bpf_ktime_get_coarse_ns(); /* after take(): another CPU may have moved the windows on */
	tp_keep_rate(config(), v->path, rate, now_ns);
	if (arm < TP_MAX_ARMS && !(conn && (conn->flags & TP_CONN_RESCUED)))
		tp_learn_arm(config(), arm_at(v->path, arm), rate, 0, now_ns);
	release(v->path);
}

/* to: the state that the connection goes to, CLOSE or one that sends a FIN. */
static __always_inline void closed(struct visit *v, __u32 to)
{
	struct tp_conn *conn = 0;

	find(v);
	/* otherwise we changed nothing, and there is no storage */
	if (tp_cc_was_set(v->tp) || (cfg.tunes && !(v->path && !v->path->windowed_flows))) {
		conn = remembered(v->sk);
		if (conn && to == BPF_TCP_CLOSE)
			conn->open = 0;
	}
	if (!v->path || v->policy->leave_alone)
		return;
	if (to != BPF_TCP_CLOSE) {
		keep_rate(v, conn);
		return;
	}
	if (cfg.learner.kind != TP_LEARNER_THOMPSON) /* with that learner tell_end() counts */
		count_closed(v->tp->bytes_acked);
	count_end(v->path, conn);
	learn(v, conn);
}

#endif
