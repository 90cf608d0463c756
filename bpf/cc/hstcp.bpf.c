// SPDX-License-Identifier: GPL-2.0-only
/*
 * hstcp.bpf.c - HighSpeed TCP: reno with constants that depend on the window.
 *
 * Source     RFC 3649, section 5 and appendix B.
 * Constants  the RFC's: as reno up to 38 packets; 83000 packets at a loss rate of
 *            1e-7.
 * Limits     limited slow start (RFC 3742) is not here.
 */
#include "../lib/cc.h"
#include "hstcp.h"

TP_INIT(hstcp, struct tp_hstcp, hstcp_begin)
TP_AVOID(hstcp, struct tp_hstcp, hstcp_grow)
TP_SSTHRESH(hstcp, struct tp_hstcp, hstcp_threshold)
TP_UNDO(hstcp)

TP_OPS("tp_hstcp", .init = (void *)hstcp_init, .cong_avoid = (void *)hstcp_avoid,
       .ssthresh = (void *)hstcp_ssthresh, .undo_cwnd = (void *)hstcp_undo);
