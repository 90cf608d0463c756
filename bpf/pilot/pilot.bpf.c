// SPDX-License-Identifier: GPL-2.0-only
/*
 * pilot.bpf.c - chooses a congestion control per path, and learns from it.
 *
 * A sockops program on a cgroup.  A connection passes through it like this:
 *
 *  - established (connect or accept): is it ours to touch?  Which policy and
 *    path is it on?  Which arms are eligible?  Draw one, set it, read back what
 *    is in force, remember it in the socket's storage.  The choice is made here
 *    and not before the SYN because only now it is known whether ECN was
 *    negotiated; no data has been sent yet.
 *  - a retransmission: where loss is heavy the connection is rescued, once.
 *    The rescue stays an outcome of the arm first chosen, which is charged with
 *    it at the end.
 *  - the transition to CLOSE, which every end passes (close, reset, time-out,
 *    abort) and by which all data is out: measure, update path and arm.
 *
 * Where a policy has tunings on, they are set at the SYN (tune_syn.h) and at the
 * establishment (tune.h), and followed by one callback per round trip.
 *
 * Other events return at once.  Callback flags are added to those that other
 * programs set, never taken away.
 *
 * Cost decides the shape.  Most connections are short and keep their default,
 * and then nothing is allocated for them: their end is understood from the
 * socket alone.  Storage is made when an algorithm was changed.  Choosing only
 * reads a path; learning takes its busy flag, and gives a sample up, counted,
 * rather than wait for long.
 */
#include "socket.h"
#include "../core/atomic.h"
#include "../core/cost.h"
#include "../core/eligible.h"
#include "../core/learner.h"
#include "../core/loss.h"
#include "../core/tune/tune.h"
#include "../core/tune/police.h"
#include "../core/hash.h"

char _license[] SEC("license") = "GPL";

const volatile struct tp_config cfg;

struct tp_rule rules[TP_MAX_RULES];
struct tp_counters counters;
/* The unit of the kernel's own counts of time; 0: not known. */
__u32 ticks_per_s;
/* The id of the steered cgroup, which may be removed and made anew; 0: the root. */
__u64 steered_cgroup;
/* The kernel's keys of algorithms, learned when one is first seen in force:
 * of the arms, of the defaults that may be replaced, and of the last one seen. */
__u32 arm_key[TP_MAX_ARMS];
__u32 default_key[TP_MAX_DEFAULTS];
__u32 foreign_key;
/* The key seen last, and below it what is known of it: see identify.h. */
__u64 last_known;
/* Tunings for which a SYN is looked at: some path has them on, and lately had
 * something to set; of the RTO: a packet was lost lately. */
__u32 tunes_met;
/* Looks since then that set nothing, at the events of TIMEOUT_INIT and RWND_INIT. */
__u32 idle_looks[2];

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* the loader sets it */
	__type(key, __u32);
	__type(value, struct tp_bucket);
} paths SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct tp_conn);
} conns SEC(".maps");

#define COUNT(counter) __sync_fetch_and_add(&counters.counter, 1)

/* cfg for the pure functions.  The compiler must not see through the cast: it
 * would take the zeros of this file for the values that the loader writes. */
static __always_inline const struct tp_config *config(void)
{
	const struct tp_config *c = (const struct tp_config *)&cfg;

	asm("" : "+r"(c));
	return c;
}

static __always_inline struct tp_arm *arm_at(struct tp_path *path, __u32 arm)
{
	return &path->arms[tp_within(arm, TP_MAX_ARMS)];
}

#include "table.h"
#include "identify.h"

/* ---- established ---- */

/* A function of its own, so that the verifier follows its ways only once. */
__noinline int draw(struct tp_learner *mem, __u32 eligible, struct tp_choice *to)
{
	__u32 random = 1; /* of one arm there is nothing to draw */

	if (!mem || !to)
		return 0;
	if (eligible & (eligible - 1))
		random = bpf_get_prandom_u32();
	*to = learner_choose(&config()->learner, mem, eligible, random);
	return 0;
}

/* Whether arms that need ECN may be chosen.  The handshake is the connection's own evidence of a
 * steady path: its variation is half of its only round trip (RFC 6298, section 2.2). */
