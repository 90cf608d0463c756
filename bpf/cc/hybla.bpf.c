// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * hybla.bpf.c - Hybla: a long RTT does not slow the growth down.
 *
 * Reno's window grows per RTT, so its rate grows with 1/RTT^2: a satellite's
 * connection stands still next to a terrestrial one.  Here the steps are scaled to
 * the growth of the rate of a connection with an RTT of 25 ms.
 *
 * Source     Caini, Firrincieli, "TCP Hybla: a TCP enhancement for heterogeneous
 *            networks", International Journal of Satellite Communications and
 *            Networking 22(5), 2004: section 3.
 * Constants  RTT0 25 ms, rho not below 1: the paper's, and the default of
 *            Linux's module (/sys/module/tcp_hybla/parameters); the steps are checked with
 *            the notes of S. Y. Cheung's course (Emory, CS 558).  The bound of
 *            rho, 16, is ours.
 * Choices    rho is of the least smoothed RTT, so that a queue of its own making
 *            does not make it more aggressive, and rounded down to eighths, so
 *            that a table of roots suffices.  Steps count packets.  Linux's module
 *            counts acknowledgements (`--as-module`), and cuts each step down to
 *            1/128 of a packet, and so grows as Reno does in windows wider than
 *            128 rho^2; here nothing is lost.
 * Limits     the paper's initial ssthresh by a bandwidth estimate and its pacing
 *            are left to the kernel: slow start ends with a loss, and starts with the
 *            kernel's window (the paper, and the module: rho packets).
 */
#include "lib/cc.h"
#include "hybla.h"

TP_INIT(hybla, struct tp_hybla, hybla_begin)
TP_AVOID_COUNTED(hybla, struct tp_hybla, hybla_grow, hybla_module_counts)
TP_SET_STATE(hybla, struct tp_hybla, hybla_enter)
TP_SSTHRESH(hybla, struct tp_hybla, hybla_threshold)
TP_UNDO(hybla)

TP_OPS("tp_hybla", .init = (void *)hybla_init, .cong_avoid = (void *)hybla_avoid,
       .set_state = (void *)hybla_state, .ssthresh = (void *)hybla_ssthresh,
       .undo_cwnd = (void *)hybla_undo);
