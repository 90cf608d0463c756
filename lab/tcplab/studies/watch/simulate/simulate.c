/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * simulate.c - flows by the laws of bpf/cc through a drop-tail queue, and the watch's
 * records: on this host, at any rate.  A law-level simulation; it is no kernel.
 */
#include "abi/abi.h"
#include "events.h"
#include "sender.h"
#include "measures.h"

#define SIM_LATE_NS 40000000ULL /* of a delayed acknowledgement */

/* In the order of simulated.py. */
struct sim_path {
	__u64 rate, line_rate; /* bytes per second: of the link, and of each sender's host */
	__u64 duration_us;
	__u32 rtt_us, up_us; /* round trips: of the path, of the part before the queue */
	__u32 share_us;	     /* that part as the watch measured it */
	__u32 queue_packets;
	__u32 most_burst;	 /* packets of a super-packet */
	__u32 ack_every;	 /* packets per acknowledgement */
	__u32 lost_of_million;	 /* behind the queue, at random */
	__u32 seed, window_most; /* packets */
};

struct sim_flow {
	__u32 law, start_us, extra_rtt_us, is_paced;
};

struct sim {
	struct sim_path path;
	const struct sim_flow *flow;
	struct sim_sender *sender;
	struct sim_watch *watch;
	struct sim_events events;
	struct sim_link link;
	struct sim_host host;
	__u64 busy_ns; /* the link is busy until then */
	__u32 queued, random, has_failed;
};

static void plan(struct sim *sim, __u64 at_ns, enum sim_kind kind, __u32 flow, __u32 burst,
		 __u32 next)
{
	struct sim_event event = {
	    .at_ns = at_ns, .kind = kind, .flow = flow, .burst = burst, .next = next};

	if (sim_add(&sim->events, event))
		sim->has_failed = 1;
}

static __u64 up_ns(const struct sim *sim)
{
	return (__u64)sim->path.up_us * 500;
}

/* One way between the queue and the receiver. */
static __u64 down_ns(const struct sim *sim, __u32 flow)
{
	return (__u64)(sim->path.rtt_us - sim->path.up_us + sim->flow[flow].extra_rtt_us) * 500;
}

static void transmit(struct sim *sim, __u32 flow, struct sim_range range, int is_again,
		     __u64 now_ns)
{
	struct sim_sender *s = &sim->sender[flow];
	__u64 bytes = (__u64)range.count * SIM_FRAME;
	struct sim_burst *b = &s->bursts[s->sent & s->mask];

	if (s->sent - s->settled > s->mask || s->gap_last - s->gap_first >= s->mask ||
	    (s->gap_first != s->gap_last &&
	     s->sent - s->gaps[s->gap_first & s->mask].burst > s->mask)) {
		sim->has_failed = 1;
		return;
	}
	if (!s->in_flight)
		s->first_ns = s->delivered_ns = now_ns;
	*b = (struct sim_burst){
	    .sent_ns = now_ns,
	    .first_ns = s->first_ns,
	    .delivered_ns = s->delivered_ns,
	    .delivered = s->delivered,
	    .first = range.first,
	    .count = range.count,
	    .is_again = is_again,
	};
	s->in_flight += range.count;
	s->prr_out += range.count;
	if (is_again)
		s->again_first++;
	else
		s->nxt += range.count;
	s->next_ns = tp_max64(s->next_ns, now_ns) + sim_ns_of(bytes, s->pacing_rate);
	s->line_ns = tp_max64(s->line_ns, now_ns) + sim_ns_of(bytes, sim->host.line_rate);
	plan(sim, s->line_ns + up_ns(sim), SIM_ARRIVE, flow, s->sent++, 0);
}

static void send_more(struct sim *sim, __u32 flow, __u64 now_ns)
{
	struct sim_sender *s = &sim->sender[flow];

	while (!sim->has_failed) {
		int is_again;
		struct sim_range range = sim_next(s, &sim->host, &is_again);

		if (!range.count)
			return;
		if (s->is_paced && now_ns < s->next_ns) {
			if (!s->pace_waits)
				plan(sim, s->next_ns, SIM_PACE, flow, 0, 0);
			s->pace_waits = 1;
			return;
		}
		transmit(sim, flow, range, is_again, now_ns);
	}
}

