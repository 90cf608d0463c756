//! Bytes by device, protocol, group and algorithm. Pure: it knows neither the clock nor a file.
//!
//! A flow has no group during its first rounds. Its bytes are held back until it has one, for a minute
//! at most, so they count for its later group.

use std::{
    collections::{BTreeMap, HashMap},
    ops::{AddAssign, Sub},
    time::{Duration, Instant},
};

use super::views::View;
use crate::link::{FlowView, Group, Protocol};

/// Longest time to hold back the bytes of a flow without a group.
const HELD: Duration = Duration::from_secs(60);

/// The flows of one sum.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Kind {
    /// The device.
    pub device: String,
    /// The protocol.
    pub protocol: Protocol,
    /// The group.
    pub group: Group,
    /// The algorithm, if the flows have a group and a name.
    pub algorithm: Option<String>,
}

/// What flows sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    /// Flows, each counted once, with its first bytes.
    pub flows: u64,
    /// Bytes into the queue, without dropped ones.
    pub bytes: u64,
    /// Packets dropped by the queue.
    pub drops: u64,
}

impl AddAssign for Sum {
    fn add_assign(&mut self, more: Sum) {
        self.flows += more.flows;
        self.bytes += more.bytes;
        self.drops += more.drops;
    }
}

impl Sub for Sum {
    type Output = Sum;
    fn sub(self, less: Sum) -> Sum {
        Sum {
            flows: self.flows.saturating_sub(less.flows),
            bytes: self.bytes.saturating_sub(less.bytes),
            drops: self.drops.saturating_sub(less.drops),
        }
    }
}

/// A flow as it was seen last.
#[derive(Debug)]
struct CountedFlow {
    kind: Kind,
    now: Sum,
    /// The part of `now` already added to a sum.
    counted: Sum,
    since: Instant,
}

/// The sums since the start.
#[derive(Debug, Default)]
pub struct Tally {
    /// By device and number.
    seen: HashMap<(String, u32), CountedFlow>,
    sums: BTreeMap<Kind, Sum>,
}

impl Tally {
    /// Takes the flows of a look at all devices. Flows gone since the last look are added as they were.
    pub fn look(&mut self, views: &[View], now: Instant) {
        let mut before = std::mem::take(&mut self.seen);
        for flow in views.iter().flat_map(|view| &view.flows) {
            let id = (flow.device.clone(), flow.id);
            let (counted, since) = match before.remove(&id) {
                Some(seen) => (seen.counted, seen.since),
                None => (Sum::default(), now),
            };
            let mut seen = CountedFlow {
                kind: kind(flow),
                now: Sum {
                    flows: 1,
                    bytes: flow.bytes,
                    drops: flow.drops.into(),
                },
                counted,
                since,
            };
            let is_held = matches!(flow.group, Group::Mouse | Group::Unknown);
            if !is_held || now.duration_since(since) >= HELD {
                add(&mut self.sums, &mut seen);
            }
            self.seen.insert(id, seen);
        }
        for seen in before.values_mut() {
            add(&mut self.sums, seen);
        }
    }

    /// Adds the bytes still held back, at the end.
    pub fn finish(&mut self) {
        for seen in self.seen.values_mut() {
            add(&mut self.sums, seen);
        }
    }

    /// The sums since the start; they only grow.
    pub fn sums(&self) -> &BTreeMap<Kind, Sum> {
        &self.sums
    }
}

fn kind(flow: &FlowView) -> Kind {
    Kind {
        device: flow.device.clone(),
        protocol: flow.protocol,
        group: flow.group,
        // The best guess about a flow without a group is no finding.
        algorithm: match flow.group {
            Group::Unknown => None,
            _ => flow.algorithm.clone(),
        },
    }
}

fn add(sums: &mut BTreeMap<Kind, Sum>, seen: &mut CountedFlow) {
    let more = seen.now - seen.counted;
    if more != Sum::default() {
        *sums.entry(seen.kind.clone()).or_default() += more;
        seen.counted += more;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(id: u32, group: Group, name: Option<&str>, bytes: u64) -> FlowView {
        FlowView {
            group,
            algorithm: name.map(str::to_owned),
            bytes,
            drops: (bytes / 1000) as u32,
            ..FlowView::example(id)
        }
    }

    fn sum(tally: &Tally, group: Group, name: Option<&str>) -> Sum {
        let mut sum = Sum::default();
        for (kind, more) in tally.sums() {
            if kind.group == group && kind.algorithm.as_deref() == name {
                sum += *more;
            }
        }
        sum
    }

    #[test]
    fn first_bytes_count_for_the_later_group() {
        let (mut tally, start) = (Tally::default(), Instant::now());
        let mut at =
            |s, flow| tally.look(&[View::example(vec![flow])], start + Duration::from_secs(s));
        at(0, flow(1, Group::Mouse, None, 1000));
        at(1, flow(1, Group::Unknown, Some("reno"), 5000));
        at(2, flow(1, Group::Loss, Some("cubic"), 9000));
        at(3, flow(1, Group::Unknown, None, 10_000));
        at(4, flow(1, Group::Loss, Some("cubic"), 12_000));
        let cubic = Sum {
            flows: 1,
            bytes: 12_000,
            drops: 12,
        };
        assert_eq!(sum(&tally, Group::Loss, Some("cubic")), cubic);
        assert_eq!(tally.sums().len(), 1);
    }

    #[test]
    fn bytes_without_group_wait_for_a_minute() {
        let (mut tally, start) = (Tally::default(), Instant::now());
        let mut at = |s, flows| tally.look(&[View::example(flows)], start + Duration::from_secs(s));
        at(
            0,
            vec![
                flow(1, Group::Unknown, None, 1000),
                flow(2, Group::Mouse, None, 500),
            ],
        );
        at(59, vec![flow(1, Group::Unknown, None, 2000)]);
        at(
            60,
            vec![
                flow(1, Group::Unknown, Some("lola"), 3000),
                flow(3, Group::Mouse, None, 7),
            ],
        );
        assert_eq!(sum(&tally, Group::Mouse, None).bytes, 500, "it is gone");
        assert_eq!(sum(&tally, Group::Unknown, None).bytes, 3000);
        tally.finish();
        assert_eq!(
            sum(&tally, Group::Mouse, None),
            Sum {
                flows: 2,
                bytes: 507,
                drops: 0
            }
        );
    }

    #[test]
    fn a_group_change_counts_nothing_twice() {
        let (mut tally, start) = (Tally::default(), Instant::now());
        for (bytes, name) in [(1000, "reno"), (4000, "cubic"), (9000, "reno")] {
            let view = View::example(vec![flow(1, Group::Loss, Some(name), bytes)]);
            tally.look(&[view], start);
        }
        let reno = Sum {
            flows: 1,
            bytes: 6000,
            drops: 6,
        };
        assert_eq!(sum(&tally, Group::Loss, Some("reno")), reno);
        let cubic = Sum {
            flows: 0,
            bytes: 3000,
            drops: 3,
        };
        assert_eq!(sum(&tally, Group::Loss, Some("cubic")), cubic);
    }
}
