// SPDX-License-Identifier: GPL-2.0-only
/*
 * sockops.bpf.c - chooses a congestion control per path, and learns from it.
 *
 * A sockops program on a cgroup: the front end, which turns the kernel's events into
 * visits (visit.h) and hands them to the moments of a connection:
 *
 *  - established, by connect or accept (open.h): is it ours to touch?  Which policy and
 *    path is it on?  Draw one of the eligible arms, set it, read back what is in force.
 *  - a retransmission (loss.h): under heavy loss the connection is rescued, once.
 *  - the transition to CLOSE (end.h): measure, update path and arm.
 *
 * If a policy has tunings on, they are set at the SYN (tune/syn.h) and at the
 * establishment (tune/open.h), and followed by one callback per round trip
 * (tune/follow.h).
 *
 * Other events return at once.  Cost decides the shape: most connections are short and keep
 * their default, and nothing is allocated for them.  Choosing only reads a path.  Learning
 * takes its busy flag; after 64 failed tries it drops the sample, and counts that.
 */
#include "ack_priority.h"
#include "act.h"
#include "end.h"
#include "list.h"
#include "loss.h"
#include "move.h"
#include "open.h"
#include "orders.h"
#include "rescue.h"
#include "sample.h"
#include "state.h"
#include "thompson.h"
#include "trial.h"
#include "tune/follow.h"
#include "tune/open.h"
#include "tune/syn.h"
#include "visit.h"

char _license[] SEC("license") = "GPL";

/*
 * The events.  Each is a function of its own, apart from the entry.  The entry runs for every
 * event and should save no registers, so its calls stand at its end.
 */
static __noinline __u32 opened(struct bpf_sock_ops *ctx, __u32 flags)
{
	struct tp_path_key key = {};
	struct visit v = begin_visit(ctx, &key);

	v.flags = (__u8)flags;
	if (v.tp && v.sk)
		established(&v);
	return 1;
}

static __noinline __u32 opened_tuned(struct bpf_sock_ops *ctx, __u32 flags)
{
	struct tp_path_key key = {};
	struct visit v = begin_visit(ctx, &key);

	v.flags = (__u8)flags;
	if (v.tp && v.sk)
		established(&v);
	if (v.path && has_to_tune(&v))
		tune_established(ctx, v.slot, key.policy, flags);
	return 1;
}

/* With the learner in the daemon (thompson.h), as the functions with drawn and told below.  The
 * frames are separate: functions that call each other share the 512 bytes of a stack. */
struct opening {
	__u32 slot;
	__u32 policy;
	__u32 has_to_tune;
};

/* o: 0 if no policy has a tuning on. */
static __noinline __u32 opened_drawn(struct bpf_sock_ops *ctx, __u32 flags, struct opening *o)
{
	struct tp_path_key key = {};
	struct visit v = begin_visit(ctx, &key);

	v.flags = (__u8)flags;
	if (v.tp && v.sk)
		established_drawn(&v);
	if (!cfg.tunes || !o || !v.path || !has_to_tune(&v))
		return 1;
	o->slot = v.slot;
	o->policy = key.policy;
	o->has_to_tune = 1;
	return 1;
}

static __noinline __u32 lost(struct bpf_sock_ops *ctx)
{
	struct tp_path_key key = {};
	struct visit v = begin_visit(ctx, &key);

	if (v.tp && v.sk && is_taken_up(ctx))
		retransmitted(&v);
	return 1;
}

static __noinline __u32 lost_tuned(struct bpf_sock_ops *ctx)
{
	tune_loss(ctx);
	return lost(ctx);
}

static __noinline __u32 ended_path(struct bpf_sock_ops *ctx, __u32 to)
{
	struct tp_path_key key = {};
	struct visit v = begin_visit(ctx, &key);

	if (v.tp && v.sk && (to == BPF_TCP_CLOSE || tp_is_idle(v.tp) || tp_is_filled(v.tp)))
		closed(&v, to);
	return 1;
}

static __noinline __u32 ended(struct bpf_sock_ops *ctx, __u32 to)
{
	return is_taken_up(ctx) ? ended_path(ctx, to) : 1;
}

