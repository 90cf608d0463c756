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
 *    The rescue stays an outcome of the arm first chosen: what that arm had
 *    shown by then is kept, and charged at the end.
 *  - the transition to CLOSE, which every end passes (close, reset, time-out,
 *    abort) and by which all data is out: measure, update path and arm.
 *
 * Other events return at once.  Callback flags are added to those that other
 * programs set, never taken away.  Choosing only reads a path; learning takes
 * its busy flag, and gives a sample up, counted, rather than wait for long.
 * An entry that the LRU map takes away under a running program's hands may
 * catch a stray write: measures age, and flow counts are tied to born_ns.
 */
#include "socket.h"

char _license[] SEC("license") = "GPL";

const volatile struct tp_config cfg;

struct tp_rule rules[TP_MAX_RULES];
struct tp_counters counters;
/* The kernel's key of each arm, learned when the arm is first seen in force. */
__u32 arm_key[TP_MAX_ARMS];

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1); /* the loader sets it */
	__type(key, struct tp_path_key);
	__type(value, struct tp_path);
} paths SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct tp_conn);
} conns SEC(".maps");

static const struct tp_path empty_path;

#define COUNT(counter) __sync_fetch_and_add(&counters.counter, 1)

/* cfg for the pure functions.  The compiler must not see through the cast: it
 * would take the zeros of this file for the values that the loader writes. */
static __always_inline const struct tp_config *config(void)
{
	const struct tp_config *c = (const struct tp_config *)&cfg;

	asm("" : "+r"(c));
	return c;
}

#include "rules.h"

/* ---- established ---- */

static __always_inline int is_replaceable_default(const struct tcp_sock *tp)
{
	for (int i = 0; i < TP_MAX_DEFAULTS && i < cfg.defaults; i++)
		if (tp_cc_is(tp, config()->replace_defaults[i]))
			return 1;
	return 0;
}

/* A reason to leave this connection alone, or TP_WHY_UNSEEN.  A default that
 * was seen to be an arm's counts as replaceable without comparing names. */
static __always_inline __u8 hands_off(const struct tcp_sock *tp, const struct tp_policy_config *p)
{
	if (p->leave_alone)
		return TP_WHY_EXCLUDED;
	if (tp_application_has_cc(tp))
		return TP_WHY_APPLICATION;
	if (tp_route_has_cc(tp))
		return TP_WHY_ROUTE;
	if (!is_replaceable_default(tp))
		return TP_WHY_ADMINISTRATOR;
	return TP_WHY_UNSEEN;
}

static __always_inline struct tp_path *open_path(const struct tp_path_key *key,
						 const struct tcp_sock *tp, __u64 now_ns)
{
	struct tp_path *path = bpf_map_lookup_elem(&paths, key);

	if (path)
		return path;
	bpf_map_update_elem(&paths, key, &empty_path, BPF_NOEXIST);
	path = bpf_map_lookup_elem(&paths, key);
	if (path && !path->born_ns) {
		path->born_ns = now_ns;
		path->netns_inum = tp_netns_inum(tp);
	}
	return path;
}

static __always_inline __u32 eligible_arms(const struct tcp_sock *tp,
					   const struct tp_policy_config *policy)
{
	__u32 mask = policy->arms;
	int ecn = tp->ecn_flags & TCP_ECN_OK;

#pragma unroll
	for (int i = 0; i < TP_MAX_ARMS; i++)
		if (i >= cfg.arms || (cfg.arm[i].needs_ecn && !ecn))
			mask &= ~(1U << i);
	return mask;
}

/* The arm that is in force, by the kernel's key of its algorithm. */
static __always_inline __u8 arm_in_force(const struct tcp_sock *tp)
{
	__u32 key = tp_cc_key(tp);

#pragma unroll
	for (int i = 0; i < TP_MAX_ARMS; i++)
		if (i < cfg.arms && arm_key[i] == key)
			return i;
	for (int i = 0; i < TP_MAX_ARMS && i < cfg.arms; i++) {
		if (!arm_key[i] && tp_cc_is(tp, config()->arm[i].name)) {
			arm_key[i] = key;
			return i;
		}
	}
	return TP_NO_ARM;
}

