/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * window.h - the extremes of a recent measure, in two halves: a sample is forgotten after
 * one to two windows.
 *
 * In come a window of bpf/abi, and the epoch, which its owner keeps.  It is used for the
 * measures of paths, arms and tunings.
 */
#ifndef TCPILOT_CORE_WINDOW_H
#define TCPILOT_CORE_WINDOW_H

#include "../abi/abi.h"
#include "num.h"

TP_INLINE __u64 tp_window_max(const struct tp_window64 *w)
{
	return tp_max64(w->current, w->previous);
}

TP_INLINE __u32 tp_window_max32(const struct tp_window32 *w)
{
	return w->current > w->previous ? w->current : w->previous;
}

TP_INLINE __u32 tp_window_min(const struct tp_window32 *w)
{
	return (__u32)tp_min_nonzero(w->current, w->previous);
}

/* Epochs are counted modulo 2^32: only "same", "next" and "other" matter. */
TP_INLINE __u32 tp_epoch(__u64 now_ns, __u64 window_ns)
{
	return window_ns ? (__u32)(now_ns / window_ns) : 0;
}

/* Whether windows have to move on.  They stay for a sample of the epoch before, which
 * comes from a CPU that others overtook: going back would forget both halves. */
TP_INLINE int tp_epoch_moved(__u32 from, __u32 to)
{
	return to - from + 1 > 1;
}

/* Moves a window to a new epoch: the current half becomes the previous one, or
 * both are forgotten when a whole window passed without a sample. */
TP_INLINE void tp_window64_roll(struct tp_window64 *w, __u32 from, __u32 to)
{
	if (!tp_epoch_moved(from, to))
		return;
	w->previous = to - from == 1 ? w->current : 0;
	w->current = 0;
}

TP_INLINE void tp_window32_roll(struct tp_window32 *w, __u32 from, __u32 to)
{
	if (!tp_epoch_moved(from, to))
		return;
	w->previous = to - from == 1 ? w->current : 0;
	w->current = 0;
}

#endif
