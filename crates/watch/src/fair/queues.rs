//! Deals queues to groups by their number of flows, and flows to the queues of their group. As few flows as
//! possible change their queue, because a change may reorder the flow's packets. Flows of similar
//! round trips share a queue, because in one queue the flow with the shorter round trip wins.

use std::collections::HashMap;

/// A group's number. Flows of one group may share a queue; flows of two groups never do.
pub type Group = u8;

/// Flows change their queues for the sake of round trips only if the mean spread of a queue shrinks by more
/// than this. The spread is the logarithm of the longest round trip over the shortest.
const WORTH_MOVING: f64 = 0.2;

/// The properties of a flow for the choice of its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Wait {
    /// Its group.
    pub group: Group,
    /// Its round trip without queues, in microseconds; 0 if it is not known.
    pub rtt_us: u32,
}

/// The owners of the queues. A queue is its index, from 0.
#[derive(Clone, Debug)]
pub struct Queues {
    owner: Vec<Option<Group>>,
    flows: Vec<Vec<u32>>,
    /// How often a flow was moved from one queue to another.
    pub moves: u64,
}

impl Queues {
    /// `count` queues, all free.
    pub fn new(count: usize) -> Queues {
        Queues {
            owner: vec![None; count],
            flows: vec![Vec::new(); count],
            moves: 0,
        }
    }

    /// The number of queues.
    pub fn count(&self) -> usize {
        self.owner.len()
    }

    /// The flows of a queue.
    pub fn members(&self, queue: usize) -> &[u32] {
        self.flows.get(queue).map_or(&[], Vec::as_slice)
    }

    /// The group to which a queue belongs.
    pub fn owner(&self, queue: usize) -> Option<Group> {
        self.owner.get(queue).copied().flatten()
    }

    /// The number of a group's queues.
    pub fn count_of(&self, group: Group) -> usize {
        self.of(group).count()
    }

    /// Deals the queues to these flows and their groups, and returns the queue of each flow.
    ///
    /// There must be as many queues as groups.
    pub fn deal(&mut self, flows: &HashMap<u32, Wait>) -> HashMap<u32, usize> {
        let before = self.places();
        self.take_leave(flows);
        let wanted = shares(flows, self.owner.len());
        self.move_borders(&wanted);
        self.seat(flows);
        for group in wanted.keys() {
            self.level(*group);
            self.sort(*group, flows);
        }
        let after = self.places();
        let moved = |(id, queue): &(&u32, &usize)| before.get(id).is_some_and(|b| b != *queue);
        self.moves += after.iter().filter(moved).count() as u64;
        after
    }

