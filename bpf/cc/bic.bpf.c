// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * bic.bpf.c - BIC: looks for the path's largest window by binary search.
 *
 * The window at the last loss was too much, the one after it was not: each round
 * goes a part of the way between.  Far away the steps are limited, near the last
 * maximum they are tiny, and beyond it they grow again as they shrank.
 *
 * Source     Xu, Harfoush, Rhee, "Binary Increase Congestion Control (BIC) for
 *            Fast Long-Distance Networks", INFOCOM 2004: section III.
 * Constants  the paper's: Reno up to 14 packets, a maximum of (2 - beta)/2 of the
 *            window if a loss comes before the last one.  As deployed (tcp(7),
 *            /sys/module/tcp_bic/parameters), the paper's in brackets: a loss
 *            leaves 819/1024 (7/8), Smax is 16 (32), a round goes a quarter of
 *            the way (a half), the last four packets take 20 rounds (a minimum
 *            step of 0.01), probing beyond the maximum mirrors the search (slow
 *            start), at least 5 % a round while no maximum is known (slow start).
 * Choices    packets count, and not acknowledgements.  Linux's module multiplies
 *            growth by an acknowledgement's number of packets, although it
 *            counts packets already (`--as-module`): twice the paper's growth with
 *            delayed acknowledgements, and 44 times behind offloads, as its window
 *            doubles in two rounds.
 * Limits     aggressive on short paths; superseded by CUBIC.
 */
#include "lib/cc.h"
#include "bic.h"

TP_INIT(bic, struct tp_bic, bic_begin)
TP_AVOID_COUNTED(bic, struct tp_bic, bic_grow, bic_module_counts)
TP_SET_STATE(bic, struct tp_bic, bic_enter)
TP_SSTHRESH(bic, struct tp_bic, bic_threshold)
TP_UNDO(bic)

TP_OPS("tp_bic", .init = (void *)bic_init, .cong_avoid = (void *)bic_avoid,
       .set_state = (void *)bic_state, .ssthresh = (void *)bic_ssthresh,
       .undo_cwnd = (void *)bic_undo);
