/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * list.h - iterators over the connections of the reader's network namespace:
 *
 *  - flows, behind `tcpilot flows`, writes a tp_flow for each, and at the end the number of all
 *    sockets it saw.  If a connection has no storage, the reason for its algorithm is found as at
 *    its opening.
 *  - flows_of_files writes a tp_flow for each connection held open by a process, in all namespaces.
 *    It finds the connections missed by flows: until Linux 6.17 the kernel leaves out one
 *    bucket of its hash table of established sockets.
 *  - adopt runs before the pilot is attached.  For the tunings it counts the connections that
 *    a former pilot took up: their sockets still have its callbacks, so this pilot will see their
 *    end.  A pilot that takes another's place finds them counted and remembered, and
 *    does not need adopt.
 *  - tally adds up the bytes sent by open connections.
 */
#ifndef TCPILOT_PILOT_LIST_H
#define TCPILOT_PILOT_LIST_H

#include "../core/sample.h"
#include "act.h"
#include "conn_starts.h"
#include "rules.h"
#include "socket.h"
#include "state.h"
#include "tune/table.h"
#include "tune/tuning.h"
#include "visit.h"

static __always_inline __u8 why_of(struct visit *v)
{
	__u8 why;

	/* A former pilot took it up, and may have set its algorithm: there would be a connection
	 * start otherwise. */
	if ((v->tp->bpf_sock_ops_cb_flags & OUR_CALLBACKS) == OUR_CALLBACKS)
		return TP_WHY_UNSEEN;
	why = hands_off(v);
	if (why != TP_WHY_UNSEEN)
		return why;
	return v->tp->bpf_sock_ops_cb_flags & BPF_SOCK_OPS_STATE_CB_FLAG ? TP_WHY_KEPT
									 : TP_WHY_UNSEEN;
}

static __always_inline int is_steered_cgroup(const struct tcp_sock *tp)
{
	__u64 ids[TP_CGROUP_DEPTH] = {};

	if (!steered_cgroup)
		return 1;
	cgroup_line(tp, ids);
	return is_among(ids, steered_cgroup);
}

static __always_inline void flow_measures(const struct tcp_sock *tp, struct tp_flow *f)
{

	f->delivery_rate =
	    tp_delivery_rate(tp->rate_delivered, tp->rate_interval_us, tp->mss_cache);
	f->app_limited = BPF_CORE_READ_BITFIELD(tp, rate_app_limited);
	f->bytes_acked = tp->bytes_acked;
	f->srtt_us = tp->srtt_us >> 3;
	f->min_rtt_us = tp_valid_rtt_us(tp->rtt_min.s[0].v);
	f->sent_packets = tp->data_segs_out;
	f->lost_packets = tp->total_retrans;
	f->cwnd_packets = tp->snd_cwnd;
	f->ssthresh_packets = tp_valid_ssthresh(tp->snd_ssthresh);
}

/* Tunings shown by the socket itself, without storage. */
static __always_inline __u8 tunings_of(const struct visit *v)
{
	struct tp_path *path;
	struct tuning t = {};
	__u8 bits = 0;
	__u32 slot;

	path = find_path(v->key, &slot);
	if (path)
		t = find_tuning(path, slot, v->key->policy, tp_local_port(v->tp),
				tp_remote_port(v->tp));
	if (!t.known)
		return 0;
	if (has_short_timer(v->tp) && is_on(&t, TP_TUNE_RTO))
		bits |= 1 << TP_TUNE_RTO;
	if (t.known->rwnd_packets && is_on(&t, TP_TUNE_RWND))
		bits |= 1 << TP_TUNE_RWND;
	if (v->tp->inet_conn.icsk_delack_max < KERNELS_TICKS && is_on(&t, TP_TUNE_QUICK_ACK))
		bits |= 1 << TP_TUNE_QUICK_ACK;
	if (has_linear_timeouts(v->tp) && is_on(&t, TP_TUNE_THIN))
		bits |= 1 << TP_TUNE_THIN;
	if (t.known->limit_rate && tp_sock_of(v->tp)->sk_max_pacing_rate == t.known->limit_rate)
		bits |= 1 << TP_TUNE_RATE_LIMIT;
	return bits;
}