    fn of(&self, group: Group) -> impl Iterator<Item = usize> + '_ {
        (0..self.owner.len()).filter(move |q| self.owner(*q) == Some(group))
    }

    fn places(&self) -> HashMap<u32, usize> {
        let each = self.flows.iter().enumerate();
        each.flat_map(|(queue, ids)| ids.iter().map(move |id| (*id, queue)))
            .collect()
    }

    /// A flow leaves its queue when it ends or changes its group. If it was alone there and changed its group,
    /// its queue goes to the new group with it.
    fn take_leave(&mut self, flows: &HashMap<u32, Wait>) {
        for (owner, ids) in self.owner.iter_mut().zip(&mut self.flows) {
            if let [only] = ids.as_slice() {
                *owner = flows.get(only).map(|flow| flow.group).or(*owner);
            }
            ids.retain(|id| flows.get(id).map(|f| f.group) == *owner);
        }
    }

    /// Groups with too many queues give up their emptiest, and groups with too few take them.
    fn move_borders(&mut self, wanted: &HashMap<Group, usize>) {
        for queue in 0..self.owner.len() {
            if self.owner(queue).is_some_and(|g| !wanted.contains_key(&g)) {
                self.free(queue);
            }
        }
        for (group, count) in wanted {
            let mut own: Vec<usize> = self.of(*group).collect();
            own.sort_by_key(|q| self.members(*q).len());
            let surplus = own.len().saturating_sub(*count);
            for queue in own.into_iter().take(surplus) {
                self.free(queue);
            }
        }
        let mut groups: Vec<_> = wanted.iter().collect();
        groups.sort();
        for (group, count) in groups {
            let missing = count.saturating_sub(self.count_of(*group));
            let free: Vec<usize> = (0..self.owner.len())
                .filter(|q| self.owner(*q).is_none())
                .take(missing)
                .collect();
            for queue in free {
                if let Some(owner) = self.owner.get_mut(queue) {
                    *owner = Some(*group);
                }
            }
        }
    }

    fn free(&mut self, queue: usize) {
        if let (Some(owner), Some(ids)) = (self.owner.get_mut(queue), self.flows.get_mut(queue)) {
            *owner = None;
            ids.clear();
        }
    }

    /// Gives each flow without a queue the emptiest queue of its group.
    fn seat(&mut self, flows: &HashMap<u32, Wait>) {
        let seated = self.places();
        let mut left: Vec<_> = flows
            .iter()
            .filter(|(id, _)| !seated.contains_key(id))
            .collect();
        left.sort();
        for (id, flow) in left {
            let emptiest = self.of(flow.group).min_by_key(|q| self.members(*q).len());
            if let Some(ids) = emptiest.and_then(|q| self.flows.get_mut(q)) {
                ids.push(*id);
            }
        }
    }

    /// Moves flows until no queue of a group has two more than another.
    fn level(&mut self, group: Group) {
        loop {
            let most = self.of(group).max_by_key(|q| self.members(*q).len());
            let least = self.of(group).min_by_key(|q| self.members(*q).len());
            let (Some(most), Some(least)) = (most, least) else {
                return;
            };
            if self.members(most).len() < self.members(least).len() + 2 {
                return;
            }
            let Some(id) = self.flows.get_mut(most).and_then(Vec::pop) else {
                return;
            };
            if let Some(ids) = self.flows.get_mut(least) {
                ids.push(id);
            }
        }
    }

    /// Has flows of similar round trips share a queue, if the gain is worth the moves.
    fn sort(&mut self, group: Group, flows: &HashMap<u32, Wait>) {
        let rtt_us = |id: &u32| flows.get(id).map_or(0, |f| f.rtt_us);
        let own: Vec<usize> = self.of(group).collect();
        let present: Vec<Vec<u32>> = own.iter().map(|q| self.members(*q).to_vec()).collect();
        let mut ids = present.concat();
        if ids.len() <= own.len() || ids.iter().any(|id| rtt_us(id) == 0) {
            return;
        }
        ids.sort_by_key(|id| (rtt_us(id), *id));
        let sorted = parts(&ids, own.len());
        let spread = |queues: &[Vec<u32>]| -> f64 { queues.iter().map(|q| span(q, rtt_us)).sum() };
        if spread(&present) - spread(&sorted) <= WORTH_MOVING * own.len() as f64 {
            return;
        }
        let mut free = own;
        for part in sorted {
            let common = |q: &usize| {
                part.iter()
                    .filter(|id| self.members(*q).contains(id))
                    .count()
            };
            let Some(at) = (0..free.len()).max_by_key(|i| free.get(*i).map_or(0, common)) else {
                return;
            };
            let queue = free.swap_remove(at);
            if let Some(ids) = self.flows.get_mut(queue) {
                *ids = part;
            }
        }
    }
}

/// The logarithm of the longest round trip of a queue over its shortest.
fn span(queue: &[u32], rtt_us: impl Fn(&u32) -> u32) -> f64 {
    let each = || queue.iter().map(&rtt_us);
    match (each().min(), each().max()) {
        (Some(least), Some(most)) => (f64::from(most) / f64::from(least.max(1))).ln(),
        _ => 0.0,
    }
}

/// Cuts a list into `count` parts in order. No part has two entries more than another.
fn parts(ids: &[u32], count: usize) -> Vec<Vec<u32>> {
    let bound = |i: usize| i * ids.len() / count.max(1);
    (0..count)
        .map(|i| ids.get(bound(i)..bound(i + 1)).unwrap_or_default().to_vec())
        .collect()
}

/// The number of queues of each group: one for each flow if there are enough queues. Otherwise each group
/// gets one, and the rest is divided by largest remainder.
fn shares(flows: &HashMap<u32, Wait>, queues: usize) -> HashMap<Group, usize> {
    let mut counts: HashMap<Group, usize> = HashMap::new();
    for flow in flows.values() {
        *counts.entry(flow.group).or_default() += 1;
    }
    if flows.len() <= queues {
        return counts;
    }
    let rest = queues.saturating_sub(counts.len());
    // The first queue of a group already serves one of its flows.
    let others = flows.len() - counts.len();
    let mut given: HashMap<Group, usize> = HashMap::new();
    let mut remainders = Vec::new();
    for (group, count) in &counts {
        let exact = (count - 1) * rest;
        given.insert(*group, 1 + exact / others.max(1));
        remainders.push((std::cmp::Reverse(exact % others.max(1)), *group));
    }
    remainders.sort();
    let left = queues.saturating_sub(given.values().sum());
    for (_, group) in remainders.into_iter().take(left) {
        *given.entry(group).or_default() += 1;
    }
    given
}

