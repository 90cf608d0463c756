// SPDX-License-Identifier: GPL-2.0-only
/*
 * veno.bpf.c - Veno: Vegas' estimate of the queue tells random loss from congestion.
 *
 * Source     Fu, Liew, "TCP Veno: TCP Enhancement for Transmission Over Wireless
 *            Access Networks", JSAC 21(2), 2003, section II.
 * Constants  beta 3 packets; four fifths after a random loss.
 * Limits     in deep queues it grows at half of reno's pace.
 */
#include "../lib/cc.h"
#include "veno.h"

TP_INIT(veno, struct tp_veno, veno_begin)
TP_AVOID(veno, struct tp_veno, veno_grow)
TP_PKTS_ACKED(veno, struct tp_veno, veno_sample)
TP_SET_STATE(veno, struct tp_veno, veno_enter)
TP_SSTHRESH(veno, struct tp_veno, veno_threshold)
TP_UNDO(veno)

TP_OPS("tp_veno", .init = (void *)veno_init, .cong_avoid = (void *)veno_avoid,
       .pkts_acked = (void *)veno_acked, .set_state = (void *)veno_state,
       .ssthresh = (void *)veno_ssthresh, .undo_cwnd = (void *)veno_undo);