static __always_inline void record_decision(struct bpf_sock_ops *ctx, struct tp_path *path,
					    const struct tp_conn *conn, __u8 arm)
{
	__u32 slot = __sync_fetch_and_add(&path->decision_seq, 1) & (TP_DECISIONS - 1);
	struct tp_decision *d = &path->decisions[slot];

	d->at_ns = conn->opened_ns;
	d->arm = arm;
	d->why = conn->why;
	d->remote_port = tp_remote_port(ctx);
	d->local_port = ctx->local_port;
	d->active = conn->flags & TP_CONN_ACTIVE;
	d->dry_run = cfg.dry_run;
}

/* Sets what was drawn, and finds out what is in force: the arm to charge. */
static __always_inline void put_in_force(struct bpf_sock_ops *ctx, const struct tcp_sock *tp,
					 struct tp_conn *conn, __u8 wanted)
{
	__u8 arm = arm_in_force(tp);

	if (cfg.dry_run) {
		conn->flags |= TP_CONN_DRY_RUN;
	} else if (wanted < TP_MAX_ARMS && wanted != arm) {
		char name[TP_CC_NAME_MAX];

		__builtin_memcpy(name, config()->arm[wanted].name, sizeof(name));
		if (bpf_setsockopt(ctx, SOL_TCP, TCP_CONGESTION, name, sizeof(name))) {
			COUNT(trouble[TP_TROUBLE_SET_FAILED]);
			conn->why = TP_WHY_SET_FAILED;
		}
		arm = arm_in_force(tp);
	}
	conn->arm = arm;
	conn->cc_key = tp_cc_key(tp);
}

static __always_inline void remember(struct bpf_sock_ops *ctx, struct tp_conn *conn)
{
	struct bpf_sock *sk = ctx->sk;
	struct tp_conn *old;

	COUNT(connections[conn->why < TP_WHY_COUNT ? conn->why : 0]);
	if (!sk)
		return;
	old = bpf_sk_storage_get(&conns, sk, conn, BPF_SK_STORAGE_GET_F_CREATE);
	if (!old)
		COUNT(trouble[TP_TROUBLE_NO_STORAGE]);
	else if (old->opened_ns != conn->opened_ns)
		*old = *conn; /* a socket that was connected again */
}

static __always_inline void choose(struct bpf_sock_ops *ctx, const struct tcp_sock *tp,
				   struct tp_conn *conn, const struct tp_policy_config *policy)
{
	__u32 eligible = eligible_arms(tp, policy);
	struct tp_path *path = open_path(&conn->key, tp, conn->opened_ns);
	struct tp_choice choice;

	if (!path) {
		COUNT(trouble[TP_TROUBLE_NO_PATH]);
		conn->why = TP_WHY_NO_ARM;
		return;
	}
	choice = tp_choose(config(), path, eligible, bpf_get_prandom_u32());
	conn->why = choice.why;
	conn->path_born_ns = path->born_ns;
	put_in_force(ctx, tp, conn, choice.arm);
	record_decision(ctx, path, conn, cfg.dry_run ? choice.arm : conn->arm);
	path->updated_ns = conn->opened_ns;
	__sync_fetch_and_add(&path->live_flows, 1);
	__sync_fetch_and_add(&path->connections, 1);
	if (conn->arm < TP_MAX_ARMS) {
		struct tp_arm *arm = &path->arms[conn->arm];

		__sync_fetch_and_add(&arm->chosen, 1);
		__sync_fetch_and_add(&arm->unpaid, 1);
		if (choice.why == TP_WHY_GREEDY)
			__sync_fetch_and_add(&arm->greedy, 1);
	}
	conn->open = 1;
	if (bpf_sock_ops_cb_flags_set(ctx, ctx->bpf_sock_ops_cb_flags |
						   BPF_SOCK_OPS_STATE_CB_FLAG |
						   BPF_SOCK_OPS_RETRANS_CB_FLAG))
		COUNT(trouble[TP_TROUBLE_CB_FLAGS]);
}