/// Each flow's due share of a link, in bytes per second. Flows content with less than an equal part
/// leave the rest to the others (max-min fairness; Bertsekas, Gallager, Data Networks, section 6.5.2).
/// `flows` are pairs of a rate and whether the flow is content with it.
pub fn level(link_rate: f64, flows: &[(f64, bool)]) -> f64 {
    let mut content: Vec<f64> = flows.iter().filter(|f| f.1).map(|f| f.0).collect();
    content.sort_by(f64::total_cmp);
    let (mut left, mut count) = (link_rate, flows.len());
    for rate in content {
        let equal = left / count.max(1) as f64;
        if rate >= equal {
            break;
        }
        left -= rate;
        count -= 1;
    }
    left / count.max(1) as f64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn flows(groups: &[Group]) -> HashMap<u32, Wait> {
        let waits = groups.iter().map(|group| Wait {
            group: *group,
            rtt_us: 40_000,
        });
        (0..).zip(waits).collect()
    }

    #[test]
    fn flows_of_like_round_trips_share_a_queue() {
        let rtts = [40, 100, 41, 102, 40, 99, 43, 100];
        let flows: HashMap<u32, Wait> = (0..)
            .zip(rtts.map(|ms| Wait {
                group: 1,
                rtt_us: ms * 1000,
            }))
            .collect();
        let mut queues = Queues::new(4);
        queues.deal(&flows);
        for queue in 0..4 {
            let long = |id: &u32| flows[id].rtt_us > 60_000;
            let members = queues.members(queue);
            assert_eq!(members.len(), 2);
            assert_eq!(long(&members[0]), long(&members[1]), "{queues:?}");
        }
        let settled = queues.moves;
        queues.deal(&flows);
        assert_eq!(queues.moves, settled);
    }

    #[test]
    fn flows_have_own_queues_while_enough_exist() {
        let places = Queues::new(8).deal(&flows(&[1, 1, 2, 3, 3, 3]));
        let mut used: Vec<usize> = places.into_values().collect();
        used.sort_unstable();
        used.dedup();
        assert_eq!(used.len(), 6);
    }

    #[test]
    fn queues_are_dealt_by_the_number_of_flows() {
        let mut groups = vec![1; 30];
        groups.extend(vec![2; 9]);
        groups.push(3);
        let mut queues = Queues::new(8);
        queues.deal(&flows(&groups));
        let counts = [1, 2, 3].map(|g| queues.count_of(g));
        assert_eq!(counts, [5, 2, 1]);
    }

    #[test]
    fn a_lone_flow_takes_its_queue_along() {
        let mut queues = Queues::new(8);
        let before = queues.deal(&flows(&[1, 1, 2]));
        let after = queues.deal(&flows(&[1, 3, 2]));
        assert_eq!(before, after);
        assert_eq!(queues.moves, 0);
    }

    #[test]
    fn borders_move_as_few_flows_as_possible() {
        let mut queues = Queues::new(4);
        queues.deal(&flows(&[1, 1, 1, 1, 2, 2, 2, 2]));
        queues.deal(&flows(&[1, 1, 1, 1, 2, 2, 2, 2, 2]));
        assert_eq!(queues.moves, 0);
    }

    #[test]
    fn unused_parts_of_shares_go_to_others() {
        assert_eq!(
            level(100.0, &[(10.0, true), (50.0, false), (40.0, false)]),
            45.0
        );
        assert_eq!(level(100.0, &[(10.0, false), (90.0, false)]), 50.0);
        assert_eq!(level(100.0, &[]), 100.0);
    }

    proptest! {
        #[test]
        fn queues_never_mix_groups(
            rounds in prop::collection::vec(prop::collection::vec(0u8..5, 0..80), 1..6),
            count in 5usize..40,
        ) {
            let mut queues = Queues::new(count);
            for groups in rounds {
                let mut flows = flows(&groups);
                for (id, flow) in &mut flows {
                    flow.rtt_us = 10_000 + id * 7919 % 90_000;
                }
                let places = queues.deal(&flows);
                prop_assert_eq!(places.len(), flows.len());
                for (id, queue) in &places {
                    prop_assert_eq!(queues.owner(*queue), flows.get(id).map(|f| f.group));
                }
                for group in 0..5 {
                    let sizes: Vec<usize> =
                        queues.of(group).map(|q| queues.members(q).len()).collect();
                    let most = sizes.iter().max().copied().unwrap_or(0);
                    let least = sizes.iter().min().copied().unwrap_or(0);
                    prop_assert!(most <= least + 1);
                }
            }
        }
    }
}
