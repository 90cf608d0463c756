//! A trial under way: blocks fill with connections, and pairs of full ones become effects.

use std::collections::{HashMap, HashSet};

use serde::{Deserialize, Serialize};

use crate::{
    guard::{Guard, Limits, Step},
    outcome::{Effects, Means, Outcome, Sums},
    pairs::Pair,
    schedule::{Arm, Schedule},
    sequence::Sequence,
};

/// The counts of a trial, and its guards.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Terms {
    /// Connections needed in each block of a pair: the mean of fewer is mostly noise.
    pub least: u64,
    /// Maximum number of groups with effects; the least recently seen are evicted. Their results stay in the
    /// sums of the host.
    pub groups_max: usize,
    /// When steering stops; `None`: never.
    pub limits: Option<Limits>,
    /// How intervals are made.
    pub sequence: Sequence,
}

impl Default for Terms {
    fn default() -> Terms {
        Terms {
            least: 5,
            groups_max: 16384,
            limits: Some(Limits::default()),
            sequence: Sequence::default(),
        }
    }
}

/// The blocks of a group, compared with each other, or with other groups'.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct Blocks {
    number: u64,
    treated: Sums,
    control: Sums,
}

/// The knowledge of a group.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Group {
    /// Unfinished blocks, the oldest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    open: Vec<Blocks>,
    /// Its effects.
    #[serde(skip_serializing_if = "is_none_yet")]
    pub effects: Effects,
    /// By how much its former periods differed from the expectation, and how many these were.
    past: (u32, f64),
    /// Its guard.
    #[serde(skip_serializing_if = "is_calm")]
    pub guard: Guard,
}

fn is_none_yet(effects: &Effects) -> bool {
    *effects == Effects::default()
}

fn is_calm(guard: &Guard) -> bool {
    *guard == Guard::default()
}

impl Group {
    fn latest(&self) -> u64 {
        self.open.last().map_or(0, |blocks| blocks.number)
    }

    fn blocks(&mut self, number: u64) -> &mut Blocks {
        let at = self.open.partition_point(|b| b.number < number);
        if self.open.get(at).is_none_or(|b| b.number != number) {
            let blocks = Blocks {
                number,
                ..Blocks::default()
            };
            self.open.insert(at, blocks);
        }
        &mut self.open[at]
    }

    /// The correction expected from its former periods; `None` without one.
    fn expected(&self) -> Option<f64> {
        let (count, sum) = self.past;
        (count > 0).then(|| sum / f64::from(count))
    }
}

/// A group or host stopped by a guard.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Alarm {
    /// The group; `None`: the whole host.
    pub group: Option<u64>,
    /// Least harm within the interval.
    pub harm: f64,
    /// Until then.
    pub until_s: u64,
    /// Whether it is the first stop since a calm try.
    pub is_first: bool,
}

/// All groups of a policy, and their sums.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trial {
    /// The sums of all groups together.
    pub host: Host,
    groups: HashMap<u64, Group>,
    changed: HashSet<u64>,
}

/// The sums of all groups together, including evicted ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Host {
    /// Over all groups.
    pub effects: Effects,
    /// The guard of the whole host.
    pub guard: Guard,
    /// Blocks below this number have been counted.
    over: u64,
}

impl Trial {
    /// Continues from a saved state. Blocks newer than now come from a clock that was wrong.
    #[must_use]
    pub fn restore(host: Host, groups: HashMap<u64, Group>, now: u64) -> Trial {
        let mut trial = Trial {
            host,
            groups,
            changed: HashSet::new(),
        };
        trial.host.over = trial.host.over.min(now);
        for group in trial.groups.values_mut() {
            group.open.retain(|blocks| blocks.number <= now);
        }
        trial
    }

