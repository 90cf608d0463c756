//! Turns the table of flows into an order for each flow: its queue, its share, and the action above it.

use std::{
    collections::{HashMap, HashSet},
    time::{Duration, Instant},
};

use tcpilot_kernel::clock::monotonic_ns;
use tcpilot_show::failure::Failure;

use crate::fair::queues::{Queues, Wait, level};
use crate::fair::sharers::Sharers;
use tcpilot_abi::{
    TP_FAIR_ANTS, TP_FAIR_DELAY, TP_FAIR_DROP, TP_FAIR_FIRST, TP_FAIR_MICE, TP_FAIR_NONE,
    TP_FAIR_POLICE, TP_FAIR_SLOW, TP_FAIR_UNREPLIED, TP_FAIR_WINDOW, TP_FLOW_CLOSED, TP_FLOW_QUIC,
    TP_FLOW_WINDOW, TP_REASON_NEW, tp_fair_order, tp_watch_flow, tp_watch_key,
};
use tcpilot_kernel::watch::{Watch, left_bytes};

use crate::args::{Action, Classifier, WatchArgs};
use crate::link::{Group, Protocol};
use crate::model::Models;

/// Queues per unit of `--queues`. The groups loss, delay, loss-delay, model and unknown share them.
pub const PER_K: usize = 4;
/// Time without packets after which a flow loses its order.
const IDLE_NS: u64 = 3_000_000_000;
/// A flow presses for more rate if its packets wait in the queue for this long on average.
const CONTENT_US: u64 = 2_000;
/// A flow still wants more for this long after it pressed: it may be recovering from a loss.
const CONTENT_AFTER: Duration = Duration::from_secs(2);
/// The programs act on flows from this share of the link's rate in use.
const SATURATED: f64 = 0.85;
/// From this probability on that its group is right, a flow meets the group's own action.
const SURE: f64 = 0.9;
/// The least share per round trip: a smaller one cannot be distinguished from a burst.
const LEAST_SHARE_BYTES: u32 = 4 * 1514;
/// A mouse is in slow start: per round trip it may send this many times its share, and at least these bytes.
const MOUSE_FACTOR: u32 = 2;
const MOUSE_BYTES: u32 = 32 * 1514;

/// The state of a flow.
struct OrderedFlow {
    key: tp_watch_key,
    /// The number of the share's owner: a flow, or a subscriber.
    sharer: u32,
    group: Group,
    /// The group whose action it meets: unknown while its own is not sure.
    acted_as: Group,
    bytes: u64,
    sojourn_sum_us: u64,
    sojourn_samples: u32,
    /// Bytes per second, smoothed.
    rate: f64,
    /// Its round trip without queues; 0 if it is not known.
    rtt_us: u32,
    /// Its last round trip; 0 if it is not known.
    last_rtt_us: u32,
    /// Scale of its receiver's window, if known.
    window_scale: Option<u8>,
    pressed: Option<Instant>,
    /// Seen for the first time, so its rate is not known.
    is_new: bool,
    delayed: bool,
    order: tp_fair_order,
}

impl OrderedFlow {
    fn is_udp(&self) -> bool {
        self.key.protocol == Protocol::Udp.number()
    }

    /// Whether it sends as much as it wants to.
    fn is_content(&self) -> bool {
        self.pressed.is_none_or(|at| at.elapsed() > CONTENT_AFTER)
    }
}

/// The flows with one share.
#[derive(Clone, Copy, Debug, Default)]
struct Sharer {
    flows: u32,
    rate: f64,
    /// Whether one of them wants more.
    presses: bool,
    /// Whether one of them is new, or in slow start: it will want more.
    grows: bool,
}

/// Orders, and the states behind them.
pub struct Orders<'a> {
    allowed: Vec<Action>,
    classifier: Classifier,
    models: &'a Models,
    known: HashMap<u32, OrderedFlow>,
    numbers: Sharers,
    /// By number, only senders.
    sharers: HashMap<u32, Sharer>,
    /// The queue of each flow.
    pub queues: Queues,
    last: Instant,
    /// The share of a sharer, bytes per second.
    pub share: f64,
    /// The share if all growing flows want more already. By `share` too many flows at once might go first.
    pub share_of_grown: f64,
}

