// SPDX-License-Identifier: GPL-2.0-only
/*
 * bic.bpf.c - BIC: a binary search for the window at which packets get lost.
 *
 * Source     Xu, Harfoush, Rhee, "Binary Increase Congestion Control (BIC) for
 *            Fast Long-Distance Networks", INFOCOM 2004, section III.
 * Constants  the paper's low window, 14; as deployed since: a step of 16, a
 *            quarter of the distance for each RTT, 20 RTTs for the last packet,
 *            0.8 of the window after a loss (the paper: 32, a half, 0.875), and
	    growth times the packets that an acknowledgement stands for.
 * Limits     unfair to flows with longer RTTs, and aggressive where they are short.
 */
#include "../lib/cc.h"
#include "bic.h"

TP_INIT(bic, struct tp_bic, bic_begin)
TP_PKTS_ACKED(bic, struct tp_bic, bic_sample)
TP_AVOID(bic, struct tp_bic, bic_grow)
TP_SET_STATE(bic, struct tp_bic, bic_enter)
TP_SSTHRESH(bic, struct tp_bic, bic_threshold)
TP_UNDO(bic)

TP_OPS("tp_bic", .init = (void *)bic_init, .pkts_acked = (void *)bic_acked,
       .cong_avoid = (void *)bic_avoid, .set_state = (void *)bic_state,
       .ssthresh = (void *)bic_ssthresh, .undo_cwnd = (void *)bic_undo);