static __always_inline void established(struct bpf_sock_ops *ctx, const struct tcp_sock *tp,
					__u8 flags)
{
	struct tp_conn conn = {.arm = TP_NO_ARM, .flags = flags};
	const struct tp_policy_config *policy;
	__u32 addr[4];
	__u8 p;

	tp_remote(ctx, addr);
	if (!cfg.manage_loopback && tp_is_loopback(addr)) {
		COUNT(connections[TP_WHY_LOOPBACK]);
		return;
	}
	conn.opened_ns = bpf_ktime_get_coarse_ns();
	p = find_policy(ctx, tp, addr);
	policy = &config()->policy[p & (TP_MAX_POLICIES - 1)];
	conn.key.netns_cookie = bpf_get_netns_cookie(ctx);
	conn.key.policy = p;
	conn.key.prefix_len = tp_prefix_len(policy, addr);
#pragma unroll
	for (int i = 0; i < 4; i++)
		conn.key.prefix[i] = addr[i] & tp_mask_word(conn.key.prefix_len, i);
	conn.why = hands_off(tp, policy);
	if (conn.why == TP_WHY_UNSEEN)
		choose(ctx, tp, &conn, policy);
	remember(ctx, &conn);
}

/* ---- a retransmission ---- */

/* Switches a connection under heavy loss; says whether it was switched. */
static __always_inline int switch_to_rescue(struct bpf_sock_ops *ctx, const struct tcp_sock *tp,
					    struct tp_conn *conn)
{
	char name[TP_CC_NAME_MAX];

	if (!config()->rescue_cc[0] || tp_cc_is(tp, config()->rescue_cc)) {
		COUNT(thin_only);
		return 0;
	}
	conn->rescue_rate = tp_sock_rate(tp);
	conn->rescue_min_rtt_us = tp_valid_rtt_us(tp->rtt_min.s[0].v);
	if (!cfg.dry_run) {
		__builtin_memcpy(name, config()->rescue_cc, sizeof(name));
		if (bpf_setsockopt(ctx, SOL_TCP, TCP_CONGESTION, name, sizeof(name))) {
			COUNT(trouble[TP_TROUBLE_SET_FAILED]);
			return 0;
		}
	}
	COUNT(rescues);
	if (!cfg.dry_run)
		conn->flags |= TP_CONN_RESCUED;
	conn->cc_key = tp_cc_key(tp);
	return 1;
}

static __always_inline void retransmitted(struct bpf_sock_ops *ctx, const struct tcp_sock *tp,
					  struct bpf_sock *sk)
{
	struct tp_conn *conn = bpf_sk_storage_get(&conns, sk, 0, 0);
	struct tp_path *path;
	int on = 1;

	if (!conn || !conn->open || (conn->flags & TP_CONN_LOSS_SEEN))
		return;
	if (!tp_loss_is_heavy(tp->total_retrans, tp->data_segs_out, cfg.loss_min_segments,
			      cfg.loss_shift))
		return;
	conn->flags |= TP_CONN_LOSS_SEEN;
	if (tp_cc_key(tp) != conn->cc_key)
		return; /* the application has chosen since */
	if (cfg.rescue_thin && !cfg.dry_run &&
	    bpf_setsockopt(ctx, SOL_TCP, TCP_THIN_LINEAR_TIMEOUTS, &on, sizeof(on)))
		COUNT(trouble[TP_TROUBLE_THIN]);
	if (!switch_to_rescue(ctx, tp, conn))
		return;
	conn->why = TP_WHY_RESCUED;
	path = bpf_map_lookup_elem(&paths, &conn->key);
	if (!path)
		return;
	record_decision(ctx, path, conn, conn->arm);
	if (conn->arm < TP_MAX_ARMS)
		__sync_fetch_and_add(&path->arms[conn->arm].rescued, 1);
}

