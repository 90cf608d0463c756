/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * filter.h - the maximum of a sliding window, without keeping the window.
 *
 * Nichols' estimator, as used by BBR's model (draft-cardwell-iccrg-bbr-
 * congestion-control-00, section 4.1.1.2): the best value, the best since then,
 * and the best since the second.  When the best grows too old, the next takes its
 * place.  Time is in any unit that only grows; it may wrap.
 */
#ifndef TCPILOT_FILTER_H
#define TCPILOT_FILTER_H

#include "cwnd.h"

struct tp_max {
	__u32 value[3];
	__u32 at[3];
};

TP_INLINE __u32 tp_max_value(const struct tp_max *m)
{
	return m->value[0];
}

TP_INLINE void tp_max_restart(struct tp_max *m, __u32 now, __u32 value)
{
	m->value[0] = m->value[1] = m->value[2] = value;
	m->at[0] = m->at[1] = m->at[2] = now;
}

TP_INLINE void tp_max_drop_best(struct tp_max *m, __u32 now, __u32 value)
{
	m->value[0] = m->value[1];
	m->at[0] = m->at[1];
	m->value[1] = m->value[2];
	m->at[1] = m->at[2];
	m->value[2] = value;
	m->at[2] = now;
}

TP_INLINE void tp_max_update(struct tp_max *m, __u32 window, __u32 now, __u32 value)
{
	__u32 age;

	if (value >= m->value[0] || now - m->at[2] > window) {
		tp_max_restart(m, now, value);
		return;
	}
	if (value >= m->value[1]) {
		m->value[1] = m->value[2] = value;
		m->at[1] = m->at[2] = now;
	} else if (value >= m->value[2]) {
		m->value[2] = value;
		m->at[2] = now;
	}
	age = now - m->at[0];
	if (age > window) {
		tp_max_drop_best(m, now, value);
		if (now - m->at[0] > window)
			tp_max_drop_best(m, now, value);
	} else if (m->at[1] == m->at[0] && age > window / 4) {
		/* a quarter has passed without a second choice: take one now */
		m->value[1] = m->value[2] = value;
		m->at[1] = m->at[2] = now;
	} else if (m->at[2] == m->at[1] && age > window / 2) {
		m->value[2] = value;
		m->at[2] = now;
	}
}

#endif
