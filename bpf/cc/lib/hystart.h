/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * hystart.h - HyStart++, RFC 9406: leaves slow start when the RTT rises, by way
 * of conservative slow start, to find out whether the rise was an accident.
 *
 * Constants of section 4.3, but without L, the limit on a step.  It is 8 packets for
 * senders that burst as acknowledgements come, and none for paced ones.  Linux
 * bounds bursts by the size of its super-packets, and its receivers acknowledge 20 to
 * 44 packets at once: with L four fifths of slow start's growth would be lost.
 */
#ifndef TCPILOT_HYSTART_H
#define TCPILOT_HYSTART_H

#include "cwnd.h"

#define HYSTART_THRESH_MIN_US 4000
#define HYSTART_THRESH_MAX_US 16000
#define HYSTART_RTT_DIVISOR 8
#define HYSTART_SAMPLES 8
#define HYSTART_CSS_DIVISOR 4
#define HYSTART_CSS_ROUNDS 5
#define HYSTART_NO_RTT 0x7fffffffU

struct tp_hystart {
	__u32 last_min_us, min_us; /* of the last round and of this one */
	__u32 css_base_us;	   /* 0: not in conservative slow start */
	__u32 end;
	__u8 samples, css_rounds;
	__u8 css_rest; /* packets not yet counted by the divisor */
};

TP_INLINE void tp_hystart_begin(struct tp_hystart *h, __u32 nxt)
{
	*h = (struct tp_hystart){};
	h->last_min_us = h->min_us = HYSTART_NO_RTT;
	h->end = nxt;
}

TP_INLINE void tp_hystart_sample(struct tp_hystart *h, __s32 rtt_us)
{
	if (rtt_us <= 0)
		return;
	h->min_us = tp_min(h->min_us, rtt_us);
	h->samples = tp_min(h->samples + 1, 255);
}

/* 1: slow start is over. */
TP_INLINE int tp_hystart_round(struct tp_hystart *h, __u32 una, __u32 nxt)
{
	int over = 0;

	if (tp_before(una, h->end))
		return 0;
	if (h->css_base_us)
		over = ++h->css_rounds >= HYSTART_CSS_ROUNDS;
	h->last_min_us = h->min_us;
	h->min_us = HYSTART_NO_RTT;
	h->samples = 0;
	h->end = nxt;
	return over;
}

/* Section 4.2: into conservative slow start when the RTT rises, back when it falls. */
TP_INLINE void tp_hystart_check(struct tp_hystart *h)
{
	if (h->samples < HYSTART_SAMPLES)
		return;
	if (h->css_base_us) {
		if (h->min_us < h->css_base_us)
			h->css_base_us = 0;
		return;
	}
	if (h->min_us == HYSTART_NO_RTT || h->last_min_us == HYSTART_NO_RTT)
		return;
	if (h->min_us >= h->last_min_us + tp_clamp(h->last_min_us / HYSTART_RTT_DIVISOR,
						   HYSTART_THRESH_MIN_US, HYSTART_THRESH_MAX_US)) {
		h->css_base_us = h->min_us;
		h->css_rounds = 0;
	}
}

/* The step of slow start, for so many packets acknowledged. */
TP_INLINE __u32 tp_hystart_step(struct tp_hystart *h, __u32 acked)
{
	__u32 step;

	if (!h->css_base_us)
		return acked;
	acked += h->css_rest;
	step = acked / HYSTART_CSS_DIVISOR;
	h->css_rest = acked % HYSTART_CSS_DIVISOR;
	return step;
}

#endif