static __noinline __u32 told_end(struct bpf_sock_ops *ctx)
{
	struct tp_path_key key = {};
	struct visit v;

	if (!is_taken_up(ctx))
		return 1;
	v = begin_visit(ctx, &key);
	if (v.tp && v.sk)
		tell_end(&v);
	return 1;
}

static __noinline __u32 tune_event(struct bpf_sock_ops *ctx, __u32 op)
{
	if (cfg.abi_version != TP_ABI_VERSION)
		return 1;
	if (op == BPF_SOCK_OPS_RTT_CB)
		tune_round_trip(ctx);
	else if (op == BPF_SOCK_OPS_TIMEOUT_INIT)
		timeout_asked(ctx, !ctx->is_fullsock);
	else
		window_is_asked(ctx, !ctx->is_fullsock);
	return 1;
}

/* Whether it goes to CLOSE, or sends a FIN after enough data to learn from.  A socket that
 * connects again has callbacks already: if that fails, no connection ends that was taken up. */
static __always_inline int is_end(struct bpf_sock_ops *ctx, __u32 to)
{
	if (to == BPF_TCP_CLOSE)
		return ctx->args[0] != BPF_TCP_SYN_SENT;
	return (to == BPF_TCP_FIN_WAIT1 || to == BPF_TCP_LAST_ACK) &&
	       ctx->bytes_acked >= cfg.min_flow_bytes;
}

/* Whether it is a SYN, and something may be set at one, or a round trip. */
static __always_inline int is_tuned_now(__u32 op)
{
	return tunes_met || op == BPF_SOCK_OPS_RTT_CB;
}

_Static_assert(BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB == BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB + 1,
	       "one comparison finds both");

/* Events as bits: one test ends the program for most of them, which we do not need. */
#define EVENTS                                                                                     \
	(1U << BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB | 1U << BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB |    \
	 1U << BPF_SOCK_OPS_RETRANS_CB | 1U << BPF_SOCK_OPS_STATE_CB)
/* Events that only a tuning asks for, or uses. */
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

/* The three below do more if tunings are on; without, the entry saves a call. */
static __noinline __u32 opening_drawn(struct bpf_sock_ops *ctx, __u32 flags)
{
	struct opening o = {};

	opened_drawn(ctx, flags, &o);
	if (o.has_to_tune)
		tune_established(ctx, o.slot, o.policy, flags);
	return 1;
}

static __noinline __u32 rescue_drawn(struct bpf_sock_ops *ctx)
{
	if (is_held_out(ctx))
		return 1;
	if (cfg.tunes)
		tune_loss(ctx);
	return lost_drawn(ctx);
}

static __noinline __u32 ending_drawn(struct bpf_sock_ops *ctx, __u32 to)
{
	if (to == BPF_TCP_CLOSE)
		told_end(ctx);
	return ended(ctx, to); /* for the path, if there is one */
}

/* The same with the learner in the daemon.  It is a program of its own: the daemon loads one of
 * the two, and neither pays for the other. */
SEC("sockops")
int tcpilot_drawn(struct bpf_sock_ops *ctx)
{
	__u32 op = ctx->op;

	/* the most frequent events first, and none that would load a setting */
	if (op == BPF_SOCK_OPS_STATE_CB) {
		if (cfg.tunes)
			return is_end(ctx, ctx->args[1]) ? ending_drawn(ctx, ctx->args[1]) & 1 : 1;
		if (ctx->args[1] != BPF_TCP_CLOSE)
			return 1; /* only a path's measures need a FIN */
		return is_end(ctx, BPF_TCP_CLOSE) ? told_end(ctx) & 1 : 1;
	}
	if (op - BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB <= 1) {
		__u32 flags = op == BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB ? TP_CONN_ACTIVE : 0;

		return (cfg.tunes ? opening_drawn(ctx, flags) : opened_drawn(ctx, flags, 0)) & 1;
	}
	if (op == BPF_SOCK_OPS_RETRANS_CB)
		return rescue_drawn(ctx) & 1;
	if (!cfg.tunes || !(TUNE_EVENTS >> (op & 31) & 1))
		return 1;
	return is_tuned_now(op) ? tune_event(ctx, op) & 1 : 1;
}
