/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * connection.h - the pilot's state of a connection, in its socket's storage.
 *
 * Only connections with a tuning, and sockets that may connect again, have storage.  For the
 * others there is a connection start (conn_starts.h), and nothing is allocated.
 */
#ifndef TCPILOT_PILOT_CONNECTION_H
#define TCPILOT_PILOT_CONNECTION_H

#include "../core/tune/tune.h"
#include "algorithm.h"
#include "socket.h"
#include "state.h"
#include "visit.h"

static __always_inline void remember(struct bpf_sock *sk, const struct tp_conn *conn)
{
	struct tp_conn *kept =
	    bpf_sk_storage_get(&conns, sk, (void *)conn, BPF_SK_STORAGE_GET_F_CREATE);

	if (!kept)
		COUNT(trouble[TP_TROUBLE_NO_STORAGE]);
	else if (!kept->open)
		*kept = *conn; /* left from the socket's connection before */
}

/* The storage of an open connection; 0: it has none. */
static __always_inline struct tp_conn *remembered(struct bpf_sock *sk)
{
	struct tp_conn *conn = bpf_sk_storage_get(&conns, sk, 0, 0);

	return conn && conn->open ? conn : 0;
}

/* Storage for a connection that keeps its algorithm but has other state, such as a tuned
 * window; 0: the kernel has no memory for it. */
static __always_inline struct tp_conn *remember_kept(const struct visit *v, __u64 born_ns,
						     __u8 flags)
{
	struct tp_conn fresh = {.path_born_ns = born_ns,
				.opened_ns = bpf_ktime_get_coarse_ns(),
				.flags = flags,
				.arm = arm_in_force(v->tp),
				.cc_key = tp_cc_key(v->tp),
				.why = TP_WHY_KEPT,
				.open = 1};

	remember(v->sk, &fresh);
	return bpf_sk_storage_get(&conns, v->sk, 0, 0);
}

/* Whether the algorithm in force is the pilot's choice for the socket's connection before:
 * an application may disconnect by AF_UNSPEC, and connect again. */
static __always_inline int is_left_over(const struct visit *v)
{
	const struct tp_conn *conn = bpf_sk_storage_get(&conns, v->sk, 0, 0);

	return conn && !conn->open && conn->cc_key == v->in_force.key;
}

/* A rate of a tuned window is not the congestion control's. */
static __always_inline int is_creditable(const struct tp_conn *conn, __u32 sent_packets)
{
	return !cfg.tunes || !conn || !(conn->tuned & 1 << TP_TUNE_IW) ||
	       tp_is_creditable(sent_packets, conn->iw_packets);
}

#endif
