// SPDX-License-Identifier: GPL-2.0-only
/*
 * yeah.bpf.c - YeAH: as fast as Scalable TCP while the queue is short, else reno.
 *
 * Source     Baiocchi, Castellani, Vacirca, "YeAH-TCP: Yet Another Highspeed
 *            TCP", PFLDnet 2007, section 3.
 * Constants  the paper's, in yeah.h.
 * Limits     needs some rounds to notice that it is not alone.
 */
#include "../lib/cc.h"
#include "yeah.h"

TP_INIT(yeah, struct tp_yeah, yeah_begin)
TP_AVOID(yeah, struct tp_yeah, yeah_grow)
TP_PKTS_ACKED(yeah, struct tp_yeah, yeah_sample)
TP_SET_STATE(yeah, struct tp_yeah, yeah_enter)
TP_SSTHRESH(yeah, struct tp_yeah, yeah_threshold)
TP_UNDO(yeah)

TP_OPS("tp_yeah", .init = (void *)yeah_init, .cong_avoid = (void *)yeah_avoid,
       .pkts_acked = (void *)yeah_acked, .set_state = (void *)yeah_state,
       .ssthresh = (void *)yeah_ssthresh, .undo_cwnd = (void *)yeah_undo);