    /// Takes in a connection that *started* at this time, whenever it ended. Returns whether it counts.
    pub fn take(
        &mut self,
        group: u64,
        started_s: u64,
        seen: &Outcome,
        schedule: &Schedule,
        terms: &Terms,
    ) -> bool {
        let treated = match schedule.arm(group, started_s) {
            Arm::Treated => true,
            Arm::Control => false,
            Arm::Free | Arm::Settling => return false,
        };
        let number = schedule.number(started_s);
        if number < self.host.over {
            return false; // it outlived its blocks: they have been counted
        }
        self.make_room(group, terms);
        self.changed.insert(group);
        let blocks = self.groups.entry(group).or_default().blocks(number);
        let side = if treated {
            &mut blocks.treated
        } else {
            &mut blocks.control
        };
        side.add(seen)
    }

    /// Counts all blocks over at this time. Returns the groups stopped by the guards because of these blocks.
    pub fn close_until(&mut self, now_s: u64, schedule: &Schedule, terms: &Terms) -> Vec<Alarm> {
        let over = schedule.over(now_s);
        if over <= self.host.over {
            return Vec::new();
        }
        self.host.over = over;
        let mut closed: Vec<(u64, Blocks)> = Vec::new();
        for (id, group) in &mut self.groups {
            let count = group.open.partition_point(|blocks| blocks.number < over);
            closed.extend(group.open.drain(..count).map(|blocks| (*id, blocks)));
        }
        closed.sort_by_key(|(group, blocks)| (blocks.number, *group));
        self.changed.extend(closed.iter().map(|(group, _)| *group));
        if !schedule.is_by_prefix() {
            let pairs = closed.iter().filter_map(|(group, blocks)| {
                let (treated, control) = (&blocks.treated, &blocks.control);
                let means = (treated.means(terms.least)?, control.means(terms.least)?);
                Some((Some(*group), means, treated.count + control.count))
            });
            let pairs: Vec<_> = pairs.collect();
            let alarms = pairs
                .into_iter()
                .flat_map(|(group, (treated, control), count)| {
                    self.count(group, &treated, &control, count, now_s, terms)
                });
            return alarms.collect();
        }
        let periods = closed.chunk_by(|a, b| a.1.number == b.1.number);
        let alarms = periods.flat_map(|period| self.close_period(period, now_s, schedule, terms));
        alarms.collect()
    }

    /// Compares each prefix held out in a period with some of the steered ones. The steered ones are dealt
    /// out, so no two pairs share one. Prefixes differ by far more than the effect of steering, so each one's
    /// former periods are part of its expectation.
    fn close_period(
        &mut self,
        period: &[(u64, Blocks)],
        now_s: u64,
        schedule: &Schedule,
        terms: &Terms,
    ) -> Vec<Alarm> {
        let (mut held_out, mut others) = (Vec::new(), Vec::new());
        // A group without history is assumed to be average.
        let pasts = period
            .iter()
            .filter_map(|(id, _)| self.groups.get(id)?.expected());
        let (count, sum) = pasts.fold((0.0, 0.0), |(n, sum), past| (n + 1.0, sum + past));
        let usual = if count > 0.0 { sum / count } else { 0.0 };
        for (id, blocks) in period {
            let Some(group) = self.groups.get_mut(id) else {
                continue;
            };
            for (sums, side) in [
                (blocks.control, &mut held_out),
                (blocks.treated, &mut others),
            ] {
                let Some(means) = sums.means(terms.least) else {
                    continue;
                };
                let lot = schedule.lot(*id, blocks.number);
                side.push((
                    lot,
                    means.with_past(group.expected().unwrap_or(usual)),
                    sums.count,
                ));
                let (count, sum) = group.past;
                group.past = (count.saturating_add(1), sum + means.surprise());
            }
        }
        for side in [&mut held_out, &mut others] {
            side.sort_by(|a, b| a.0.total_cmp(&b.0));
        }
        let pairs = held_out.len().min(others.len());
        let dealt = (0..pairs).map(|at| {
            let own = others.iter().skip(at).step_by(pairs);
            let means: Vec<Means> = own.clone().map(|other| other.1).collect();
            (means, own.map(|other| other.2).sum::<u64>())
        });
        let dealt: Vec<_> = dealt.collect();
        let both = held_out.iter().zip(&dealt);
        both.filter_map(|((_, control, count), (treated, others))| {
            Some((Means::of_all(treated)?, control, count + others))
        })
        .flat_map(|(treated, control, count)| {
            self.count(None, &treated, control, count, now_s, terms)
        })
        .collect()
    }

