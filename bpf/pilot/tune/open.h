/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * open.h - the tunings of an established connection: they are set now, followed by a
 * callback per round trip if something has to be undone, and judged at its end.
 *
 * The initial window (RFC 9959's words in enum tp_phase): it goes out over half
 * a round trip, by a bound on the pacing rate lifted with the first
 * acknowledgement.  A loss before all of it is acknowledged is a retreat: the window is
 * clamped to half of the packets that arrived until the loss is repaired, and the path's
 * brake halves the windows of later connections.
 */
#ifndef TCPILOT_PILOT_TUNE_OPEN_H
#define TCPILOT_PILOT_TUNE_OPEN_H

#include "../../core/tune/tune.h"
#include "../../core/window.h"
#include "../act.h"
#include "../connection.h"
#include "../visit.h"
#include "table.h"
#include "tuning.h"

/*
 * Turns the kernel's pacing on, and bounds it.  On accept the kernel computes its
 * rate from the window only now.  On connect it did so when the SYN was
 * acknowledged, from the window that syn.h had set for that.  If syn.h had set none,
 * pacing would keep ten packets' rate for a round trip, and is left off.
 */
static __always_inline int pace_window(const struct visit *v, __u32 rate)
{
	if (v->flags & TP_CONN_ACTIVE && tp_sock_of(v->tp)->sk_pacing_rate < rate)
		return 0;
	return set_option(v->hands, SOL_SOCKET, SO_MAX_PACING_RATE, rate, TP_TUNE_IW);
}

static __always_inline struct tp_iw window_asked(const struct visit *v, const struct tp_tuned *t)
{
	__u64 now_ns = bpf_ktime_get_coarse_ns();

	return (struct tp_iw){.saved_packets = saved_window(t, now_ns),
			      .flows = v->path->live_flows,
			      .rtt_us = v->tp->srtt_us >> 3,
			      .srtt_us = v->path->srtt_us,
			      .min_rtt_us = tp_window_min(&v->path->min_rtt_us),
			      .base_packets = v->tp->snd_cwnd,
			      .brake = tp_brake_now(t->brake, t->brake_ns, now_ns)};
}

/* The connection's storage, made if there was none. */
static __always_inline struct tp_conn *storage_of(const struct visit *v)
{
	struct tp_conn *conn = remembered(v->sk);

	return conn ? conn : remember_kept(v, v->path->born_ns, v->flags);
}

/* Says whether the connection has to be followed. */
static __always_inline int tune_window(const struct visit *v, const struct tuning *t)
{
	struct tp_iw in = window_asked(v, t->known);
	__u32 iw = tp_initial_window(t->settings, &in), mss = v->tp->mss_cache;
	struct tp_conn *conn;
	int paced = 0;

	if (iw == in.base_packets)
		return 0;
	if (iw > in.base_packets && (__u32)tp_sock_of(v->tp)->sk_max_pacing_rate == NO_PACING) {
		paced = pace_window(v, tp_window_rate(iw, mss, in.rtt_us));
		if (!paced) /* one burst, so no more than the kernel itself hands over at once */
			iw = (__u32)tp_min64(iw, tp_burst_packets(mss));
	}
	if (!set_option(v->hands, SOL_TCP, TCP_BPF_IW, iw, TP_TUNE_IW))
		return 0;
	count_set(t->known, TP_TUNE_IW);
	t->known->iw_packets = iw;
	t->known->iw_saved_packets = in.saved_packets;
	t->known->iw_flows = in.flows;
	if (cfg.dry_run || iw < in.base_packets)
		return 0;
	conn = storage_of(v);
	if (!conn)
		return 0;
	if (!(conn->tuned & 1 << TP_TUNE_IW))
		__sync_fetch_and_add(&v->path->windowed_flows, 1);
	conn->tuned |= 1 << TP_TUNE_IW;
	conn->iw_packets = tp_min64(iw, 0xffff);
	conn->phase = paced ? TP_PHASE_PACED : TP_PHASE_UNVALIDATED;
	return 1;
}

/* A new connection behind a known policer is followed, to let it go in time. */
static __always_inline int start_policed(const struct visit *v, struct tp_tuned *t)
{
	struct tp_police *p;

	if (!pace_as_policed(v->hands, v->tp, t))
		return 0;
	p = bpf_sk_storage_get(&police, v->sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
	if (p)
		p->paced = 1;
	return 1;
}

static __always_inline void tune_opened(const struct visit *v, const struct tuning *t)
{
	int follow = 0;

	if (is_on(t, TP_TUNE_RATE_LIMIT) && start_policed(v, t->known))
		follow = 1; /* and no window beyond the kernel's */
	else if (is_used(v->path, TP_USE_WINDOW) && is_on(t, TP_TUNE_IW) && tune_window(v, t))
		follow = 1;
	if (!(v->flags & TP_CONN_ACTIVE) && is_lossy_time() && is_on(t, TP_TUNE_RTO))
		tune_min_rto(v->hands, v->path, t);
	if (is_used(v->path, TP_USE_ACKS) && is_on(t, TP_TUNE_QUICK_ACK) &&
	    set_option(v->hands, SOL_TCP, TCP_BPF_DELACK_MAX,
		       at_least_two_ticks(t->settings->delack_us), TP_TUNE_QUICK_ACK))
		count_set(t->known, TP_TUNE_QUICK_ACK);
	if (follow)
		follow_round_trips(v->hands);
}

/*
 * A function of its own, as in syn.h, follow.h and end.h: the verifier checks it once
 * and not for each way to it.  A struct argument of a function cannot hold kernel
 * pointers, so this one begins its visit again, with the policy and the slot found.
 */
__noinline int tune_established(hands_t *hands, __u32 slot, __u32 policy, __u32 flags)
{
	struct visit v = begin_visit(hands, 0);
	struct tuning t;

	v.path = path_at(slot);
	if (!v.path || !v.sk || !v.tp)
		return 0;
	v.flags = (__u8)flags;
	t = find_tuning(v.path, slot, policy, tp_local_port(v.tp), tp_remote_port(v.tp));
	if (t.known)
		tune_opened(&v, &t);
	return 0;
}

/* Whether something has to be set at this establishment. */
static __always_inline int has_to_tune(const struct visit *v)
{
	__u32 asks = cfg.tunes & TUNES_ESTABLISHED & ~v->path->skips;

	if (v->flags & TP_CONN_ACTIVE)
		asks &= ~(1 << TP_TUNE_RTO);
	return asks & ~(1 << TP_TUNE_RTO) || (asks && is_lossy_time());
}

#endif
