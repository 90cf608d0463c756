/* SPDX-License-Identifier: GPL-2.0-or-later */
/* htcp.c - the proofs of bpf/cc/htcp.bpf.c. */
#include "ranges.h"
#include "cc/htcp.h"

/* The longest RTT, also the one that an undo restores, is the shortest at least; 0 is none. */
static int rtts_hold(const struct tp_htcp *h)
{
	if (!h->min_rtt_us)
		return !h->max_rtt_us && !h->undo_max_rtt_us;
	return (!h->max_rtt_us || h->max_rtt_us >= h->min_rtt_us) &&
	       (!h->undo_max_rtt_us || h->undo_max_rtt_us >= h->min_rtt_us);
}

static struct tp_htcp any_state(void)
{
	struct tp_htcp h = {
	    .alpha = any_bits(27),
	    .beta = any_bits(7),
	    .min_rtt_us = any_rtt_us(),
	    .max_rtt_us = any_rtt_us(),
	    .congested_ms = any_bits(32),
	    .rate = any_bits(31),
	    .rate_most = any_bits(31),
	    .rate_before = any_bits(31),
	    .packets = any_bits(CWND_BITS),
	    .since_ms = any_bits(32),
	    .undo_congested_ms = any_bits(32),
	    .undo_max_rtt_us = any_rtt_us(),
	    .undo_rate = any_bits(31),
	    .adaptive = any_bits(1),
	    .may_undo = any_bits(1),
	    .rest = any_bits(CWND_BITS + HTCP_SHIFT),
	};

	__CPROVER_assume(rtts_hold(&h));
	__CPROVER_assume(h.alpha >= 1 && h.beta >= HTCP_BETA_MIN && h.beta <= HTCP_BETA_MAX);
	return h;
}

void prove_ack(void)
{
	struct tp_htcp h = any_state();
	struct tp_cwnd before = any_window(), w = before;
	struct tp_ack a = any_ack();
	__u32 since_ms = (__u32)(a.now_us / TP_USEC_PER_MSEC) - h.congested_ms;

	htcp_grow(&h, &w, &a);
	check_window(&before, &w);
	__CPROVER_assert(h.alpha >= 1 && h.alpha < 1U << 27, "state: alpha");
	/* within a second of the last congestion alpha is 2 packets at most, by a long RTT */
	if (since_ms <= HTCP_DELTA_L_MS)
		check_growth(&before, &w, 5ULL * a.acked + 1);
}

void prove_threshold(void)
{
	struct tp_htcp h = any_state();
	struct tp_cwnd w = any_window();

	check_threshold(htcp_threshold(&h, &w, any_bits(32)));
	__CPROVER_assert(h.beta >= HTCP_BETA_MIN && h.beta <= HTCP_BETA_MAX, "state: beta");
}

void prove_sample(void)
{
	struct tp_htcp h = any_state();

	htcp_sample(&h, any_sample_us(), any_bits(ACKED_BITS), any_packets(), any_bits(TIME_BITS),
		    any_bits(3));
	__CPROVER_assert(rtts_hold(&h), "state: RTTs");
}

void prove_other_events(void)
{
	struct tp_htcp h = any_state();
	struct tp_cwnd w = any_window();
	struct tp_ack a = any_ack();

	htcp_enter(&h, &a, any_bits(3), &w);
	htcp_undo(&h);
	__CPROVER_assert(rtts_hold(&h), "state: RTTs");
}
