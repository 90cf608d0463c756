/* SPDX-License-Identifier: GPL-2.0-or-later */
/* bbr.c - the proofs of bpf/cc/bbr.bpf.c. */
#include "model.h"
/* Declared before their first call, so that the solver knows their types. */
struct tp_bbr;
struct tp_bbr_conn;
static __u32 contract_bbr_inflight(const struct tp_bbr *b, const struct tp_bbr_conn *c, __u32 gain);
static __u32 contract_bbr_in_net(const struct tp_bbr *b, const struct tp_bbr_conn *c,
				 __u32 in_flight);

#include "cc/bbr.h"

/* In a proof of their own: the cycle asks for them often. */
static __u32 contract_bbr_inflight(const struct tp_bbr *b, const struct tp_bbr_conn *c, __u32 gain)
{
	return any_bits(31);
}

static __u32 contract_bbr_in_net(const struct tp_bbr *b, const struct tp_bbr_conn *c,
				 __u32 in_flight)
{
	return any_bits(CWND_BITS + 1);
}

static struct tp_max any_max(void)
{
	struct tp_max m = {{any_bw(), any_bw(), any_bw()},
			   {any_bits(31), any_bits(31), any_bits(31)}};

	return m;
}

static struct tp_bbr any_state(void)
{
	struct tp_bbr b = {
	    .bw = any_max(),
	    .min_rtt_us = any_path_rtt_us(),
	    .min_rtt_ms = any_bits(32),
	    .probe_rtt_done_ms = any_bits(32),
	    .round_end = any_bits(32),
	    .rounds = any_bits(COUNT_BITS),
	    .cycle_us = any_bits(32),
	    .prior_cwnd = any_packets(),
	    .full_bw = any_bw(),
	    .lt_bw = any_bw(),
	    .lt_delivered = any_bits(32),
	    .lt_lost = any_bits(32),
	    .lt_ms = any_bits(32),
	    .epoch_us = any_bits(32),
	    .epoch_acked = any_bits(20),
	    .limited_until = any_bits(32),
	    .extra_now = any_bits(16),
	    .extra_before = any_bits(16),
	    .extra_rounds = any_bits(2),
	    .mode = any_bits(2),
	    .cycle = any_bits(3),
	    .full_count = any_bits(2),
	    .lt_rounds = any_bits(5),
	    .prev_state = any_bits(3),
	    .full = any_bits(1),
	    .round_start = any_bits(1),
	    .conserve = any_bits(1),
	    .idle_restart = any_bits(1),
	    .seen_rtt = any_bits(1),
	    .probe_rtt_round = any_bits(1),
	    .lt_sampling = any_bits(1),
	    .lt_use = any_bits(1),
	};

	if (any_bits(1))
		b.min_rtt_us = ~0U; /* none yet */
	return b;
}

void prove_contract_inflight(void)
{
	any_path();
	struct tp_bbr b = any_state();
	struct tp_bbr_conn c = any_conn();

	__CPROVER_assert(bbr_inflight(&b, &c, bbr_pacing_gain(&b)) >> 31 == 0, "state: packets");
	__CPROVER_assert(bbr_in_net(&b, &c, c.in_flight) >> (CWND_BITS + 1) == 0, "state: packets");
}

void prove_contract_burst(void)
{
	__u32 burst = tp_burst(any_bits(63), any_bits(32), any_bits(MSS_BITS));

	__CPROVER_assert(burst >= 1 && burst <= TP_BURST_MAX, "state: a burst");
}

void prove_window(void)
{
	any_path();
	struct tp_bbr b = any_state();
	struct tp_bbr_conn before = any_conn(), c = before;

	bbr_set_cwnd(&b, &c);
	/* in recovery the draft conserves packets, and leaves 1 at least (section 4.2.3.4) */
	__CPROVER_assert(c.cwnd >= TP_CWND_MIN || b.conserve || before.cwnd < TP_CWND_MIN,
			 "cwnd: at least 2");
	__CPROVER_assert(c.cwnd >= 1, "cwnd: at least 1");
}

void prove_pacing(void)
{
	any_path();
	struct tp_bbr b = any_state();
	struct tp_bbr_conn c = any_conn();

	bbr_set_pacing(&b, &c, bbr_pacing_gain(&b));
}

void prove_model(void)
{
	any_path();
	struct tp_bbr b = any_state();
	struct tp_bbr_conn c = any_conn();

	/* the interval of a policer is one of the same path */
	__u64 delivered = (__u32)(c.delivered - b.lt_delivered);
	__u64 interval_us = (__u32)(bbr_now_ms(&c) - b.lt_ms) * 1000ULL;

	__CPROVER_assume(delivered << TP_BW_SHIFT >> (bw_bits - 2) < interval_us);
	bbr_update_bw(&b, &c);
	__CPROVER_assert((__u64)tp_max_value(&b.bw) >> bw_bits == 0,
			 "state: bandwidth of the path");
	__CPROVER_assert((__u64)b.lt_bw >> bw_bits == 0, "state: bandwidth of the path");
}

void prove_aggregation(void)
{
	any_path();
	struct tp_bbr b = any_state();
	struct tp_bbr_conn c = any_conn();

	bbr_update_extra_acked(&b, &c);
	__CPROVER_assert(b.epoch_acked <= BBR_EPOCH_MAX, "state: packets of the epoch");
}

void prove_cycle(void)
{
	any_path();
	struct tp_bbr b = any_state();
	struct tp_bbr_conn c = any_conn();

	bbr_update_cycle(&b, &c);
	bbr_check_full(&b, &c);
	bbr_check_drain(&b, &c);
}

void prove_probe_rtt(void)
{
	any_path();
	struct tp_bbr b = any_state();
	struct tp_bbr_conn before = any_conn(), c = before;

	bbr_update_min_rtt(&b, &c);
	check_conn(&before, &c);
}

void prove_timeout(void)
{
	any_path();
	struct tp_bbr b = any_state();
	struct tp_bbr_conn before = any_conn(), c = before;

	bbr_save_cwnd(&b, c.cwnd);
	bbr_timeout(&b, &c);
	bbr_undo(&b, &c);
	check_conn(&before, &c);
}

void prove_restart(void)
{
	any_path();
	struct tp_bbr b = any_state();
	struct tp_bbr_conn before = any_conn(), c = before;

	bbr_restart(&b, &c);
	check_conn(&before, &c);
}
