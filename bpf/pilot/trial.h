/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * trial.h - which connections are held out, to compare the steered ones with.  The cell of the
 * address decides when a connection opens, and the note keeps it as long as it lives.
 */
#ifndef TCPILOT_PILOT_TRIAL_H
#define TCPILOT_PILOT_TRIAL_H

#include "../core/rows.h"
#include "act.h"
#include "openings.h"
#include "state.h"

/* An address of known size: the verifier wants that of an argument. */
struct remote_address {
	__u32 word[4];
};

/* enum tp_trial for a connection that opens now to this address.  It is a function of its own,
 * with its own frame: functions that call each other share the 512 bytes of a stack. */
__noinline __u32 trial_at(const struct remote_address *remote)
{
	if (!remote)
		return 0;
	return cells[tp_cell(config()->cell_secrets, remote->word) & (TP_CELLS - 1)];
}

static __always_inline __u32 trial_of(const __u32 remote[4])
{
	/* no cell has been written since the start: nothing to look up */
	return pulse.trials ? trial_at((const struct remote_address *)remote) : 0;
}

/* Whether an open connection was held out at its opening. */
__noinline int is_held_out(hands_t *hands)
{
	struct bpf_sock *sk = socket_in(hands);
	const struct tcp_sock *tp = sk && pulse.trials ? bpf_skc_to_tcp_sock(sk) : 0;
	struct tp_opening_bucket *bucket;
	__u32 way, tag;

	if (!tp)
		return 0;
	tag = tag_of(tp);
	bucket = openings_at(tag);
	way = bucket ? way_of(bucket, tag) : TP_OPENING_WAYS;
	if (!bucket || way >= TP_OPENING_WAYS)
		return 0;
	return bucket->way[tp_within(way, TP_OPENING_WAYS)].flags & TP_CONN_HELD_OUT;
}

#endif