static __always_inline __u32 ecn_use(const struct tcp_sock *tp,
				     const struct tp_policy_config *policy,
				     const struct tp_path *path)
{
	struct tp_net_measures m = {.min_rtt_us = tp_window_min(&path->min_rtt_us),
				    .rttvar_us = tp->mdev_us >> 2};
	__u32 remote[4];

	if (!(tp->ecn_flags & TCP_ECN_OK))
		return TP_ECN_NOT_NEGOTIATED;
	tp_remote_btf(tp, remote);
	m.wireless = tp_is_wireless(tp);
	return tp_ecn_use_of(policy, tp_is_private(remote), &m);
}

static __always_inline struct tp_choice
choose(const struct tcp_sock *tp, const struct tp_policy_config *policy, struct tp_path *path)
{
	struct tp_choice choice = {.arm = TP_NO_ARM, .why = TP_WHY_NO_ARM};
	__u32 eligible = policy->arms;

	if (cfg.ecn_arms) {
		path->ecn = (__u8)ecn_use(tp, policy, path);
		eligible = tp_eligible(policy, cfg.ecn_arms, path->ecn);
	}
	draw(&path->learner, eligible, &choice);
	return choice;
}

static __always_inline void record_decision(const struct bpf_sock *sk, struct tp_path *path,
					    __u64 now_ns, __u8 arm, __u8 why, __u8 flags)
{
	__u32 slot = __sync_fetch_and_add(&path->decision_seq, 1) & (TP_DECISIONS - 1);
	struct tp_decision *d = &path->decisions[slot];

	d->at_ns = now_ns;
	d->arm = arm;
	d->why = why;
	d->remote_port = TP_BE32((__u32)sk->dst_port) >> 16;
	d->local_port = (__u16)sk->src_port;
	d->flags = flags;
	d->dry_run = cfg.dry_run;
}

static __always_inline int set_cc(struct bpf_sock_ops *ctx, const char from[TP_CC_NAME_MAX])
{
	/* Names are aligned in tp_config; copied as bytes they cost eight times as much. */
	const __u64 *words = __builtin_assume_aligned(from, 8);
	__u64 name[2] = {words[0], words[1]};

	if (!bpf_setsockopt(ctx, SOL_TCP, TCP_CONGESTION, name, sizeof(name)))
		return 1;
	COUNT(trouble[TP_TROUBLE_SET_FAILED]);
	return 0;
}

static __always_inline void remember(struct bpf_sock *sk, const struct tp_conn *conn)
{
	struct tp_conn *kept =
	    bpf_sk_storage_get(&conns, sk, (void *)conn, BPF_SK_STORAGE_GET_F_CREATE);

	if (!kept)
		COUNT(trouble[TP_TROUBLE_NO_STORAGE]);
	else if (!kept->open)
		*kept = *conn; /* left from the socket's connection before */
}

/* Sets an arm, and finds out what is in force then: the arm to charge. */
static __always_inline __u8 put_in_force(struct bpf_sock_ops *ctx, struct bpf_sock *sk,
					 const struct tcp_sock *tp, struct tp_conn *conn,
					 __u8 wanted)
{
	if (!set_cc(ctx, config()->arm[tp_within(wanted, TP_MAX_ARMS)]))
		conn->why = TP_WHY_SET_FAILED;
	conn->arm = arm_in_force(tp);
	conn->cc_key = tp_cc_key(tp);
	conn->open = 1;
	if (conn->why != TP_WHY_SET_FAILED)
		remember(sk, conn);
	return conn->arm;
}

/* Of a connection whose algorithm stays, where something else is remembered. */
static __always_inline struct tp_conn kept_as_it_is(const struct tcp_sock *tp)
{
	return (struct tp_conn){.opened_ns = bpf_ktime_get_coarse_ns(),
				.flags = TP_CONN_SIDE_UNKNOWN,
				.arm = arm_in_force(tp),
				.cc_key = tp_cc_key(tp),
				.why = TP_WHY_KEPT,
				.open = 1};
}

#include "tune.h"
#include "tune_follow.h"
#include "tune_end.h"

