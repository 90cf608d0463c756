/* SPDX-License-Identifier: GPL-2.0-or-later */
/* cubic.c - the proofs of bpf/cc/cubic.bpf.c. */
#include "cube_root.h"
#include "cc/cubic.h"

/* K is 1.8 s a packet to the third root: 2^21 packets take 173 s. */
static struct tp_cubic_epoch any_epoch(void)
{
	return (struct tp_cubic_epoch){any_bits(TIME_BITS), any_bits(CWND_BITS),
				       any_bits(CWND_BITS), any_bits(18),
				       any_bits(31),	    any_bits(CWND_BITS)};
}

static struct tp_hystart any_hystart(void)
{
	struct tp_hystart h = {any_bits(31), any_bits(31), any_bits(31), any_bits(32),
			       any_bits(8),  any_bits(8),  any_bits(2)};

	__CPROVER_assume(h.css_rounds < HYSTART_CSS_ROUNDS);
	return h;
}

static struct tp_cubic any_state(void)
{
	return (struct tp_cubic){any_hystart(), any_bits(1),  any_epoch(),
				 any_epoch(),	any_bits(31), any_bits(31)};
}

void prove_ack(void)
{
	struct tp_cubic c = any_state();
	struct tp_cwnd before = any_window(), w = before;
	struct tp_ack a = any_ack();

	__CPROVER_assume(c.now.start_us <= a.now_us);
	cubic_grow(&c, &w, &a);
	check_window(&before, &w);
}

void prove_threshold(void)
{
	struct tp_cubic c = any_state();
	struct tp_cwnd w = any_window();

	check_threshold(cubic_threshold(&c, &w));
	__CPROVER_assert(c.now.max < 1U << CWND_BITS, "state: a window");
}

void prove_epoch(void)
{
	struct tp_cubic c = any_state();

	cubic_epoch(&c, any_packets(), any_bits(TIME_BITS));
	__CPROVER_assert(c.now.origin < 1U << CWND_BITS, "state: a window");
}

void prove_other_events(void)
{
	struct tp_cubic c = any_state();
	struct tp_cwnd w = any_window();
	struct tp_ack a = any_ack();

	cubic_sample(&c, any_sample_us(), a.acked, a.now_us);
	cubic_enter(&c, &a, any_bits(3), &w);
	cubic_idle(&c, any_bits(TIME_BITS), a.now_us);
	cubic_restore(&c);
}

/* tp_cube_root tries each bit below 2^21 once: any of its numbers, cubed. */
void prove_cube_root_step(void)
{
	__u64 next = any_bits(21);

	__CPROVER_assert(next * next * next >> 63 == 0, "state: a cube");
}

void prove_contract_cubic_ms(void)
{
	__CPROVER_assert(tp_cubic_ms(any_bits(CWND_BITS)) >> 18 == 0, "state: K");
}

void prove_contract_cubic_parts(void)
{
	__CPROVER_assert(tp_cubic_parts(any_bits(32), any_bits(18), any_bits(CWND_BITS)) >> 41 == 0,
			 "state: parts");
}
