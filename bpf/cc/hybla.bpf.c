// SPDX-License-Identifier: GPL-2.0-only
/*
 * hybla.bpf.c - Hybla: a long RTT shall not cost throughput.
 *
 * Grows as fast in time as a reference connection with an RTT of 25 ms.
 *
 * Source     Caini, Firrincieli, "TCP Hybla: a TCP enhancement for heterogeneous
 *            networks", International Journal of Satellite Communications and
 *            Networking 22, 2004, section 3 (equation 5).
 * Constants  RTT0 25 ms; rho at most 16.
 * Limits     the first window is the kernel's (10 packets), not rho; pacing and
 *            the estimate of the bandwidth that the paper adds are not here.
 */
#include "../lib/cc.h"
#include "hybla.h"

TP_INIT(hybla, struct tp_hybla, hybla_begin)
TP_AVOID(hybla, struct tp_hybla, hybla_grow)
TP_SSTHRESH(hybla, struct tp_hybla, hybla_threshold)
TP_UNDO(hybla)

TP_OPS("tp_hybla", .init = (void *)hybla_init, .cong_avoid = (void *)hybla_avoid,
       .ssthresh = (void *)hybla_ssthresh, .undo_cwnd = (void *)hybla_undo);
