/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * eligible.h - which arms may be chosen for a connection.
 *
 * dctcp and prague give up only a fraction of their window for a mark.  At a
 * bottleneck with marks instead of drops they take more than their share, so
 * DCTCP "must not be deployed over the public Internet without additional
 * measures" (RFC 8257, abstract and section 5).  Negotiated ECN does not show
 * which kind of bottleneck it is: the path must be a data center's, or a policy
 * must vouch for the arm.  Pure functions, also compiled for the host by tests.
 */
#ifndef TCPILOT_CORE_ELIGIBLE_H
#define TCPILOT_CORE_ELIGIBLE_H

#include "../abi/config.h"
#include "../abi/path.h"
#include "tune/tune.h" /* tp_infer_net */

/* The use of ECN for a connection with negotiated ECN.  A public path never
 * counts as a data center's: a near server of somebody else answers just as fast. */
TP_INLINE __u32 tp_ecn_use_of(const struct tp_policy_config *policy, int is_private,
			      const struct tp_net_measures *m)
{
	__u32 net = policy->net;

	if (!is_private)
		return TP_ECN_PUBLIC;
	if (net == TP_NET_UNKNOWN)
		net = tp_infer_net(m).net;
	return net == TP_NET_DATA_CENTER ? TP_ECN_DATA_CENTER : TP_ECN_OTHER_NET;
}

/* The eligible arms of a policy.  ecn_arms: those in need of ECN; use: enum
 * tp_ecn_use. */
TP_INLINE __u32 tp_eligible(const struct tp_policy_config *policy, __u32 ecn_arms, __u32 use)
{
	if (use == TP_ECN_DATA_CENTER)
		return policy->arms;
	if (use == TP_ECN_PUBLIC || use == TP_ECN_OTHER_NET)
		ecn_arms &= ~(__u32)policy->ecn_vouched;
	return policy->arms & ~ecn_arms;
}

#endif