/* ---- the end ---- */

#define TRIES 64

static __always_inline int take(struct tp_path *path)
{
	for (int i = 0; i < TRIES; i++)
		if (!__sync_val_compare_and_swap(&path->busy, 0, 1))
			return 1;
	COUNT(trouble[TP_TROUBLE_CONTENDED]);
	return 0;
}

static __always_inline void release(struct tp_path *path)
{
	__sync_lock_test_and_set(&path->busy, 0);
}

/* The path's entry again, or a new one where it was evicted meanwhile. */
static __always_inline struct tp_path *closing_path(const struct tp_conn *conn,
						    const struct tcp_sock *tp, __u64 now_ns)
{
	struct tp_path *path = open_path(&conn->key, tp, now_ns);

	if (!path) {
		COUNT(trouble[TP_TROUBLE_NO_PATH]);
		return 0;
	}
	if (path->born_ns == conn->path_born_ns)
		__sync_fetch_and_add(&path->live_flows, -1);
	else
		COUNT(trouble[TP_TROUBLE_EVICTED]);
	return path;
}

static __always_inline void learn(const struct tcp_sock *tp, const struct tp_conn *conn,
				  struct tp_path *path, __u64 now_ns)
{
	int failed = tp_timed_out(tp);
	int tells = failed || tp->bytes_acked >= cfg.min_flow_bytes;
	int rescued = conn->flags & TP_CONN_RESCUED;
	struct tp_sample s;

	tp_measure(tp, &s);
	if (!take(path))
		return;
	path->updated_ns = now_ns;
	tp_learn_path(config(), path, &s, now_ns);
	if (tells) {
		path->instances++;
		/* Only what the arm did itself: not what came after the
		 * application's own change, nor after a rescue. */
		if (conn->arm < TP_MAX_ARMS && tp_cc_key(tp) == conn->cc_key && s.min_rtt_us &&
		    tp_learn_arm(config(), path, &path->arms[conn->arm],
				 rescued ? conn->rescue_rate : s.delivery_rate,
				 rescued ? conn->rescue_min_rtt_us : s.min_rtt_us, failed, now_ns))
			COUNT(charged);
	}
	release(path);
}

static __always_inline void closed(struct bpf_sock_ops *ctx, const struct tcp_sock *tp,
				   struct bpf_sock *sk)
{
	struct tp_conn *conn = bpf_sk_storage_get(&conns, sk, 0, 0);
	struct tp_path *path;
	__u64 now_ns;

	if (!conn || !conn->open)
		return;
	conn->open = 0;
	COUNT(closed);
	now_ns = bpf_ktime_get_coarse_ns();
	path = closing_path(conn, tp, now_ns);
	if (path)
		learn(tp, conn, path, now_ns);
}

SEC("sockops")
int tcpilot(struct bpf_sock_ops *ctx)
{
	__u32 op = ctx->op;
	struct tcp_sock *tp;
	struct bpf_sock *sk;

	switch (op) {
	case BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB:
	case BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB:
	case BPF_SOCK_OPS_RETRANS_CB:
		break;
	case BPF_SOCK_OPS_STATE_CB:
		if (ctx->args[1] == BPF_TCP_CLOSE)
			break;
		return 1;
	default:
		return 1;
	}
	sk = ctx->sk;
	if (cfg.abi_version != TP_ABI_VERSION || !sk)
		return 1;
	tp = bpf_skc_to_tcp_sock(sk);
	if (!tp)
		return 1;
	if (op == BPF_SOCK_OPS_RETRANS_CB)
		retransmitted(ctx, tp, sk);
	else if (op == BPF_SOCK_OPS_STATE_CB)
		closed(ctx, tp, sk);
	else
		established(ctx, tp,
			    op == BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB ? TP_CONN_ACTIVE : 0);
	return 1;
}

#include "flows.h"
