/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * syn.h - the tunings before a connection is established: the time-out of its SYN or
 * SYN-ACK, and the receive window that these announce.
 *
 * On accept the kernel asks for a request, which is not a socket yet: it has
 * addresses and ports, but neither a cgroup, a namespace's number nor an interface.  So if
 * rules match on these, or the address is link-local, only connect is tuned here.
 */
#ifndef TCPILOT_PILOT_TUNE_SYN_H
#define TCPILOT_PILOT_TUNE_SYN_H

#include "../../core/num.h"
#include "../../core/prefix.h"
#include "../../core/tune/tune.h"
#include "../../core/window.h"
#include "../act.h"
#include "../rules.h"
#include "../trial.h"
#include "../visit.h"
#include "table.h"
#include "tuning.h"

/* Checks since something was set last, at each of the two events of a SYN. */
__u32 idle_looks[2];

/* A request's policy, by rules without sockets. */
static __always_inline void identify_request(struct visit *v, const struct syn *s)
{
	struct subject m = {.local_port = s->local_port, .remote_port = s->remote_port};
	__u8 p = 0;

	__builtin_memcpy(m.remote, s->remote, sizeof(m.remote));
	if (cfg.rules_use_cgroups || cfg.rules_use_netns || tp_is_link_local(s->remote) ||
	    (!cfg.manage_loopback && tp_is_loopback(s->remote)))
		return;
	if (cfg.rules)
		p = (__u8)first_match(&m);
	v->policy = &config()->policy[tp_within(p, TP_MAX_POLICIES)];
	v->key->netns_cookie = netns_cookie_of(v->hands);
	v->key->policy = p;
	tp_path_prefix(v->policy, s->remote, v->key);
}

static __always_inline void syn_rto(const struct visit *v, const struct tuning *t)
{
	__u32 rto_us =
	    tp_syn_rto_us(v->path->srtt_us, t->known->rttvar_us, t->settings->syn_rto_floor_us);

	if (!rto_us || !t->known->rttvar_us || !ticks_per_s)
		return;
	t->known->syn_rto_us = rto_us;
	count_set(t->known, TP_TUNE_RTO);
	reply(v->hands, tp_ticks(rto_us, ticks_per_s));
}

/* The kernel computes its pacing rate when the SYN is acknowledged.  So a window that
 * will be paced has to be set before: the largest that it may become, since pacing can be
 * bounded then, but not raised.  Once the connection is established, the window is set
 * again, from the handshake's RTT and the live flows, or goes back to the kernel's. */
static __always_inline int syn_pacing(const struct visit *v, const struct tuning *t)
{
	__u32 most = saved_window(t->known, bpf_ktime_get_coarse_ns());

	most >>= t->settings->iw_careful & 1;
	most = (__u32)tp_min64(most, t->settings->iw_most_packets);
	return most > v->tp->snd_cwnd &&
	       set_option(v->hands, SOL_TCP, TCP_BPF_IW, most, TP_TUNE_IW);
}

/* The kernel's 64 KiB suit few paths.  They are too much for a share of a short path, and
 * cost a round trip or two on a long one.  On connect the kernel takes the reply only as
 * a bound on its own window.  On accept it raises its window to the reply, but not the
 * buffer, which grows with the data. */
static __always_inline int syn_window(const struct visit *v, const struct tuning *t, int is_accept)
{
	__u64 bdp = window_now(t->known, &t->known->receive_bytes, bpf_ktime_get_coarse_ns());
	__u32 packets, mss = t->known->receive_mss ?: 1460, live = v->path->live_flows, room = 0;
	const struct tp_tuning *g = t->settings;

	if (g->link_mbit) /* less than a byte counts as one, since 0 is "not known" */
		bdp = g->link_mbit * 125000ULL * tp_window_min(&v->path->min_rtt_us) / 1000000 ?: 1;
	packets = tp_receive_window(bdp, g->rwnd_beta_x8, mss, live + 1);
	if (is_accept && is_used(v->path, TP_USE_RECEIVE))
		room = t->known->receive_room_bytes;
	packets = tp_receive_reply(g, packets, mss, live, room);
	if (!packets)
		return 0;
	t->known->rwnd_packets = packets;
	count_set(t->known, TP_TUNE_RWND);
	reply(v->hands, packets);
	return 1;
}

/* Whether a path's figures count: only if it was used recently. */
static __always_inline int is_fresh(const struct tp_path *path)
{
	return path->connections >= 3 && path->srtt_us &&
	       bpf_ktime_get_coarse_ns() - path->updated_ns < cfg.window_ns;
}

#define IDLE_LOOKS 256

/* After many checks without effect there are no more, until a connection's end shows
 * the need. */
static __always_inline void looked(__u32 tune, __u32 *idle, int was_set)
{
	if (was_set) {
		*idle = 0;
	} else if (++*idle >= IDLE_LOOKS) {
		*idle = 0;
		forget(1 << tune);
	}
}

/* Whether some tuning needs the kernel's question for a time-out.  On accept a window
 * needs nothing yet, since its pacing rate is computed later.  The RTO is that of the
 * SYN-ACK alone then. */
static __always_inline int is_timeout_asked(int is_accept)
{
	return (tunes_met & 1 << TP_TUNE_IW && !is_accept) || is_lossy_time();
}

/* The same for the receive window.  On connect it can only be lowered. */
static __always_inline int is_window_asked(int is_accept)
{
	return tunes_met & (is_accept ? 1 << TP_TUNE_RWND : TUNES_MET_LOWERED);
}

/* Says whether something was set. */
static __always_inline int answer_timeout(const struct visit *v, const struct tuning *t)
{
	int was_set = 0;

	if (v->tp && is_used(v->path, TP_USE_WINDOW) && is_on(t, TP_TUNE_IW))
		was_set = syn_pacing(v, t);
	if (!is_lossy_time() || !is_on(t, TP_TUNE_RTO))
		return was_set;
	if (v->tp)
		tune_min_rto(v->hands, v->path, t);
	syn_rto(v, t);
	return was_set;
}

/* A function of its own for the verifier, as in open.h.  for_window: the kernel asks for
 * the receive window, else for the time-out.  Says whether something was set. */
__noinline int tune_syn(hands_t *hands, int for_window)
{
	struct tp_path_key key = {};
	struct visit v = begin_visit(hands, &key);
	struct syn s = {};
	struct tuning t;

	read_syn(hands, &s);
	if (v.tp)
		identify_at(&v, s.remote, netns_cookie_of(hands));
	else
		identify_request(&v, &s);
	if (!v.policy || v.policy->leave_alone || trial_of(s.remote) & TP_TRIAL_HELD_OUT)
		return 0;
	v.path = find_path(&key, &v.slot);
	if (!v.path || !is_fresh(v.path))
		return 0;
	t = find_tuning(v.path, v.slot, key.policy, s.local_port, s.remote_port);
	if (!t.known)
		return 0;
	if (!for_window)
		return answer_timeout(&v, &t);
	return is_on(&t, TP_TUNE_RWND) && syn_window(&v, &t, !v.tp);
}

static __always_inline void timeout_asked(hands_t *hands, int is_accept)
{
	if (is_timeout_asked(is_accept))
		looked(TP_TUNE_IW, &idle_looks[0], tune_syn(hands, 0));
}

static __always_inline void window_is_asked(hands_t *hands, int is_accept)
{
	if (is_window_asked(is_accept))
		looked(TP_TUNE_RWND, &idle_looks[1], tune_syn(hands, 1));
}

#endif