/* Draws an arm, sets it where it is not in force already, and records that. */
static __always_inline __u8 steer(struct bpf_sock_ops *ctx, struct bpf_sock *sk,
				  const struct tcp_sock *tp, struct tp_path *path,
				  const struct tp_policy_config *policy, __u8 flags, __u8 *arm)
{
	struct tp_choice choice = choose(tp, policy, path);
	__u64 now_ns = bpf_ktime_get_coarse_ns();

	if (choice.arm < TP_MAX_ARMS && choice.arm != *arm && !cfg.dry_run) {
		struct tp_conn conn = {.path_born_ns = path->born_ns,
				       .opened_ns = now_ns,
				       .why = choice.why,
				       .flags = flags};

		*arm = put_in_force(ctx, sk, tp, &conn, choice.arm);
		choice.why = conn.why;
	}
	record_decision(sk, path, now_ns, cfg.dry_run ? choice.arm : *arm, choice.why, flags);
	return choice.why;
}

/* Of a path that was just put in. */
static __always_inline void begin(struct tp_path *path, const struct tcp_sock *tp, __u64 now_ns)
{
	path->born_ns = path->updated_ns = now_ns;
	path->netns_inum = tp_common_of(tp)->skc_net.net->ns.inum;
}

/* What open_one() tells of a connection that may be tuned: its policy and slot. */
#define TUNE 0x80000000
#define TUNE_POLICY 24

/* Whether a connection that is established now has something to be set. */
static __always_inline int has_to_tune(const struct tp_path *path, __u8 flags)
{
	__u32 asks = cfg.tunes & TUNES_ESTABLISHED & ~path->skips;

	if (flags & TP_CONN_ACTIVE)
		asks &= ~(1 << TP_TUNE_RTO);
	return asks & ~(1 << TP_TUNE_RTO) || (asks && is_lossy_time());
}

static __always_inline __u8 take_up(struct bpf_sock_ops *ctx, struct bpf_sock *sk,
				    const struct tcp_sock *tp, const struct tp_path_key *key,
				    const struct tp_policy_config *policy, __u8 arm, __u8 flags,
				    __u32 *tune)
{
	__u32 callbacks = BPF_SOCK_OPS_STATE_CB_FLAG | BPF_SOCK_OPS_RETRANS_CB_FLAG;
	__u8 why = TP_WHY_FEW;
	struct tp_path *path;
	__u32 slot;

	path = open_path(key, &slot);
	if (!path)
		return TP_WHY_NO_ARM;
	if (!path->born_ns)
		begin(path, tp, bpf_ktime_get_coarse_ns());
	if (learner_is_ready(&config()->learner, &path->learner))
		why = steer(ctx, sk, tp, path, policy, flags, &arm);
	__sync_fetch_and_add(&path->live_flows, 1);
	__sync_fetch_and_add(&path->connections, 1);
	learner_chosen(&config()->learner, &path->learner, arm, why);
	if (has_to_tune(path, flags))
		*tune = TUNE | (__u32)key->policy << TUNE_POLICY | slot;
	if (bpf_sock_ops_cb_flags_set(ctx, ctx->bpf_sock_ops_cb_flags | callbacks))
		COUNT(trouble[TP_TROUBLE_CB_FLAGS]);
	return why;
}

static __always_inline void established(struct bpf_sock_ops *ctx, struct bpf_sock *sk,
					const struct tcp_sock *tp, __u8 flags, __u32 *tune)
{
	const struct tp_policy_config *policy;
	struct tp_path_key key = {};
	__u8 why = TP_WHY_LOOPBACK;
	__u32 remote[4], known;

	tp_remote(sk, remote);
	policy = identify(tp, remote, &key);
	if (policy) {
		known = known_in_force(tp);
		why = hands_off(tp, policy, known);
		if (why == TP_WHY_UNSEEN)
			why = take_up(ctx, sk, tp, &key, policy, (__u8)known, flags, tune);
	}
	COUNT(connections[tp_within(why, TP_WHY_SLOTS)]);
}

#include "loss.h"
#include "end.h"

#include "tune_syn.h"

/*
 * The events.  Each is a function of its own, apart from the entry, which runs for
 * every event and should save no registers: what it calls, it calls last.
 */
static __always_inline struct tcp_sock *socket_of(struct bpf_sock_ops *ctx)
{
	struct bpf_sock *sk = ctx->sk;

	return cfg.abi_version == TP_ABI_VERSION && sk ? bpf_skc_to_tcp_sock(sk) : 0;
}

