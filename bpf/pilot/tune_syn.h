/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * tune_syn.h - what has to be known before a connection is established: the
 * time-out of its SYN or SYN-ACK, and the receive window that these announce.
 *
 * On accept the kernel asks for a request, which is not a socket yet: it has
 * addresses and ports, but neither a cgroup nor a namespace's number.  So where
 * rules match on these, only connect is tuned here.
 */
#ifndef TCPILOT_PILOT_TUNE_SYN_H
#define TCPILOT_PILOT_TUNE_SYN_H

struct syn {
	__u32 remote[4];
	__u16 local_port;
	__u16 remote_port;
};

static __always_inline void read_syn(struct bpf_sock_ops *ctx, struct syn *s)
{
	if (ctx->family == AF_INET) {
		s->remote[2] = TP_MAPPED;
		s->remote[3] = ctx->remote_ip4;
		asm volatile("" ::: "memory"); /* the context is read at fixed offsets only */
	} else {
		s->remote[0] = ctx->remote_ip6[0];
		s->remote[1] = ctx->remote_ip6[1];
		s->remote[2] = ctx->remote_ip6[2];
		s->remote[3] = ctx->remote_ip6[3];
	}
	s->local_port = ctx->local_port;
	s->remote_port = TP_BE32(ctx->remote_port);
}

static __always_inline const struct tp_policy_config *
identify_request(struct bpf_sock_ops *ctx, const struct syn *s, struct tp_path_key *key)
{
	const struct tp_policy_config *policy;
	struct match m = {};
	__u8 p = 0;

	if (cfg.rules_use_cgroups || cfg.rules_use_netns ||
	    (!cfg.manage_loopback && tp_is_loopback(s->remote)))
		return 0;
	m.local_port = s->local_port;
	m.remote_port = s->remote_port;
	if (cfg.rules)
		p = first_match(&m, s->remote);
	policy = &config()->policy[tp_within(p, TP_MAX_POLICIES)];
	key->netns_cookie = bpf_get_netns_cookie(ctx);
	key->policy = p;
	tp_path_prefix(policy, s->remote, key);
	return policy;
}

static __always_inline void syn_rto(struct bpf_sock_ops *ctx, const struct tp_path *path,
				    struct tp_tuned *t, const struct tp_tuning *g)
{
	__u32 rto_us = tp_syn_rto_us(path->srtt_us, t->rttvar_us, g->syn_rto_floor_us);

	if (!rto_us || !t->rttvar_us || !ticks_per_s)
		return;
	t->syn_rto_us = rto_us;
	count_set(t, TP_TUNE_RTO);
	if (!cfg.dry_run)
		ctx->reply = tp_ticks(rto_us, ticks_per_s);
}

/* The kernel computes its pacing rate when the SYN is acknowledged, so a window
 * that is to be paced has to be there before: the largest that it may become, since
 * pacing can be bounded then, but not raised.  It is set anew, from the handshake's
 * RTT and the live flows, or goes back to the kernel's, once established. */
static __always_inline int syn_pacing(struct bpf_sock_ops *ctx, const struct tcp_sock *tp,
				      const struct tp_tuned *t, const struct tp_tuning *g)
{
	__u32 most = saved_window(t, bpf_ktime_get_coarse_ns()) >> (g->iw_careful & 1);

	most = (__u32)tp_min64(most, g->iw_most_packets);
	return most > tp->snd_cwnd && set_option(ctx, SOL_TCP, TCP_BPF_IW, most, TP_TUNE_IW);
}

/* The kernel's 64 KiB suit few paths: too much for a share of a short one, a
 * round trip or two too little for a long one.  On connect the kernel takes what is
 * replied only as a bound on its own; on accept it raises its window to it, though
 * not the buffer, which grows with what arrives. */
static __always_inline int syn_window(struct bpf_sock_ops *ctx, const struct tp_path *path,
				      struct tp_tuned *t, const struct tp_tuning *g, int is_accept)
{
	__u64 bdp = window_now(t, &t->receive_bytes, bpf_ktime_get_coarse_ns());
	__u32 packets, mss = t->receive_mss ?: 1460, live = path->live_flows, room = 0;

