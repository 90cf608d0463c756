// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * hstcp.bpf.c - HighSpeed TCP: Reno whose steps grow with the window.
 *
 * Standard TCP needs a loss rate of 1e-10 to fill 10 Gbit/s at 100 ms.  Here, from
 * a window of 38 packets, more is added per round (a(w), 1 to 73 packets) and less
 * taken per loss (b(w), a half to a tenth): a loss rate of 1e-7 suffices then.
 *
 * Source     RFC 3649, section 5 and the table of appendix B.
 * Constants  the table's; it follows from Low_Window 38, High_Window 83000,
 *            Low_P 1e-3, High_P 1e-7, High_Decrease 0.1.
 * Choices    the RFC leaves open how a(w) becomes an integer: here upwards.  A
 *            window between two rows takes the greater's a and b (at a loss rate
 *            of 1e-3 this makes a mean window of 61 packets instead of 38, at
 *            1e-4 of 302 instead of 263, and less beyond).  The loss at the end
 *            of slow start costs a half.  Both as Linux's module behaves.
 *            A step is taken per packet; the RFC's, and the module's, per
 *            acknowledgement, which stood for a packet then (`--as-module`).
 * Limits     slow start is the standard one, without RFC 3742's limit.
 */
#include "lib/cc.h"
#include "hstcp.h"

TP_INIT(hstcp, struct tp_hstcp, hstcp_begin)
TP_AVOID_COUNTED(hstcp, struct tp_hstcp, hstcp_grow, hstcp_module_counts)
TP_SSTHRESH(hstcp, struct tp_hstcp, hstcp_threshold)
TP_UNDO(hstcp)

TP_OPS("tp_hstcp", .init = (void *)hstcp_init, .cong_avoid = (void *)hstcp_avoid,
       .ssthresh = (void *)hstcp_ssthresh, .undo_cwnd = (void *)hstcp_undo);