static void start(struct sim *sim, __u32 flow, __u64 now_ns)
{
	struct sim_sender *s = &sim->sender[flow];
	__u64 waits_ns = sim->busy_ns > now_ns ? sim->busy_ns - now_ns : 0;
	__u32 rtt_us = sim->path.rtt_us + sim->flow[flow].extra_rtt_us + waits_ns / 1000;
	struct tp_ack a;

	s->w = (struct tp_cwnd){.packets = SIM_INITIAL_WINDOW,
				.ssthresh = TP_SSTHRESH_MAX,
				.clamp = sim->path.window_most};
	s->min_rtt_us = ~0U;
	sim_measure_rtt(s, rtt_us);
	sim->watch[flow].up_us = sim->path.share_us;
	sim->watch[flow].min_rtt_us = rtt_us;
	sim->watch[flow].window_at_ns = TP_NO_WINDOW;
	sim->watch[flow].flags = TP_FLOW_HANDSHAKE | TP_FLOW_ACKED;
	if (s->law->has_ect_syn)
		sim->watch[flow].flags |= TP_FLOW_ECT_SYN;
	a = sim_ack_of(s, now_ns / 1000, 0);
	if (s->law->begin)
		s->law->begin(s, &a);
	sim_set_pacing(s);
	s->timeout_ns = now_ns + sim_timeout_us(s) * 1000;
	plan(sim, s->timeout_ns, SIM_TIMEOUT, flow, 0, 0);
	send_more(sim, flow, now_ns);
}

static __u32 draw(struct sim *sim)
{
	sim->random = sim->random * 1664525 + 1013904223;
	return sim->random >> 8;
}

static void arrive(struct sim *sim, __u32 flow, __u32 number, __u64 now_ns)
{
	struct sim_sender *s = &sim->sender[flow];
	struct sim_burst *b = &s->bursts[number & s->mask];
	struct sim_watch *w = &sim->watch[flow];
	__u64 begins_ns = tp_max64(sim->busy_ns, now_ns);

	sim_went_in(w, b, now_ns);
	if (sim->queued && sim->queued + b->count > sim->path.queue_packets) {
		w->drops += b->count;
		return;
	}
	sim->queued += b->count;
	sim->busy_ns = begins_ns + sim_ns_of((__u64)b->count * SIM_FRAME, sim->path.rate);
	plan(sim, begins_ns, SIM_LEAVE, flow, number, 0);
	if (draw(sim) % 1000000 >= sim->path.lost_of_million)
		plan(sim, sim->busy_ns + down_ns(sim, flow), SIM_RECEIVE, flow, number, 0);
}

static void leave(struct sim *sim, __u32 flow, __u32 number, __u64 now_ns)
{
	const struct sim_sender *s = &sim->sender[flow];
	const struct sim_burst *b = &s->bursts[number & s->mask];

	sim->queued -= b->count;
	sim_left(&sim->link, now_ns - b->queued_ns, b->count, now_ns);
	sim_came_out(&sim->watch[flow], b, now_ns);
}

static void acknowledge(struct sim *sim, __u32 flow, __u64 now_ns)
{
	struct sim_sender *s = &sim->sender[flow];

	s->unacknowledged = 0;
	s->late_order++;
	plan(sim, now_ns + down_ns(sim, flow), SIM_BACK, flow, s->arrived_bursts, s->expected);
}

static void receive(struct sim *sim, __u32 flow, __u32 number, __u64 now_ns)
{
	struct sim_sender *s = &sim->sender[flow];
	struct sim_burst *b = &s->bursts[number & s->mask];
	int in_order = b->first == s->expected;

	b->has_arrived = 1;
	s->arrived_bursts = number + 1;
	for (__u32 i = b->first; i != b->first + b->count; i++)
		if ((__s32)(i - s->expected) >= 0)
			s->got[i & s->got_mask] = 1;
	for (; s->got[s->expected & s->got_mask]; s->expected++)
		s->got[s->expected & s->got_mask] = 0;
	s->unacknowledged += b->count;
	if (!in_order || s->expected != b->first + b->count ||
	    s->unacknowledged >= sim->path.ack_every)
		acknowledge(sim, flow, now_ns);
	else if (s->unacknowledged == b->count)
		plan(sim, now_ns + SIM_LATE_NS, SIM_LATE, flow, s->late_order, 0);
}

static void expire(struct sim *sim, __u32 flow, __u64 now_ns)
{
	struct sim_sender *s = &sim->sender[flow];

	if (now_ns >= s->timeout_ns) {
		sim_timed_out(s, now_ns);
		send_more(sim, flow, now_ns);
	}
	plan(sim, s->timeout_ns, SIM_TIMEOUT, flow, 0, 0);
}