static __always_inline __u32 open_one(struct bpf_sock_ops *ctx, __u32 flags)
{
	struct tcp_sock *tp = socket_of(ctx);
	struct bpf_sock *sk = ctx->sk;
	__u32 tune = 1;

	if (tp && sk)
		established(ctx, sk, tp, (__u8)flags, &tune);
	return tune;
}

static __noinline __u32 opened(struct bpf_sock_ops *ctx, __u32 flags)
{
	return open_one(ctx, flags);
}

static __noinline __u32 lost(struct bpf_sock_ops *ctx)
{
	struct tcp_sock *tp = socket_of(ctx);
	struct bpf_sock *sk = ctx->sk;

	if (tp && sk)
		retransmitted(ctx, sk, tp);
	return 1;
}

static __noinline __u32 ended(struct bpf_sock_ops *ctx, __u32 to)
{
	struct tcp_sock *tp = socket_of(ctx);
	struct bpf_sock *sk = ctx->sk;

	if (tp && sk && (to == BPF_TCP_CLOSE || tp_is_idle(tp) || tp_is_filled(tp)))
		closed(ctx, sk, tp, to);
	return 1;
}

static __noinline __u32 opened_tuned(struct bpf_sock_ops *ctx, __u32 flags)
{
	__u32 tune = open_one(ctx, flags);

	if (tune & TUNE)
		tune_established(ctx, tune & ((1 << TUNE_POLICY) - 1),
				 tune >> TUNE_POLICY & (TP_MAX_POLICIES - 1), flags);
	return 1;
}

static __noinline __u32 lost_tuned(struct bpf_sock_ops *ctx)
{
	if (cfg.abi_version == TP_ABI_VERSION)
		tune_loss(ctx);
	return lost(ctx);
}

/* To CLOSE, or a FIN of a connection that has carried enough to learn from. */
static __always_inline int is_end(struct bpf_sock_ops *ctx, __u32 to)
{
	return to == BPF_TCP_CLOSE || ((to == BPF_TCP_FIN_WAIT1 || to == BPF_TCP_LAST_ACK) &&
				       ctx->bytes_acked >= cfg.min_flow_bytes);
}

/* A SYN, where something may be set at one; a round trip. */
static __always_inline int is_tuned_now(__u32 op)
{
	return tunes_met || op == BPF_SOCK_OPS_RTT_CB;
}

/* Events as bits: most are nothing to us, and leave by one test. */
#define EVENTS                                                                                     \
	(1U << BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB | 1U << BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB |    \
	 1U << BPF_SOCK_OPS_RETRANS_CB | 1U << BPF_SOCK_OPS_STATE_CB)
/* Those that only a tuning asks for, or makes use of. */
#define TUNE_EVENTS                                                                                \
	(1U << BPF_SOCK_OPS_RTT_CB | 1U << BPF_SOCK_OPS_TIMEOUT_INIT | 1U << BPF_SOCK_OPS_RWND_INIT)

SEC("sockops")
int tcpilot(struct bpf_sock_ops *ctx)
{
	__u32 op = ctx->op, flags = 0;

	if (!((cfg.tunes ? EVENTS | TUNE_EVENTS : EVENTS) >> (op & 31) & 1))
		return 1;
	switch (op) {
	case BPF_SOCK_OPS_STATE_CB:
		return is_end(ctx, ctx->args[1]) ? ended(ctx, ctx->args[1]) & 1 : 1;
	case BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB:
		flags = TP_CONN_ACTIVE;
		/* fall through */
	case BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB:
		return (cfg.tunes ? opened_tuned(ctx, flags) : opened(ctx, flags)) & 1;
	case BPF_SOCK_OPS_RETRANS_CB:
		return (cfg.tunes ? lost_tuned(ctx) : lost(ctx)) & 1;
	}
	return cfg.tunes && is_tuned_now(op) ? tune_event(ctx, op) & 1 : 1;
}

/* For the daemon, which finds the ticks per second with it. */
SEC("syscall")
int read_clocks(struct tp_clocks *to)
{
	to->ticks = bpf_jiffies64();
	to->now_ns = bpf_ktime_get_ns();
	return 0;
}

#include "flows.h"
#include "ack_priority.h"