    /// Adds a pair, and asks the guards. By prefix a group is compared with others, so a pair shows nothing
    /// about the group alone.
    fn count(
        &mut self,
        group: Option<u64>,
        treated: &Means,
        control: &Means,
        connections: u64,
        now_s: u64,
        terms: &Terms,
    ) -> Vec<Alarm> {
        let mut effects = Effects {
            connections,
            ..Effects::default()
        };
        let pair = effects.add(treated, control);
        self.host.effects.merge(&effects);
        let mut alarms = Vec::new();
        let mut ask = |guard: &mut Guard, group: Option<u64>| {
            alarms.extend(ask(guard, pair, now_s, terms).map(|alarm| Alarm { group, ..alarm }));
        };
        if let Some((id, known)) = group.and_then(|id| Some((id, self.groups.get_mut(&id)?))) {
            known.effects.merge(&effects);
            ask(&mut known.guard, Some(id));
        }
        ask(&mut self.host.guard, None);
        alarms
    }

    fn make_room(&mut self, group: u64, terms: &Terms) {
        if self.groups.len() < terms.groups_max || self.groups.contains_key(&group) {
            return;
        }
        let oldest = self.groups.iter().min_by_key(|(_, known)| known.latest());
        if let Some(oldest) = oldest.map(|(group, _)| *group) {
            self.groups.remove(&oldest);
            self.changed.insert(oldest);
        }
    }

    /// The groups with their knowledge.
    pub fn groups(&self) -> impl Iterator<Item = (u64, &Group)> {
        self.groups.iter().map(|(id, group)| (*id, group))
    }

    /// The groups changed since the last call, or all; `None`: the group was evicted.
    pub fn unsaved(&mut self, all: bool) -> Vec<(u64, Option<&Group>)> {
        let changed = std::mem::take(&mut self.changed);
        let wanted: Vec<u64> = match all {
            true => self.groups.keys().copied().collect(),
            false => changed.into_iter().collect(),
        };
        wanted
            .into_iter()
            .map(|group| (group, self.groups.get(&group)))
            .collect()
    }

    /// Leaves open blocks uncounted: from now on other blocks are compared.
    pub fn break_off(&mut self) {
        for (id, group) in &mut self.groups {
            if !group.open.is_empty() {
                group.open.clear();
                self.changed.insert(*id);
            }
        }
        self.host.over = 0;
    }

    /// Lets a group go on that its guard has stopped, or the host. See [`Guard::go_on`].
    pub fn go_on(&mut self, group: Option<u64>) {
        match group {
            None => self.host.guard.go_on(),
            Some(id) => {
                if let Some(known) = self.groups.get_mut(&id) {
                    known.guard.go_on();
                    self.changed.insert(id);
                }
            }
        }
    }

    /// The groups whose guard has stopped steering.
    pub fn stopped(&self, now_s: u64) -> impl Iterator<Item = (u64, u64)> {
        let stopped = move |(id, group): (u64, &Group)| {
            group
                .guard
                .stopped_until(now_s)
                .map(|until_s| (id, until_s))
        };
        self.groups().filter_map(stopped)
    }
}

fn ask(guard: &mut Guard, pair: Pair, now_s: u64, terms: &Terms) -> Option<Alarm> {
    match guard.add(pair, now_s, terms.limits.as_ref()?, &terms.sequence) {
        Step::Goes => None,
        Step::Stops {
            harm,
            until_s,
            is_first,
        } => Some(Alarm {
            group: None,
            harm,
            until_s,
            is_first,
        }),
    }
}

#[cfg(test)]
mod tests;