	if (g->link_mbit) /* of less than a byte: one, since 0 is "not known" */
		bdp = g->link_mbit * 125000ULL * tp_window_min(&path->min_rtt_us) / 1000000 ?: 1;
	packets = tp_receive_window(bdp, g->rwnd_beta_x8, mss, live + 1);
	if (is_accept && is_used(path, TP_USE_RECEIVE))
		room = t->receive_room_bytes;
	packets = tp_receive_reply(g, packets, mss, live, room);
	if (!packets)
		return 0;
	t->rwnd_packets = packets;
	count_set(t, TP_TUNE_RWND);
	if (!cfg.dry_run)
		ctx->reply = packets;
	return 1;
}

/* Whose figures count: a path that was used lately. */
static __always_inline int is_fresh(const struct tp_path *path)
{
	return path->connections >= 3 && path->srtt_us &&
	       bpf_ktime_get_coarse_ns() - path->updated_ns < cfg.window_ns;
}

#define IDLE_LOOKS 256

/* After many looks that set nothing there are no more, till a connection's end
 * shows that there is something to set. */
static __always_inline void looked(__u32 tune, __u32 *idle, int was_set)
{
	if (was_set) {
		*idle = 0;
	} else if (++*idle >= IDLE_LOOKS) {
		*idle = 0;
		forget(1 << tune);
	}
}

/* Whether a SYN's callback is for some tuning.  On connect a receive window can only
 * be lowered.  On accept a window needs nothing yet: its pacing rate is computed
 * later; and the RTO here is that of the SYN-ACK alone. */
static __always_inline int is_asked_at_syn(struct bpf_sock_ops *ctx, __u32 op)
{
	__u32 met = tunes_met;

	if (op == BPF_SOCK_OPS_RWND_INIT)
		return met & (ctx->is_fullsock ? TUNES_MET_LOWERED : 1 << TP_TUNE_RWND);
	if (met & 1 << TP_TUNE_IW && ctx->is_fullsock)
		return 1;
	return is_lossy_time();
}

/* A function of its own for the verifier, as those of tune.h.  Says whether
 * something was set. */
__noinline int tune_syn(struct bpf_sock_ops *ctx, __u32 op)
{
	const struct tp_policy_config *policy;
	struct bpf_sock *sk = ctx->sk;
	struct tp_path_key key = {};
	const struct tp_tuning *g;
	struct tcp_sock *tp = 0;
	struct tp_path *path;
	struct tp_tuned *t;
	struct syn s = {};
	__u32 slot, held;
	int was_set = 0;

	read_syn(ctx, &s);
	if (sk)
		tp = bpf_skc_to_tcp_sock(sk);
	policy = tp ? identify(tp, s.remote, &key) : identify_request(ctx, &s, &key);
	if (!policy || policy->leave_alone)
		return 0;
	path = find_path(&key, &slot);
	if (!path || !is_fresh(path))
		return 0;
	t = tuned_of(path, slot);
	if (!t)
		return 0;
	g = tuning_of(key.policy, t->net);
	held = held_out(g, s.local_port, s.remote_port);
	if (op == BPF_SOCK_OPS_RWND_INIT)
		return is_on(g, t, held, TP_TUNE_RWND) && syn_window(ctx, path, t, g, !tp);
	if (tp && is_used(path, TP_USE_WINDOW) && is_on(g, t, held, TP_TUNE_IW))
		was_set = syn_pacing(ctx, tp, t, g);
	if (!is_lossy_time() || !is_on(g, t, held, TP_TUNE_RTO))
		return was_set;
	if (tp)
		tune_min_rto(ctx, path, t, g);
	syn_rto(ctx, path, t, g);
	return was_set;
}

static __noinline int tune_event(struct bpf_sock_ops *ctx, __u32 op)
{
	if (cfg.abi_version != TP_ABI_VERSION)
		return 1;
	if (op == BPF_SOCK_OPS_RTT_CB)
		tune_round_trip(ctx);
	else if (is_asked_at_syn(ctx, op)) {
		if (op == BPF_SOCK_OPS_TIMEOUT_INIT)
			looked(TP_TUNE_IW, &idle_looks[0], tune_syn(ctx, op));
		else
			looked(TP_TUNE_RWND, &idle_looks[1], tune_syn(ctx, op));
	}
	return 1;
}

#endif
