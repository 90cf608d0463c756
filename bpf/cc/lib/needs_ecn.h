/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * needs_ecn.h - the fallback of an algorithm in need of ECN on a connection without
 * negotiated ECN.
 *
 * An algorithm with TCP_CONG_NEEDS_ECN has all its packets sent as capable of ECN,
 * whatever the peer agreed to.  A queue would mark them instead of dropping them,
 * and nobody would report the marks: the window grew until the queue is full.  So
 * such a connection is handed to the kernel's reno, whose packets are not capable
 * of ECN (RFC 3168, section 6.1.1).
 */
#ifndef TCPILOT_NEEDS_ECN_H
#define TCPILOT_NEEDS_ECN_H

#include "cc.h"

/*
 * To be called by init before all else.  1: the connection is reno's from here on,
 * and the private state is not ours any more.  A socket that is not connected yet
 * has not negotiated: the kernel calls init when it is.  0 also if the kernel refuses,
 * because another BPF program chose the algorithm (-EBUSY).
 */
static __always_inline int tp_left_to_reno(struct sock *sk)
{
	char fallback[] = "reno";
	__u8 state = sk->__sk_common.skc_state;

	if (tp_tcp(sk)->ecn_flags & TCP_ECN_ANY || state == BPF_TCP_LISTEN ||
	    state == BPF_TCP_CLOSE)
		return 0;
	return !bpf_setsockopt(sk, SOL_TCP, TCP_CONGESTION, fallback, sizeof(fallback));
}

#endif
