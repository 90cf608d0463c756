// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * sockops.bpf.c - chooses a congestion control per path, and reports the result.
 *
 * A sockops program on a cgroup: the front end, which turns the kernel's events into
 * visits (visit.h) and hands them to the moments of a connection:
 *
 *  - established, by connect or accept (choose.h): is it ours to touch?  Which policy and
 *    place is it on?  Draw an arm by the nearest distribution, set it, read back what is in force.
 *  - a retransmission (rescue.h): lasting loss may switch the connection.
 *  - the transition to CLOSE (report.h): send a record to the daemon.
 *
 * A learner writes the choice distributions: thompson in the daemon, from the records,
 * or epsilon-greedy here (greedy.h).
 *
 * If a policy has tunings on, they are set at the SYN (tune/syn.h) and at the
 * establishment (tune/open.h), and followed by one callback per round trip
 * (tune/follow.h).  They need measures of the path (tune/path.h).
 *
 * Other events return at once.  Cost decides the shape: most connections are short, and
 * nothing is allocated for them.
 */
#include "ack_priority.h"
#include "act.h"
#include "choose.h"
#include "greedy.h"
#include "list.h"
#include "move.h"
#include "netns_end.h"
#include "orders.h"
#include "report.h"
#include "rescue.h"
#include "sample.h"
#include "state.h"
#include "trial.h"
#include "tune/follow.h"
#include "tune/open.h"
#include "tune/path.h"
#include "tune/syn.h"
#include "visit.h"

char _license[] SEC("license") = "GPL";

/*
 * The events.  Each is a function of its own, apart from the entry.  The entry runs for every
 * event and should save no registers, so its calls stand at its end.  The frames are separate:
 * functions that call each other share the 512 bytes of a stack.
 */
struct opened_path {
	__u32 slot;
	__u32 policy;
	__u32 has_to_tune;
};

/* o: 0 if no policy has a tuning on. */
__noinline int opened(struct bpf_sock_ops *ctx, __u32 flags, struct opened_path *o)
{
	struct tp_path_key key = {};
	struct visit v = begin_visit(ctx, &key);

	v.flags = (__u8)flags;
	if (v.tp && v.sk)
		established(&v);
	if (!cfg.tunes || !o || !v.path || !has_to_tune(&v))
		return 1;
	o->slot = v.slot;
	o->policy = key.policy;
	o->has_to_tune = 1;
	return 1;
}

static __noinline __u32 opened_tuned(struct bpf_sock_ops *ctx, __u32 flags)
{
	struct opened_path o = {};

	opened(ctx, flags, &o);
	if (o.has_to_tune)
		tune_established(ctx, o.slot, o.policy, flags);
	return 1;
}

static __always_inline __u32 lost_by(struct bpf_sock_ops *ctx, const int whole)
{
	if (is_held_out(ctx)) {
		judge_loss(ctx); /* counts its bouts */
		return 1;
	}
	if (whole && cfg.tunes)
		tune_loss(ctx);
	return judged_loss(ctx, whole);
}

static __noinline __u32 lost(struct bpf_sock_ops *ctx)
{
	return lost_by(ctx, 0);
}

static __noinline __u32 lost_whole(struct bpf_sock_ops *ctx)
{
	return lost_by(ctx, 1);
}

static __noinline __u32 ended_path(struct bpf_sock_ops *ctx, __u32 to)
{
	struct tp_path_key key = {};
	struct visit v = begin_visit(ctx, &key);

	if (v.tp && v.sk && (to == BPF_TCP_CLOSE || tp_is_idle(v.tp) || tp_is_filled(v.tp)))
		closed(&v, to);
	return 1;
}

static __always_inline __u32 ended_by(struct bpf_sock_ops *ctx, const int whole)
{
	struct visit v;

	if (!is_taken_up(ctx))
		return 1;
	v = begin_visit(ctx, 0);
	if (v.tp && v.sk)
		emit_end(&v, whole);
	return whole && cfg.tunes ? ended_path(ctx, BPF_TCP_CLOSE) : 1;
}

static __noinline __u32 ended(struct bpf_sock_ops *ctx)
{
	return ended_by(ctx, 0);
}

static __noinline __u32 ended_whole(struct bpf_sock_ops *ctx)
{
	return ended_by(ctx, 1);
}

/* A FIN is sent, and a policy has a tuning on or the programs learn. */
static __noinline __u32 ending(struct bpf_sock_ops *ctx, __u32 to)
{
	if (!is_taken_up(ctx))
		return 1;
	if (learns_here())
		keep_fin_rate(ctx);
	return cfg.tunes ? ended_path(ctx, to) : 1;
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

/* Whether it goes to CLOSE.  A socket that connects again has callbacks already: if that fails,
 * no connection ends that was taken up. */
static __always_inline int is_close(struct bpf_sock_ops *ctx, __u32 to)
{
	return to == BPF_TCP_CLOSE && ctx->args[0] != BPF_TCP_SYN_SENT;
}

/* Whether it sends a FIN after enough data to learn from. */
static __always_inline int is_fin(struct bpf_sock_ops *ctx, __u32 to)
{
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

/* Events that only a tuning asks for, or uses, as bits: one test ends the program for the others.
 */
#define TUNE_EVENTS                                                                                \
	(1U << BPF_SOCK_OPS_RTT_CB | 1U << BPF_SOCK_OPS_TIMEOUT_INIT | 1U << BPF_SOCK_OPS_RWND_INIT)

static __always_inline int event(struct bpf_sock_ops *ctx, const int whole)
{
	__u32 op = ctx->op;

	/* the most frequent events first, without loading a setting */
	if (op == BPF_SOCK_OPS_STATE_CB) {
		__u32 to = ctx->args[1];

		if (is_close(ctx, to))
			return (whole ? ended_whole(ctx) : ended(ctx)) & 1;
		return whole && cfg.follows_fins && is_fin(ctx, to) ? ending(ctx, to) & 1 : 1;
	}
	if (op - BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB <= 1) {
		__u32 flags = op == BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB ? TP_CONN_ACTIVE : 0;

		return (whole && cfg.tunes ? opened_tuned(ctx, flags) : opened(ctx, flags, 0)) & 1;
	}
	if (op == BPF_SOCK_OPS_RETRANS_CB)
		return (whole ? lost_whole(ctx) : lost(ctx)) & 1;
	if (!whole || !cfg.tunes || !(TUNE_EVENTS >> (op & 31) & 1))
		return 1;
	return is_tuned_now(op) ? tune_event(ctx, op) & 1 : 1;
}

/*
 * Two programs of the same code, of which the daemon loads one.  The whole one can do what a tuning
 * asks for, and learn.  The other one cannot, and has half of its instructions: the kernel takes
 * its time at a start for each, even for those that a setting excludes.
 */
SEC("sockops")
int tcpilot(struct bpf_sock_ops *ctx)
{
	return event(ctx, 0);
}

SEC("sockops")
int tcpilot_whole(struct bpf_sock_ops *ctx)
{
	return event(ctx, 1);
}