impl<'a> Orders<'a> {
    /// Starts without orders.
    pub fn new(args: &WatchArgs, allowed: Vec<Action>, models: &'a Models) -> Orders<'a> {
        Orders {
            allowed,
            classifier: args.classifier,
            models,
            known: HashMap::new(),
            numbers: Sharers::new(args.fair.share),
            sharers: HashMap::new(),
            queues: Queues::new(PER_K * usize::from(args.fair.queues)),
            last: Instant::now(),
            share: 0.0,
            share_of_grown: 0.0,
        }
    }

    /// Flows with an order.
    pub fn len(&self) -> usize {
        self.known.len()
    }

    fn allows(&self, action: Action) -> bool {
        self.allowed.contains(&action) || self.allowed.contains(&Action::All)
    }

    /// Whether acknowledgements have to be looked at.
    pub fn shrinks_windows(&self) -> bool {
        self.allows(Action::Window)
    }

    /// The minor numbers of all classes.
    pub fn minors(&self) -> impl Iterator<Item = u16> + use<> {
        let fixed = [TP_FAIR_ANTS, TP_FAIR_MICE, TP_FAIR_UNREPLIED, TP_FAIR_SLOW];
        let dealt = (0..self.queues.count()).map(|i| TP_FAIR_FIRST + i as u32);
        fixed.into_iter().chain(dealt).map(|minor| minor as u16)
    }

    /// Whether flows of this group are dealt to the queues of [`Queues`]. The mice of a subscriber wait with its
    /// other flows; else many new flows would bring it more than its share.
    fn is_dealt(&self, group: Group) -> bool {
        match group {
            Group::Ant => false,
            Group::Mouse => !self.numbers.are_flows(),
            _ => true,
        }
    }

    /// The weight of a class, in sharers: a sharer weighs 1.
    pub fn weight(&self, minor: u16) -> f64 {
        let are_flows = self.numbers.are_flows();
        let delayed = |ids: &mut dyn Iterator<Item = &OrderedFlow>| {
            let sharers = ids.filter(|k| k.delayed).map(|k| k.sharer);
            sharers.collect::<HashSet<_>>().len()
        };
        let count = match u32::from(minor) {
            TP_FAIR_ANTS | TP_FAIR_UNREPLIED => 1,
            TP_FAIR_MICE if are_flows => self.flows_of(Group::Mouse).max(1),
            TP_FAIR_MICE => 1, // flows too new for an order
            TP_FAIR_SLOW => delayed(&mut self.known.values()).max(1),
            dealt => {
                let members = self.queues.members((dealt - TP_FAIR_FIRST) as usize);
                let known = &mut members.iter().filter_map(|id| self.known.get(id));
                let slow = if are_flows { delayed(known) } else { 0 };
                (members.len() - slow).max(1)
            }
        };
        count as f64
    }

    /// Whether flows wait in a queue: always in those that are for many.
    pub fn is_used(&self, minor: u16) -> bool {
        match u32::from(minor).checked_sub(TP_FAIR_FIRST) {
            Some(dealt) => !self.queues.members(dealt as usize).is_empty(),
            None => true,
        }
    }

    /// Sending flows, or subscribers.
    pub fn sharers(&self) -> usize {
        self.sharers.len()
    }

    /// Each flow's properties for the choice of its queue. A flow waits with those of its group. A
    /// subscriber's flows wait together, whatever their groups are.
    fn waits(&self) -> HashMap<u32, Wait> {
        let mut waits: HashMap<u32, Wait> = HashMap::new();
        for known in self.known.values().filter(|k| self.is_dealt(k.group)) {
            let group = match self.numbers.are_flows() {
                true => together(known.group),
                false => Group::Unknown,
            };
            let own = Wait {
                group: group as u8,
                rtt_us: known.rtt_us,
            };
            let wait = waits.entry(known.sharer).or_insert(own);
            wait.rtt_us = wait.rtt_us.min(own.rtt_us);
        }
        waits
    }

    /// Flows of a group.
    pub fn flows_of(&self, group: Group) -> usize {
        self.known.values().filter(|k| k.group == group).count()
    }

    /// Reads the flows, and writes changed orders. `rate`: the link's, bytes per second, if the
    /// user gave it.
    pub fn renew(&mut self, watch: &Watch, rate: Option<f64>) -> Result<(), Failure> {
        let passed_s = self.last.elapsed().as_secs_f64().max(1e-3);
        self.last = Instant::now();
        self.take_in(watch, passed_s);
        let waits = self.waits();
        let places = self.queues.deal(&waits);
        let link_rate = rate.unwrap_or(watch.link().rate as f64);
        let saturated = self.find_share(link_rate);
        let ids: Vec<u32> = self.known.keys().copied().collect();
        for id in ids {
            let wanted = self.order(id, &places, saturated);
            let Some((known, wanted)) = self.known.get_mut(&id).zip(wanted) else {
                continue;
            };
            if wanted != known.order {
                watch.give_order(&known.key, &wanted)?;
                known.order = wanted;
            }
        }
        Ok(())
    }

    /// Adds new flows, removes ended ones, and measures rates and sojourns since the last time.
    fn take_in(&mut self, watch: &Watch, passed_s: f64) {
        let now_ns = monotonic_ns();
        let mut before = std::mem::take(&mut self.known);
        for (_, flow) in watch.flows() {
            let key = flow.key;
            let is_over = flow.flags & TP_FLOW_CLOSED != 0;
            if is_over || now_ns.saturating_sub(flow.seen_ns) > IDLE_NS {
                continue;
            }
            let sharer = self.numbers.of(&key, flow.id);
            let known = self.look((key, sharer), &flow, before.remove(&flow.id), passed_s);
            let state =
                (u32::from(known.order.action) == TP_FAIR_DELAY).then(|| watch.fair_state(&key));
            let delayed = state.flatten().is_some_and(|s| s.hold > 0);
            self.known.insert(flow.id, OrderedFlow { delayed, ..known });
        }
        for gone in before.values() {
            watch.take_order(&gone.key);
        }
        if !before.is_empty() {
            let kept = self.known.values().map(|known| known.sharer).collect();
            self.numbers.keep(&kept);
        }
    }

    fn look(
        &self,
        (key, sharer): (tp_watch_key, u32),
        flow: &tp_watch_flow,
        before: Option<OrderedFlow>,
        passed_s: f64,
    ) -> OrderedFlow {
        let group = self.group(flow);
        let fresh = OrderedFlow {
            key,
            sharer,
            group,
            acted_as: self.acted_as(group, flow),
            bytes: left_bytes(flow),
            sojourn_sum_us: flow.now.sojourn_sum_us,
            sojourn_samples: flow.now.sojourn_samples,
            rate: 0.0,
            rtt_us: flow.min_rtt_us,
            last_rtt_us: flow.rtt_us,
            window_scale: (flow.flags & TP_FLOW_WINDOW != 0).then_some(flow.window_scale),
            pressed: None,
            is_new: true,
            delayed: false,
            order: tp_fair_order::default(),
        };
        let Some(before) = before else {
            return fresh;
        };
        let rate = left_bytes(flow).saturating_sub(before.bytes) as f64 / passed_s;
        let samples = flow
            .now
            .sojourn_samples
            .wrapping_sub(before.sojourn_samples);
        let sojourn_us = flow
            .now
            .sojourn_sum_us
            .saturating_sub(before.sojourn_sum_us)
            / u64::from(samples.max(1));
        let rate = (before.rate + rate) / 2.0;
        // A flow with few packets per round trip is sparse only if it sends less than half a fair share, and a
        // subscriber's only if all of them together do.
        let together = match self.sharers.get(&sharer) {
            Some(of) if !self.numbers.are_flows() => of.rate.max(rate),
            _ => rate,
        };
        let group = match group {
            Group::Ant if together < self.share / 2.0 => Group::Ant,
            Group::Ant if !matches!(before.group, Group::Ant | Group::Mouse) => before.group,
            Group::Ant => Group::Unknown,
            other => other,
        };
        OrderedFlow {
            rate,
            group,
            acted_as: self.acted_as(group, flow),
            pressed: if sojourn_us < CONTENT_US {
                before.pressed
            } else {
                Some(self.last)
            },
            is_new: false,
            order: before.order,
            ..fresh
        }
    }

    fn group(&self, flow: &tp_watch_flow) -> Group {
        let verdict = &flow.verdict;
        match self.classifier {
            Classifier::P4air => Group::from_number(flow.p4air.group),
            // Until its first round trip is over: a new flow is in slow start.
            Classifier::Tcpilot
                if verdict.group == 0 && u32::from(verdict.reason) == TP_REASON_NEW =>
            {
                Group::Mouse
            }
            Classifier::Tcpilot => Group::from_number(verdict.group),
        }
    }

    /// A window of an algorithm that fills queues is not shrunk because of a doubtful verdict, and such a flow is
    /// not made to wait: it loses packets, as everything unknown.
    fn acted_as(&self, group: Group, flow: &tp_watch_flow) -> Group {
        let model = match flow.flags & TP_FLOW_QUIC {
            0 => &self.models.tcp,
            _ => &self.models.quic,
        };
        let is_sure = || model.group_probability(&flow.verdict) >= SURE;
        match (self.classifier, group) {
            (Classifier::Tcpilot, Group::Delay | Group::Model) if !is_sure() => Group::Unknown,
            _ => group,
        }
    }

    /// Finds the share of a sharer; true if the link is full, so shares matter.
    fn find_share(&mut self, link_rate: f64) -> bool {
        self.sharers.clear();
        for known in self.known.values().filter(|k| k.rate > 0.0 || k.is_new) {
            let sharer = self.sharers.entry(known.sharer).or_default();
            sharer.flows += 1;
            sharer.rate += known.rate;
            sharer.presses |= !known.is_content();
            sharer.grows |= known.is_new || known.group == Group::Mouse;
        }
        let sharers = || self.sharers.values();
        let sending = sharers().filter(|s| s.rate > 0.0);
        let rates: Vec<_> = sending.map(|s| (s.rate, !s.presses)).collect();
        self.share = level(link_rate, &rates);
        let grown: Vec<_> = sharers()
            .map(|s| (s.rate, !s.presses && !s.grows))
            .collect();
        self.share_of_grown = level(link_rate, &grown);
        rates.iter().map(|r| r.0).sum::<f64>() > SATURATED * link_rate
    }

    fn order(
        &self,
        id: u32,
        places: &HashMap<u32, usize>,
        saturated: bool,
    ) -> Option<tp_fair_order> {
        let known = self.known.get(&id)?;
        let place = places.get(&known.sharer).copied();
        let place = place.filter(|_| self.is_dealt(known.group));
        let minor = match (known.group, place) {
            (Group::Ant, _) => TP_FAIR_ANTS,
            (_, Some(queue)) => TP_FAIR_FIRST + queue as u32,
            (_, None) => TP_FAIR_MICE,
        };
        let neighbours = place.map_or(0, |queue| self.queues.members(queue).len());
        let flows = self.flows_that_share(known);
        let mut order = tp_fair_order {
            minor: minor as u16,
            group: known.group as u8,
            share_shift: flows.next_power_of_two().ilog2() as u8,
            is_alone: u8::from(neighbours == 1 && flows == 1),
            ..tp_fair_order::default()
        };
        // A sharer alone in its queue needs no action: turns give it its share, and rate left by others.
        if saturated && (neighbours > 1 || place.is_none() && known.group == Group::Mouse) {
            self.add_action(&mut order, known);
        }
        Some(order)
    }

    /// The flows among which its share is divided, itself included.
    fn flows_that_share(&self, known: &OrderedFlow) -> u32 {
        let flows = self.sharers.get(&known.sharer).map_or(1, |s| s.flows);
        flows.max(1)
    }

    fn add_action(&self, order: &mut tp_fair_order, known: &OrderedFlow) {
        let action = match known.acted_as {
            Group::Udp if self.allows(Action::Drop) => TP_FAIR_POLICE,
            Group::Loss | Group::LossDelay | Group::Unknown | Group::Mouse
                if self.allows(Action::Drop) =>
            {
                TP_FAIR_DROP
            }
            Group::Delay if self.allows(Action::Delay) => TP_FAIR_DELAY,
            Group::Model if self.allows(Action::Window) && known.window_scale.is_some() => {
                TP_FAIR_WINDOW
            }
            // QUIC hides its receiver's window.
            Group::Model if known.is_udp() && self.allows(Action::Drop) => TP_FAIR_DROP,
            _ => TP_FAIR_NONE,
        };
        if action == TP_FAIR_NONE || (known.is_content() && !known.delayed) {
            return;
        }
        let rtt_us = match known.last_rtt_us {
            0 => 100_000,
            known => known,
        };
        order.interval_us = rtt_us.clamp(10_000, 1_000_000);
        let own = self.share / f64::from(self.flows_that_share(known));
        let share = |us: u32| (own * f64::from(us) / 1e6) as u32;
        order.share_bytes = share(order.interval_us).max(LEAST_SHARE_BYTES);
        if known.group == Group::Mouse {
            order.share_bytes = (order.share_bytes * MOUSE_FACTOR).max(MOUSE_BYTES);
        }
        order.window_bytes = share(rtt_us);
        order.window_scale = known.window_scale.unwrap_or_default();
        order.action = action as u8;
    }
}

/// UDP other than QUIC shares the queues of unknown flows.
pub fn together(group: Group) -> Group {
    match group {
        Group::Udp => Group::Unknown,
        other => other,
    }
}
