/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * orders.h - programs that the daemon runs: to store a path or its costs, to write down its
 * guard's decisions, to read the kernel's clocks.
 */
#ifndef TCPILOT_PILOT_ORDERS_H
#define TCPILOT_PILOT_ORDERS_H

#include "greedy.h"
#include "state.h"
#include "tune/table.h"

/* Puts in a path from the saved state, by the table's own rules. */
SEC("syscall")
int put_path(struct tp_slot *from)
{
	struct tp_path_key key = from->key;
	__u32 slot, live, windowed_flows;
	struct tp_path *path = open_path(&key, &slot);

	if (!path)
		return 1;
	live = path->live_flows;
	windowed_flows = path->windowed_flows;
	*path = from->path;
	path->live_flows = live; /* the path's own are still open */
	path->windowed_flows = windowed_flows;
	path->skips = 0; /* the policies may have changed */
	for (int i = 0; i < TP_USES; i++)
		path->used[i] = (__u16)path->connections;
	return 0;
}

/* Puts in the costs of a path from the saved state, and writes the choice distribution that follows
 * from them. */
SEC("syscall")
int put_costs(struct tp_costs *from)
{
	struct tp_node_key key = from->key;
	__u64 tag = tp_node_tag(config()->node_secrets, &key);
	__u32 place = place_for(tag, 1);
	struct tp_costs *c = bpf_map_lookup_elem(&costs, &place);
	struct tp_choice_dist *dist = choice_dist_at(place);

	if (!c || !dist || !take(&c->busy))
		return 1;
	begin_costs(c, dist, tag, &key);
	from->tag = tag;
	from->busy = 1; /* the flag is ours throughout the copy */
	*c = *from;
	rewrite(dist, c);
	release(&c->busy);
	return 0;
}

/* Writes the guard's decision about a path. */
SEC("syscall")
int put_order(struct tp_order *from)
{
	__u32 slot = from->slot;
	struct tp_tuned *t = bpf_map_lookup_elem(&tuned, &slot);
	struct tp_path *path = path_at(slot);

	if (!t || !path || t->born_ns != from->born_ns)
		return 1;
	if (from->off != t->off || from->brake != t->brake) { /* judged afresh from here on */
		__builtin_memset(t->with, 0, sizeof(t->with));
		__builtin_memset(t->without, 0, sizeof(t->without));
	}
	t->off = from->off;
	path->skips = 0;
	if (from->brake > t->brake) {
		t->brake = from->brake;
		t->brake_ns = bpf_ktime_get_ns();
	}
	return 0;
}

/* The daemon finds the ticks per second with it. */
SEC("syscall")
int read_clocks(struct tp_clocks *to)
{
	to->ticks = bpf_jiffies64();
	to->now_ns = bpf_ktime_get_ns();
	return 0;
}

#endif
