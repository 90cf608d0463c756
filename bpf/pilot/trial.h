/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * trial.h - which connections are held out, to compare the steered ones with.  The assignment
 * bucket of the address decides when a connection opens, and the connection start keeps it as long
 * as it lives.
 */
#ifndef TCPILOT_PILOT_TRIAL_H
#define TCPILOT_PILOT_TRIAL_H

#include "../core/choice_dist.h"
#include "act.h"
#include "conn_starts.h"
#include "state.h"

/* An address of known size: the verifier wants it for an argument. */
struct remote_address {
	__u32 word[4];
};

/* The assignment bucket of an address.  It is a function of its own, with its own frame: functions
 * that call each other share the 512 bytes of a stack. */
__noinline __u32 assignment_bucket_at(const struct remote_address *remote)
{
	return remote ? tp_assignment_bucket(config()->assignment_secrets, remote->word) : 0;
}

/* The same as its path's slot has it, if that is its path's. */
static __always_inline __u32 bucket_of(const volatile struct tp_assignment *assignment, __u32 tag,
				       const __u32 remote[4])
{
	if (assignment->tag == tag) {
		__u32 bucket = assignment->bucket;

		if (assignment->tag == tag) /* and not another path's meanwhile */
			return bucket;
	}
	return assignment_bucket_at((const struct remote_address *)remote);
}

/* enum tp_trial for a connection that opens now to an address of this assignment bucket.  If no
 * bucket has been written since the start, there is nothing to look up. */
static __always_inline __u32 trial_in(__u32 bucket)
{
	return learner_status.trials ? assignment_buckets[tp_within(bucket, TP_ASSIGNMENT_BUCKETS)]
				     : 0;
}

/* The same for an address. */
static __always_inline __u32 trial_of(const __u32 remote[4])
{
	return learner_status.trials
		   ? trial_in(assignment_bucket_at((const struct remote_address *)remote))
		   : 0;
}

/* Whether an open connection was held out at its opening. */
__noinline int is_held_out(hands_t *hands)
{
	struct bpf_sock *sk = socket_in(hands);
	const struct tcp_sock *tp = sk && learner_status.trials ? bpf_skc_to_tcp_sock(sk) : 0;
	const struct tp_conn_start *start = tp ? conn_start_of(tag_of(tp)) : 0;

	return start ? start->flags & TP_CONN_HELD_OUT : 0;
}

#endif
