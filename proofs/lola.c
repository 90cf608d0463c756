/* SPDX-License-Identifier: GPL-2.0-or-later */
/* lola.c - the proofs of bpf/cc/lola.bpf.c. */
#include "ranges.h"
#include "cube_root.h"
#include "cc/lola.h"

/* Samples are 1 us at least; LOLA_NO_RTT is "none". */
static __u32 any_seen_us(void)
{
	__u32 rtt_us = any_rtt_us();

	__CPROVER_assume(rtt_us >= 1);
	return any_bits(1) ? rtt_us : LOLA_NO_RTT;
}

static struct tp_lola any_state(void)
{
	struct tp_lola l = {
	    .since_us = any_bits(TIME_BITS),
	    .round_us = any_bits(TIME_BITS),
	    .base_seen_us = any_bits(TIME_BITS),
	    .base_us = any_seen_us(),
	    .now_us = any_rtt_us(),
	    .least_us = any_seen_us(),
	    .seen_us = any_seen_us(),
	    .origin = any_bits(CWND_BITS),
	    .k_ms = any_bits(18),
	    .end = any_bits(32),
	    .rest = any_bits(11),
	    .climb_rest = any_bits(CWND_BITS + 10),
	    .phase = any_bits(2),
	    .samples = any_bits(8),
	};

	__CPROVER_assume(l.rest < LOLA_PACKET);
	return l;
}

void prove_ack(void)
{
	struct tp_lola l = any_state();
	struct tp_cwnd before = any_window(), w = before;
	struct tp_ack a = any_ack();

	__CPROVER_assume(l.since_us <= a.now_us && l.base_seen_us <= a.now_us);
	lola_grow(&l, &w, &a);
	check_window(&before, &w);
	__CPROVER_assert(l.rest < LOLA_PACKET, "state: less than a packet");
}

void prove_threshold(void)
{
	struct tp_lola l = any_state();
	struct tp_cwnd w = any_window();

	check_threshold(lola_threshold(&l, &w, any_bits(TIME_BITS)));
	__CPROVER_assert(l.origin < 1U << CWND_BITS, "state: a window");
}

void prove_sample(void)
{
	struct tp_lola l = any_state();
	__u64 now_us = any_bits(TIME_BITS);

	__CPROVER_assume(l.round_us <= now_us);
	lola_sample(&l, any_sample_us(), any_bits(ACKED_BITS), now_us);
}
