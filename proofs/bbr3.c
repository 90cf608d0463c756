/* SPDX-License-Identifier: GPL-2.0-or-later */
/* bbr3.c - the proofs of bpf/cc/bbr3.bpf.c. */
#include "model.h"
#include "cc/bbr3.h"

/* BBR3_NONE, or a window. */
static __u32 any_bound(void)
{
	return any_bits(1) ? any_packets() : BBR3_NONE;
}

static struct tp_bbr3 any_state(void)
{
	struct tp_bbr3 b = {
	    .bw_now = any_bw(),
	    .bw_before = any_bw(),
	    .bw_short = any_bits(1) ? any_bw() : BBR3_NONE,
	    .inflight_short = any_bound(),
	    .inflight_long = any_bound(),
	    .bw_latest = any_bw(),
	    .inflight_latest = any_bits(CWND_BITS),
	    .min_rtt_us = any_bits(1) ? any_path_rtt_us() : BBR3_NONE,
	    .min_rtt_ms = any_bits(32),
	    .probe_us = any_bits(1) ? any_path_rtt_us() : BBR3_NONE,
	    .probe_ms = any_bits(32),
	    .probe_done_ms = any_bits(32),
	    .round_end = any_bits(32),
	    .cycle_us = any_bits(32),
	    .prior_cwnd = any_packets(),
	    .full_bw = any_bw(),
	    .up_per = any_bound(),
	    .up_acked = any_bits(CWND_BITS),
	    .limited_until = any_bits(32),
	    .epoch_us = any_bits(32),
	    .epoch_acked = any_bits(20),
	    .extra_now = any_bits(16),
	    .extra_before = any_bits(16),
	    .round_lost = any_bits(16),
	    .wait_ms = any_bits(12),
	    .mode = any_bits(3),
	    .full_count = any_bits(2),
	    .loss_acks = any_bits(8),
	    .up_rounds = any_bits(5),
	    .rounds_since = any_bits(8),
	    .prev_state = any_bits(3),
	    .extra_rounds = any_bits(2),
	    .full = any_bits(1),
	    .full_now = any_bits(1),
	    .round_start = any_bits(1),
	    .conserve = any_bits(1),
	    .seen_rtt = any_bits(1),
	    .idle_restart = any_bits(1),
	    .loss_in_round = any_bits(1),
	    .probe_round = any_bits(1),
	    .stopping = any_bits(1),
	    .probe_sample = any_bits(1),
	    .too_high = any_bits(1),
	    .precautionary = any_bits(1),
	    .undo_startup = any_bits(1),
	    .undo_up = any_bits(1),
	};

	__CPROVER_assume(b.mode <= BBR3_PROBE_RTT && b.up_rounds <= 30);
	return b;
}

void prove_window(void)
{
	any_path();
	struct tp_bbr3 b = any_state();
	struct tp_bbr_conn before = any_conn(), c = before;

	bbr3_set_cwnd(&b, &c);
	check_conn(&before, &c);
}

void prove_pacing(void)
{
	any_path();
	struct tp_bbr3 b = any_state();
	struct tp_bbr_conn c = any_conn();

	bbr3_set_pacing(&b, &c, bbr3_pacing_gain(&b));
}

void prove_model(void)
{
	any_path();
	struct tp_bbr3 b = any_state();
	struct tp_bbr_conn c = any_conn();

	bbr3_update_model(&b, &c);
	__CPROVER_assert((__u64)bbr3_max_bw(&b) >> bw_bits == 0, "state: bandwidth of the path");
	bbr3_end_round(&b, &c);
}

void prove_aggregation(void)
{
	any_path();
	struct tp_bbr3 b = any_state();
	struct tp_bbr_conn c = any_conn();

	bbr3_update_extra_acked(&b, &c);
	__CPROVER_assert(b.epoch_acked <= BBR3_EPOCH_MAX, "state: packets of the epoch");
}

void prove_cycle(void)
{
	any_path();
	struct tp_bbr3 b = any_state();
	struct tp_bbr_conn c = any_conn();

	bbr3_check_full(&b, &c);
	bbr3_check_startup(&b, &c);
	bbr3_update_cycle(&b, &c);
}

void prove_probe_rtt(void)
{
	any_path();
	struct tp_bbr3 b = any_state();
	struct tp_bbr_conn before = any_conn(), c = before;

	bbr3_update_min_rtt(&b, &c);
	check_conn(&before, &c);
}

void prove_undo(void)
{
	any_path();
	struct tp_bbr3 b = any_state();
	struct tp_bbr_conn before = any_conn(), c = before;
	struct tp_bbr3_undo u;

	bbr3_save(&b, &u, c.cwnd);
	bbr3_timeout(&b);
	bbr3_undo(&b, &c, &u);
	check_conn(&before, &c);
}

void prove_restart(void)
{
	any_path();
	struct tp_bbr3 b = any_state();
	struct tp_bbr_conn before = any_conn(), c = before;

	bbr3_restart(&b, &c);
	check_conn(&before, &c);
}