static void happen(struct sim *sim, const struct sim_event *e)
{
	struct sim_sender *s = &sim->sender[e->flow];

	switch (e->kind) {
	case SIM_START:
		start(sim, e->flow, e->at_ns);
		break;
	case SIM_ARRIVE:
		arrive(sim, e->flow, e->burst, e->at_ns);
		break;
	case SIM_LEAVE:
		leave(sim, e->flow, e->burst, e->at_ns);
		break;
	case SIM_RECEIVE:
		receive(sim, e->flow, e->burst, e->at_ns);
		break;
	case SIM_LATE:
		if (e->burst == s->late_order)
			acknowledge(sim, e->flow, e->at_ns);
		break;
	case SIM_BACK:
		sim_came_back(&sim->watch[e->flow], &sim->link, e->next, e->at_ns);
		plan(sim, e->at_ns + up_ns(sim), SIM_ACK, e->flow, e->burst, e->next);
		break;
	case SIM_ACK:
		sim_acknowledged(s, e->burst, e->next, e->at_ns);
		send_more(sim, e->flow, e->at_ns);
		break;
	case SIM_PACE:
		s->pace_waits = 0;
		send_more(sim, e->flow, e->at_ns);
		break;
	default:
		expire(sim, e->flow, e->at_ns);
	}
}

static void release(struct sim *sim, __u32 flows)
{
	for (__u32 i = 0; sim->sender && i < flows; i++) {
		free(sim->sender[i].bursts);
		free(sim->sender[i].gaps);
		free(sim->sender[i].again);
		free(sim->sender[i].got);
	}
	free(sim->sender);
	free(sim->watch);
	free(sim->events.heap);
}

static int prepare(struct sim *sim, __u32 flows, struct tp_round *rounds, __u32 room)
{
	__u32 places = 1024;

	while (places < 4 * sim->path.window_most)
		places *= 2;
	sim->sender = calloc(flows, sizeof(*sim->sender));
	sim->watch = calloc(flows, sizeof(*sim->watch));
	if (!sim->sender || !sim->watch)
		return -1;
	for (__u32 i = 0; i < flows; i++) {
		struct sim_sender *s = &sim->sender[i];

		s->law = &sim_laws[sim->flow[i].law % SIM_LAWS];
		s->is_paced = s->law->is_paced || sim->flow[i].is_paced;
		s->random = sim->path.seed + i;
		s->mask = s->got_mask = places - 1;
		s->bursts = calloc(places, sizeof(*s->bursts));
		s->gaps = calloc(places, sizeof(*s->gaps));
		s->again = calloc(places, sizeof(*s->again));
		s->got = calloc(places, 1);
		if (!s->bursts || !s->gaps || !s->again || !s->got)
			return -1;
		sim->watch[i].rounds = rounds + (__u64)i * room;
		sim->watch[i].room = room;
		plan(sim, (__u64)sim->flow[i].start_us * 1000, SIM_START, i, 0, 0);
	}
	return 0;
}

/* The name of an algorithm; 0: there are no more. */
const char *simulate_law(__u32 number)
{
	return number < SIM_LAWS ? sim_laws[number].name : 0;
}

/*
 * Runs flows over a path.  rounds has `room` places for each flow, counts the number of rounds of
 * each, delivered its packets.  Less than 0: there was no memory, or a window was too large.
 */
int simulate(const struct sim_path *path, const struct sim_flow *flow, __u32 flows,
	     struct tp_round *rounds, __u32 room, __u32 *counts, __u32 *delivered)
{
	struct sim sim = {.path = *path, .flow = flow, .random = path->seed};
	struct sim_event e;
	int failed;

	sim.link.rate = path->rate;
	sim.host = (struct sim_host){path->line_rate, path->most_burst};
	failed = prepare(&sim, flows, rounds, room);
	while (!failed && !sim.has_failed && sim_take(&sim.events, &e) &&
	       e.at_ns < path->duration_us * 1000)
		happen(&sim, &e);
	for (__u32 i = 0; !failed && i < flows; i++) {
		counts[i] = sim.watch[i].count;
		delivered[i] = sim.sender[i].delivered;
	}
	failed |= sim.has_failed;
	release(&sim, flows);
	return failed ? -1 : 0;
}