static __always_inline void flow_identity(const struct visit *v, struct tp_flow *f)
{
	f->netns_cookie = v->key->netns_cookie;
	f->policy = v->key->policy;
	f->netns_inum = tp_common_of(v->tp)->skc_net.net->ns.inum;
	tp_local_btf(v->tp, f->local);
	f->local_port = tp_local_port(v->tp);
	f->remote_port = tp_remote_port(v->tp);
	bpf_probe_read_kernel(f->cc, sizeof(f->cc), v->tp->inet_conn.icsk_ca_ops->name);
}

/* The owner: the numbers of the socket's file (its inode) and of its cgroup. */
static __always_inline void flow_owner(const struct tcp_sock *tp, struct tp_flow *f)
{
	const struct socket_alloc *socket = tp_sock_of(tp)->sk_socket;
	const struct cgroup *cgrp = tp_sock_of(tp)->sk_cgrp_data.cgroup;

	/* The verifier takes the pointer for a struct socket; the inode lies behind that. */
	if (socket)
		bpf_core_read(&f->inode, sizeof(f->inode), &socket->vfs_inode.i_ino);
	if (cgrp)
		f->cgroup_id = cgrp->kn->id;
}

/* Takes the reason for its algorithm from what is kept from its start; says whether there is
 * one. */
static __always_inline int flow_conn_start(const struct visit *v, struct tp_flow *f)
{
	struct tp_conn_start start = {};

	if (!find_conn_start(tag_of(v->tp), &start))
		return 0;
	f->arm = start.arm;
	f->why = is_foreign(v->tp, &start) ? TP_WHY_APPLICATION : start.why;
	f->flags = start.flags & ~(TP_CONN_STEERED | TP_CONN_ASSIGNED);
	f->opened_ns = opened_ns_of(&start, bpf_ktime_get_ns());
	return 1;
}

/* Takes the reason for its algorithm from storage, or finds it again. */
static __always_inline void flow_decision(struct visit *v, const struct tp_conn *conn,
					  struct tp_flow *f)
{
	if (conn && conn->open) {
		f->arm = conn->arm;
		f->why = conn->cc_key == tp_cc_key(v->tp) ? conn->why : TP_WHY_APPLICATION;
		f->flags = conn->flags;
		f->opened_ns = conn->opened_ns;
		f->tuned = conn->tuned;
		f->iw_packets = conn->iw_packets;
		f->phase = conn->phase;
	} else if (!flow_conn_start(v, f)) {
		v->in_force = known_in_force(v->tp);
		f->arm = v->in_force.arm;
		f->why = why_of(v);
		f->flags = TP_CONN_SIDE_UNKNOWN;
	}
	if (TP_WHY_IS_LEFT_ALONE(f->why))
		f->arm = TP_NO_ARM; /* nobody is charged */
	if (cfg.dry_run)
		f->flags |= TP_CONN_DRY_RUN;
	if (cfg.tunes && !TP_WHY_IS_LEFT_ALONE(f->why))
		f->tuned |= tunings_of(v);
}

static __always_inline void write_flow(struct tcp_sock *tp, struct seq_file *seq)
{
	struct tp_path_key key = {};
	struct visit v = {.key = &key, .tp = tp};
	struct tp_flow f = {};

	if (!is_steered_cgroup(tp))
		return;
	tp_remote_btf(tp, f.remote);
	identify_at(&v, f.remote, tp_netns_cookie(tp));
	if (!v.policy)
		return;
	flow_decision(&v, bpf_sk_storage_get(&conns, tp, 0, 0), &f);
	flow_identity(&v, &f);
	flow_owner(tp, &f);
	flow_measures(tp, &f);
	bpf_seq_write(seq, &f, sizeof(f));
}

