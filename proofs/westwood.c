/* SPDX-License-Identifier: GPL-2.0-or-later */
/* westwood.c - the proofs of bpf/cc/westwood.bpf.c. */
#include "ranges.h"
#include "cc/westwood.h"

static struct tp_westwood any_state(void)
{
	struct tp_westwood s = {
	    .start_us = any_bits(TIME_BITS),
	    .bw = any_bits(BANDWIDTH_BITS),
	    .bw_once = any_bits(BANDWIDTH_BITS),
	    .start_delivered = any_bits(32),
	    .min_rtt_us = any_rtt_us(),
	    .rtt_us = any_rtt_us(),
	    .forget = any_bits(1),
	};

	if (any_bits(1))
		s.min_rtt_us = ~0U; /* none yet */
	return s;
}

void prove_ack(void)
{
	struct tp_westwood s = any_state();
	struct tp_cwnd before = any_window(), w = before;
	struct tp_ack a = any_ack();

	westwood_grow(&s, &w, &a);
	check_window(&before, &w);
	check_growth(&before, &w, a.acked + 1);
}

void prove_sample(void)
{
	struct tp_westwood s = any_state();
	__u64 now_us = any_bits(TIME_BITS);
	__u32 delivered = any_bits(COUNT_BITS);

	__CPROVER_assume(now_us >= s.start_us);
	/* no faster than BANDWIDTH_BITS says, less the bit for bounds */
	__CPROVER_assume(delivered >> 7 <= now_us - s.start_us);
	westwood_sample(&s, any_sample_us(), s.start_delivered + delivered, now_us);
	__CPROVER_assert(s.bw >> BANDWIDTH_BITS == 0 && s.bw_once >> BANDWIDTH_BITS == 0,
			 "state: bandwidth");
}

void prove_other_events(void)
{
	struct tp_westwood s = any_state();
	struct tp_cwnd before = any_window(), w = before;

	check_threshold(westwood_threshold(&s, &w));
	westwood_repaired(&s, &w);
	check_window(&before, &w);
	westwood_timed_out(&s, &w);
	check_threshold(w.ssthresh);
}
