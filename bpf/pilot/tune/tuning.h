/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tuning.h - the tunings of a connection: those in force, and functions shared by
 * several of its moments.  syn.h sets tunings before a connection is established,
 * open.h when it is, follow.h undoes them in time, end.h judges them.
 */
#ifndef TCPILOT_PILOT_TUNE_TUNING_H
#define TCPILOT_PILOT_TUNE_TUNING_H

#include "../../core/tune/tune.h"
#include "../../core/bits.h"
#include "../act.h"
#include "../socket.h"
#include "../state.h"

/* Tunings to set once a connection is established. */
#define TUNES_ESTABLISHED                                                                          \
	(1 << TP_TUNE_IW | 1 << TP_TUNE_RTO | 1 << TP_TUNE_QUICK_ACK | 1 << TP_TUNE_RATE_LIMIT)
#define TUNES_MET_LOWERED (1 << TP_TUNE_COUNT) /* some path's receive window is lowered */

/* Tunings for which SYNs are checked: some path has them on, and recently
 * had something to set.  For the RTO: a packet was lost recently. */
__u32 tunes_met;

/* A connection's tunings: its path's state, the settings there, and the tunings
 * that are withheld from this connection (tp_hold_out). */
struct tuning {
	struct tp_tuned *known; /* 0: it has no tunings */
	const struct tp_tuning *settings;
	__u32 withheld;
};

static __always_inline const struct tp_tuning *tuning_of(__u32 policy, __u32 net)
{
	return &config()->tuning[tp_within(policy, TP_MAX_POLICIES)][tp_within(net, TP_NETS)];
}

/* A path's state for the tunings; empty if the path has just taken the slot. */
static __always_inline struct tp_tuned *tuned_of(const struct tp_path *path, __u32 slot)
{
	struct tp_tuned *t = bpf_map_lookup_elem(&tuned, &slot);

	if (t && t->born_ns != path->born_ns) {
		__builtin_memset(t, 0, sizeof(*t));
		t->born_ns = path->born_ns;
	}
	return t;
}

static __always_inline __u32 withheld_from(const struct tp_tuning *g, __u16 local, __u16 remote)
{
	return tp_hold_out((__u32)local << 16 | remote, (__u32)cfg.hold_out_seed,
			   g->hold_out_shift);
}

static __always_inline struct tuning find_tuning(const struct tp_path *path, __u32 slot,
						 __u32 policy, __u16 local, __u16 remote)
{
	struct tuning t = {.known = tuned_of(path, slot)};

	if (t.known) {
		t.settings = tuning_of(policy, t.known->net);
		t.withheld = withheld_from(t.settings, local, remote);
	}
	return t;
}

static __always_inline int is_on(const struct tuning *t, __u32 tune)
{
	return (t->settings->features & ~t->known->off) >> tune & 1 &&
	       !tp_is_withheld(t->withheld, tune);
}

/* The kernel takes no timer of less than two ticks. */
static __always_inline __u32 at_least_two_ticks(__u32 us)
{
	return ticks_per_s ? (__u32)tp_max64(us, 2000000 / ticks_per_s) : us;
}

/* The kernel's least RTO, and its longest delay of an acknowledgement: 200 ms, in ticks. */
#define KERNELS_TICKS (ticks_per_s / 5)

static __always_inline int has_short_timer(const struct tcp_sock *tp)
{
	return tp->inet_conn.icsk_rto_min < KERNELS_TICKS;
}

static __always_inline int has_linear_timeouts(const struct tcp_sock *tp)
{
	return BPF_CORE_READ_BITFIELD(tp, thin_lto);
}

static __always_inline int is_used(const struct tp_path *path, enum tp_use use)
{
	return !tp_is_unused(path->used[use], path->connections);
}

static __always_inline void meet(__u32 features)
{
	if (features & ~tunes_met)
		__sync_fetch_and_or(&tunes_met, features);
}

static __always_inline void forget(__u32 features)
{
	__sync_fetch_and_and(&tunes_met, ~features);
}

/* Timers are shortened only while they fire: as long as some connection lost a
 * packet within the learner's window. */
static __always_inline void note_loss(void)
{
	__u64 now_ns = bpf_ktime_get_coarse_ns();

	if (last_loss_ns != now_ns) /* once per tick: others read it */
		last_loss_ns = now_ns;
	meet(1 << TP_TUNE_RTO);
}

static __always_inline int is_lossy_time(void)
{
	if (!(tunes_met & 1 << TP_TUNE_RTO))
		return 0;
	if (bpf_ktime_get_coarse_ns() - last_loss_ns < cfg.window_ns)
		return 1;
	forget(1 << TP_TUNE_RTO);
	return 0;
}

/* Whether the tunings need not learn from a small connection: none was recently
 * of use on its path, and it is not one in 64. */
static __always_inline int is_quiet(const struct tp_path *path)
{
	__u32 asks = cfg.tunes & (TUNES_ESTABLISHED | 1 << TP_TUNE_RWND) & ~path->skips;

	if (!(path->connections & 63))
		return 0;
	return !(asks & ~(1 << TP_TUNE_RTO)) && !(asks && is_lossy_time());
}

static __always_inline void count_set(struct tp_tuned *t, __u32 tune)
{
	COUNT(tuned[tp_within(tune, TP_TUNES)]);
	__sync_fetch_and_add(&t->set[tp_within(tune, TP_TUNES)], 1);
}

/* The unexpired halves of a maximum of this path. */
static __always_inline __u32 window_now(const struct tp_tuned *t, const struct tp_window32 *w,
					__u64 now_ns)
{
	__u32 age = tp_epoch(now_ns, cfg.ssthresh_window_ns) - t->epoch;

	if (age == 0)
		return tp_window_max32(w);
	return age == 1 ? w->current : 0;
}

static __always_inline __u32 saved_window(const struct tp_tuned *t, __u64 now_ns)
{
	return window_now(t, &t->saved_packets, now_ns);
}

/* On connect it is set at the SYN, and the kernel takes it into its variation with
 * the first measurement of the RTT.  On accept the kernel has measured before any
 * program runs, and its 200 ms fade by a quarter per round trip. */
static __always_inline void tune_min_rto(hands_t *hands, const struct tp_path *path,
					 const struct tuning *t)
{
	__u32 rto_us = tp_min_rto_us(path->srtt_us, t->known->rttvar_us, t->settings->rto_floor_us);

	if (!rto_us || !t->known->rttvar_us)
		return;
	rto_us = at_least_two_ticks(rto_us);
	if (!set_option(hands, SOL_TCP, TCP_BPF_RTO_MIN, rto_us, TP_TUNE_RTO))
		return;
	t->known->rto_min_us = rto_us;
	count_set(t->known, TP_TUNE_RTO);
}

/* If a policer is known, paces the connection at the policer's rate; says whether
 * that was set.  An application's own bound stays. */
static __always_inline int pace_as_policed(hands_t *hands, const struct tcp_sock *tp,
					   struct tp_tuned *t)
{
	if (!t->limit_rate || bpf_ktime_get_coarse_ns() > t->limit_until_ns ||
	    (__u32)tp_sock_of(tp)->sk_max_pacing_rate != NO_PACING ||
	    !set_option(hands, SOL_SOCKET, SO_MAX_PACING_RATE, (__u32)t->limit_rate,
			TP_TUNE_RATE_LIMIT))
		return 0;
	count_set(t, TP_TUNE_RATE_LIMIT);
	return !cfg.dry_run;
}

#endif
