/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * choice.h - the answer of every learner: an arm and the reason for it.
 */
#ifndef TCPILOT_CORE_LEARNER_CHOICE_H
#define TCPILOT_CORE_LEARNER_CHOICE_H

#include <linux/types.h>

struct tp_choice {
	__u8 arm; /* TP_NO_ARM: the kernel's default stays */
	__u8 why; /* enum tp_why */
};

#endif
