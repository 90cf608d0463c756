/* SPDX-License-Identifier: GPL-2.0-or-later */
/* events.h - the events of a simulation: a heap by time, and by order at the same time. */
#ifndef TCPLAB_EVENTS_H
#define TCPLAB_EVENTS_H

#include <linux/types.h>
#include <stdlib.h>

enum sim_kind {
	SIM_START,   /* a flow opens */
	SIM_ARRIVE,  /* a burst comes to the queue */
	SIM_LEAVE,   /* a burst leaves it */
	SIM_RECEIVE, /* a burst reaches the receiver */
	SIM_LATE,    /* the receiver's timer for delayed acknowledgements */
	SIM_BACK,    /* an acknowledgement passes the router */
	SIM_ACK,     /* an acknowledgement reaches the sender */
	SIM_PACE,    /* the pacer lets the next burst go */
	SIM_TIMEOUT, /* the retransmission timer */
};

struct sim_event {
	__u64 at_ns;
	__u64 order;
	__u32 kind, flow;
	__u32 burst; /* its number, of the flow; of an acknowledgement, the last one arrived */
	__u32 next;  /* of an acknowledgement: the next expected packet */
};

struct sim_events {
	struct sim_event *heap;
	__u64 order;
	__u32 count, room;
};

static inline int sim_is_before(const struct sim_event *a, const struct sim_event *b)
{
	return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->order < b->order;
}

/* Less than 0: there is no memory. */
static inline int sim_add(struct sim_events *e, struct sim_event event)
{
	__u32 i = e->count;

	if (i == e->room) {
		struct sim_event *more = realloc(e->heap, 2 * (e->room + 512) * sizeof(*more));

		if (!more)
			return -1;
		e->heap = more;
		e->room = 2 * (e->room + 512);
	}
	event.order = e->order++;
	for (e->count++; i && sim_is_before(&event, &e->heap[(i - 1) / 2]); i = (i - 1) / 2)
		e->heap[i] = e->heap[(i - 1) / 2];
	e->heap[i] = event;
	return 0;
}

/* 0: there is none left. */
static inline int sim_take(struct sim_events *e, struct sim_event *first)
{
	struct sim_event last;
	__u32 i = 0, child;

	if (!e->count)
		return 0;
	*first = e->heap[0];
	last = e->heap[--e->count];
	for (; (child = 2 * i + 1) < e->count; i = child) {
		if (child + 1 < e->count && sim_is_before(&e->heap[child + 1], &e->heap[child]))
			child++;
		if (!sim_is_before(&e->heap[child], &last))
			break;
		e->heap[i] = e->heap[child];
	}
	if (e->count)
		e->heap[i] = last;
	return 1;
}

#endif
