/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * hystart.h - HyStart++, RFC 9406: leaves slow start when the RTT rises, by way
 * of conservative slow start, to find out whether the rise was an accident.
 *
 * Constants of section 4.3, but without L, the limit on a step.  It is 8 packets for
 * senders that burst as acknowledgements come, and none for paced ones.  Linux
 * bounds bursts by the size of its super-packets, and its receivers acknowledge 20 to
 * 44 packets at once: with L four fifths of slow start's growth would be lost.
 *
 * The least rise of the RTT is 4 ms there, for paths of the internet.  In a data center a whole
 * queue may be shorter.  So on paths of less than 4 ms the rise is the least RTT, and half a
 * millisecond at least: interrupts and coalesced acknowledgements delay by less.  A second such
 * rise ends slow start there, before the five rounds are over.
 */
#ifndef TCPILOT_HYSTART_H
#define TCPILOT_HYSTART_H

#include "cwnd.h"

#define HYSTART_THRESH_MIN_US 4000
#define HYSTART_THRESH_SHORT_US 500
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

/*
 * Takes in an acknowledgement.  Eight of a receiver that delays them stand for 16 packets.  One for
 * more packets counts as up to four of them, so a round has two at least.
 */
TP_INLINE void tp_hystart_sample(struct tp_hystart *h, __s32 rtt_us, __u32 acked)
{
	if (rtt_us <= 0)
		return;
	h->min_us = tp_min(h->min_us, rtt_us);
	h->samples = tp_min(h->samples + tp_clamp(acked / 2, 1, HYSTART_SAMPLES / 2), 255);
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

/* Section 4.2, RttThresh, in microseconds; min_rtt_us: of the connection. */
TP_INLINE __u32 tp_hystart_threshold(const struct tp_hystart *h, __u32 min_rtt_us)
{
	__u32 least_us = tp_clamp(min_rtt_us, HYSTART_THRESH_SHORT_US, HYSTART_THRESH_MIN_US);

	return tp_clamp(h->last_min_us / HYSTART_RTT_DIVISOR, least_us, HYSTART_THRESH_MAX_US);
}

/*
 * Section 4.2: into conservative slow start when the RTT rises, back when it falls.  Back takes
 * half of the rise: the samples of one queue differ by some packets.
 */
TP_INLINE void tp_hystart_check(struct tp_hystart *h, __u32 min_rtt_us)
{
	__u32 rise_us;

	if (h->samples < HYSTART_SAMPLES || h->min_us == HYSTART_NO_RTT ||
	    h->last_min_us == HYSTART_NO_RTT)
		return;
	rise_us = tp_hystart_threshold(h, min_rtt_us);
	if (!h->css_base_us) {
		if (h->min_us >= h->last_min_us + rise_us) {
			h->css_base_us = h->min_us;
			h->css_rounds = 0;
		}
	} else if (h->min_us + rise_us / 2 < h->css_base_us) {
		h->css_base_us = 0;
	} else if (min_rtt_us < HYSTART_THRESH_MIN_US && h->min_us >= h->css_base_us + rise_us) {
		h->css_rounds = HYSTART_CSS_ROUNDS;
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
