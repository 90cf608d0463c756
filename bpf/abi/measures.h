/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * measures.h - measures that age: extremes over two halves of a window.
 */
#ifndef TCPILOT_ABI_MEASURES_H
#define TCPILOT_ABI_MEASURES_H

#include "base.h"

/* The extremes of a measure over this window and the one before; a sample is
 * dropped after one to two windows.  The owner keeps the epochs. */
struct tp_window64 {
	__u64 current;
	__u64 previous;
};

struct tp_window32 {
	__u32 current;
	__u32 previous;
};

#endif
