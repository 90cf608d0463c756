/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * path.h - a connection ends, or sends a FIN: its path in the table takes its measures, which
 * the tunings use.  A CPU must take the path's busy flag for that.
 *
 * Every connection ends with the transition to CLOSE (close, reset, time-out, abort),
 * and all its data has been sent by then.
 */
#ifndef TCPILOT_PILOT_TUNE_PATH_H
#define TCPILOT_PILOT_TUNE_PATH_H

#include "../../core/atomic.h"
#include "../../core/sample.h"
#include "../../core/tune/tune.h"
#include "../busy.h"
#include "../connection.h"
#include "../socket.h"
#include "../state.h"
#include "../visit.h"
#include "end.h"
#include "table.h"
#include "tuning.h"

/* A small connection measures only RTT and loss.  On a
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

/* With the path's busy flag held.  weight: the number of ends represented. */
static __always_inline void learn_exclusively(const struct visit *v, const struct tp_conn *conn,
					      const struct tp_sample *s, __u32 weight)
{
	__u64 now_ns = bpf_ktime_get_coarse_ns();
	struct tp_tuned *t;

	v->path->updated_ns = now_ns;
	tp_learn_path(config(), v->path, s, now_ns);
	t = weight > 1 && is_quiet(v->path) ? 0 : tuned_of(v->path, v->slot);
	if (t)
		tune_learn(v->hands, v->path, t, v->key->policy,
			   conn && conn->tuned & 1 << TP_TUNE_IW);
}

static __always_inline void learn(const struct visit *v, const struct tp_conn *conn)
{
	struct bpf_tcp_sock *ts = bpf_tcp_sock(v->sk);
	struct tp_sample s;
	__u32 weight = 1;
	int is_large;

	if (!ts)
		return;
	is_large = ts->bytes_acked >= cfg.min_flow_bytes || tp_timed_out(v->tp);
	if (!is_large)
		weight = weight_of_small(v, ts);
	if (!weight)
		return;
	note_uses(ts, v->path);
	tp_measure(ts, &s);
	if (is_large && is_creditable(conn, ts->data_segs_out))
		s.delivery_rate = tp_conn_rate(ts, v->tp, ticks_per_s, 0);
	s.sent_packets *= weight;
	if (!take(&v->path->busy))
		return;
	learn_exclusively(v, conn, &s, weight);
	release(&v->path->busy);
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
	__u64 rate = ts ? tp_conn_rate(ts, v->tp, ticks_per_s, tp_is_filled(v->tp)) : 0;
	__u64 now_ns;

	if (!rate || !ts || !is_creditable(conn, ts->data_segs_out) || !take(&v->path->busy))
		return;
	now_ns =
	    bpf_ktime_get_coarse_ns(); /* after take(): another CPU may have moved the windows on */
	tp_keep_rate(config(), v->path, rate, now_ns);
	release(&v->path->busy);
}

/* to: the connection's new state, CLOSE or one with a FIN. */
static __always_inline void closed(struct visit *v, __u32 to)
{
	struct tp_conn *conn = 0;

	find(v);
	/* otherwise no open connection of the path has a tuned window, and so no storage */
	if (tp_cc_was_set(v->tp) || !(v->path && !v->path->windowed_flows)) {
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
	count_end(v->path, conn);
	learn(v, conn);
}

#endif
