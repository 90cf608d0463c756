// SPDX-License-Identifier: GPL-2.0-only
/*
 * illinois.bpf.c - Illinois: loss says when, delay says how much.
 *
 * Source     Liu, Basar, Srikant, "TCP-Illinois: A Loss and Delay-Based
 *            Congestion Control Algorithm for High-Speed Networks",
 *            VALUETOOLS 2006, section 3 (equations 7 and 8).
 * Constants  the paper's: alpha 0.3 to 10, beta 1/8 to 1/2, delays at 0.01, 0.1
 *            and 0.8 of the largest, 5 rounds, 15 packets.
 * Limits     the largest delay is never forgotten.
 */
#include "../lib/cc.h"
#include "illinois.h"

TP_INIT(illinois, struct tp_illinois, illinois_begin)
TP_AVOID(illinois, struct tp_illinois, illinois_grow)
TP_PKTS_ACKED(illinois, struct tp_illinois, illinois_sample)
TP_SET_STATE(illinois, struct tp_illinois, illinois_enter)
TP_SSTHRESH(illinois, struct tp_illinois, illinois_threshold)
TP_UNDO(illinois)

TP_OPS("tp_illinois", .init = (void *)illinois_init, .cong_avoid = (void *)illinois_avoid,
       .pkts_acked = (void *)illinois_acked, .set_state = (void *)illinois_state,
       .ssthresh = (void *)illinois_ssthresh, .undo_cwnd = (void *)illinois_undo);