/* The end of a walk: the call comes again if the reader's buffer has no room for the number. */
static __always_inline void write_walked(struct seq_file *seq)
{
	__u32 sockets = walked;

	if (!bpf_seq_write(seq, &sockets, sizeof(sockets)))
		walked = 0;
}

SEC("iter/tcp")
int flows(struct bpf_iter__tcp *ctx)
{
	struct sock_common *common = ctx->sk_common;
	struct tcp_sock *tp;

	if (!common) {
		write_walked(ctx->meta->seq);
		return 0;
	}
	tp = bpf_skc_to_tcp_sock(common);
	if (!tp)
		return 0;
	walked++;
	if (common->skc_state != BPF_TCP_LISTEN)
		write_flow(tp, ctx->meta->seq);
	return 0;
}

SEC("iter/task_file")
int flows_of_files(struct bpf_iter__task_file *ctx)
{
	struct file *file = ctx->file;
	struct socket *socket;
	struct tcp_sock *tp;
	__u8 state;

	if (!file)
		return 0;
	socket = bpf_sock_from_file(file);
	if (!socket)
		return 0;
	tp = bpf_skc_to_tcp_sock(socket->sk);
	if (!tp)
		return 0;
	state = tp_common_of(tp)->skc_state;
	if (state != BPF_TCP_LISTEN && state != BPF_TCP_CLOSE)
		write_flow(tp, ctx->meta->seq);
	return 0;
}

/* A former pilot set this connection's algorithm, or the application did since:
 * nobody knows which.  So the choice does not count as the application's. */
static __always_inline void remember_former(struct tcp_sock *tp, const struct tp_path *path)
{
	struct tp_conn conn = {.path_born_ns = path->born_ns,
			       .flags = TP_CONN_SIDE_UNKNOWN,
			       .arm = TP_NO_ARM,
			       .cc_key = tp_cc_key(tp),
			       .why = TP_WHY_UNSEEN,
			       .open = 1};

	if (tp_cc_was_set(tp))
		bpf_sk_storage_get(&conns, tp, &conn, BPF_SK_STORAGE_GET_F_CREATE);
}

/* Writes the bytes sent until now by a connection of ours. */
SEC("iter/tcp")
int tally(struct bpf_iter__tcp *ctx)
{
	struct sock_common *common = ctx->sk_common;
	struct tcp_sock *tp;
	__u64 bytes;

	if (!common || common->skc_state == BPF_TCP_LISTEN)
		return 0;
	tp = bpf_skc_to_tcp_sock(common);
	if (!tp || !is_steered_cgroup(tp) ||
	    (tp->bpf_sock_ops_cb_flags & OUR_CALLBACKS) != OUR_CALLBACKS)
		return 0;
	bytes = tp->bytes_acked;
	bpf_seq_write(ctx->meta->seq, &bytes, sizeof(bytes));
	return 0;
}

SEC("iter/tcp")
int adopt(struct bpf_iter__tcp *ctx)
{
	struct sock_common *common = ctx->sk_common;
	struct tp_path_key key = {};
	struct visit v = {.key = &key};
	struct tcp_sock *tp;
	__u32 remote[4];

	if (!common || common->skc_state != BPF_TCP_ESTABLISHED)
		return 0;
	tp = bpf_skc_to_tcp_sock(common);
	if (!tp || !is_steered_cgroup(tp) ||
	    (tp->bpf_sock_ops_cb_flags & OUR_CALLBACKS) != OUR_CALLBACKS)
		return 0;
	v.tp = tp;
	tp_remote_btf(tp, remote);
	identify_at(&v, remote, tp_netns_cookie(tp));
	if (!v.policy || v.policy->leave_alone || !v.policy->tuned)
		return 0;
	v.path = open_path(&key, &v.slot);
	if (!v.path)
		return 0;
	if (!v.path->born_ns)
		begin_path(&v, bpf_ktime_get_ns());
	__sync_fetch_and_add(&v.path->live_flows, 1);
	remember_former(tp, v.path);
	return 0;
}

#endif
