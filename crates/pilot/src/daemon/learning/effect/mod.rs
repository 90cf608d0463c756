//! Measures whether steering helps: holds connections out, computes the gain of the others against them, and
//! has a guard to stop harmful steering (docs/understand/decisions/19-effect.md).
//!
//! The arithmetic is in `tcpilot_proof`. This module adds the clock, the BPF programs' assignment buckets,
//! and the records coming back.

mod design;
mod fleet;
mod outcome;
mod saved;
mod view;

use std::collections::{BTreeMap, HashMap, VecDeque};

use serde::{Deserialize, Serialize};
use tcpilot_abi::{TP_TRIAL_COUNTS, TP_TRIAL_HELD_OUT, tp_record};
use tcpilot_config::{Effect as Keys, HoldOut};
use tcpilot_core::choice_dist::{AssignmentSecrets, assignment_bucket};
use tcpilot_kernel::{ASSIGNMENT_BUCKETS, AssignmentBuckets};
use tcpilot_learner::lineage::Key;
use tcpilot_proof::{
    Arm, History, Outcome, Point, Schedule, Sequence, Trial,
    guard::Limits,
    trial::{Alarm, Terms},
};

use super::{choice_dists::prefix_of, clock::Clock};

use design::{ACTIVE_S, ALL, Activity, HostFacts};
pub use fleet::POLICY as FLEET;
pub use fleet::{FIRST, FleetEffect};
use outcome::outcome;
pub use saved::{POLICY, Saved, secrets};

/// Maximum number of remembered stops by guards.
const STOPS_MAX: usize = 32;
/// Maximum number of hours with remembered algorithms of connections.
const CHOICES_MAX: usize = 24 * 14;

/// The table of assignment buckets, `enum tp_trial` each, for the BPF programs; in tests an array.
pub trait AssignmentTable: Send {
    /// Writes all assignment buckets.
    fn set(&mut self, all: &[u8; ASSIGNMENT_BUCKETS]);
}

impl AssignmentTable for AssignmentBuckets {
    fn set(&mut self, all: &[u8; ASSIGNMENT_BUCKETS]) {
        AssignmentBuckets::set(self, all);
    }
}

/// The number of connections with each algorithm in an hour.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
struct Choices {
    hour: u64,
    connections: BTreeMap<String, u64>,
}

/// A stop by a guard, for people.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct Stop {
    /// The group's addresses; empty for the whole host.
    group: String,
    harm: f64,
    at_s: u64,
    until_s: u64,
    /// Whether the fleet's knowledge went in place of steering.
    fleet: bool,
}

/// Counts of ended connections of 16 KiB or more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
struct Counts {
    all: u64,
    held_out: u64,
    /// Connections in counted blocks.
    compared: u64,
}

/// Everything kept besides the trials.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct Past {
    since_s: u64,
    /// End of a trial without pauses.
    trial_until_s: u64,
    design: String,
    /// The lengths in the blocks' schedule.
    lengths_s: [u64; 2],
    counts: Counts,
    history: History,
    choices: VecDeque<Choices>,
    stops: VecDeque<Stop>,
}

/// The comparison of steered and held-out connections, see the module's comment.
pub struct Effect {
    keys: Keys,
    secrets: AssignmentSecrets,
    buckets: Box<dyn AssignmentTable>,
    clock: Clock,
    terms: Terms,
    past: Past,
    design: HoldOut,
    schedule: Schedule,
    /// The trial of all policies together.
    whole: Trial,
    /// The trial of each policy. Only `whole` has guards.
    policies: BTreeMap<String, Trial>,
    /// The addresses of groups.
    names: HashMap<u64, String>,
    active: Activity,
    /// Whether a queue of this host is often full; `None` if not known yet.
    is_full: Option<bool>,
    started_s: u64,
    /// What the guards have found since the last call of `react`.
    alarms: Vec<Alarm>,
    /// When `turn` has something to do next.
    next_s: u64,
    unsaved_all: bool,
}

impl Effect {
    /// Goes on from the saved state.
    pub fn open(
        keys: Keys,
        saved: Saved,
        buckets: Box<dyn AssignmentTable>,
        clock: Clock,
    ) -> Effect {
        let limits = (keys.guard_percent > 0).then(|| Limits {
            harm: f64::from(keys.guard_percent) / 100.0,
            pause_s: keys.guard_pause_s.into(),
            ..Limits::default()
        });
        let terms = Terms {
            least: keys.connections_min.into(),
            limits,
            ..Terms::default()
        };
        let design = HoldOut::by_word(&saved.past.design).unwrap_or(HoldOut::Block);
        let secret = [saved.secrets[4], saved.secrets[6]];
        let mut effect = Effect {
            schedule: design::schedule(&keys, design, false, secret),
            secrets: saved.secrets,
            past: Past::default(),
            design,
            whole: Trial::default(),
            policies: BTreeMap::new(),
            names: HashMap::new(),
            active: Activity::default(),
            is_full: None,
            started_s: clock.now_s().max(0.0) as u64,
            alarms: Vec::new(),
            next_s: 0,
            unsaved_all: true,
            keys,
            buckets,
            clock,
            terms,
        };
        effect.restore(saved);
        let is_trial = effect.is_trial(effect.now_s());
        effect.schedule = design::schedule(&effect.keys, design, is_trial, secret);
        effect.turn();
        effect
    }

    fn now_s(&self) -> u64 {
        self.clock.now_s().max(0.0) as u64
    }

    /// Whether anything is held out at all.
    fn is_on(&self) -> bool {
        self.keys.hold_out_percent > 0 || self.is_trial(self.now_s())
    }

    fn is_trial(&self, now_s: u64) -> bool {
        now_s < self.past.trial_until_s
    }

    /// Compares without pauses for this many seconds; 0 ends the trial.
    pub fn set_trial(&mut self, seconds: u64) {
        self.past.trial_until_s = self.now_s().saturating_add(seconds);
        self.next_s = 0;
        self.turn();
    }

    /// Notes whether a queue of this host is often full.
    pub fn set_full(&mut self, is_full: Option<bool>) {
        self.is_full = is_full;
    }

    /// Takes a record; its connection has this `algorithm`.
    pub fn take(
        &mut self,
        record: &tp_record,
        policy: &str,
        algorithm: Option<&str>,
        ticks_per_s: u32,
    ) {
        let Some(seen) = outcome(record, ticks_per_s) else {
            return;
        };
        if tcpilot_proof::outcome::class(seen.bytes).is_none() {
            return;
        }
        let now_s = self.now_s();
        let bucket = assignment_bucket(&self.secrets, &record.remote);
        self.active.note(bucket.into(), now_s);
        self.past.counts.all += 1;
        let trial = u32::from(record.trial);
        if trial & TP_TRIAL_HELD_OUT != 0 {
            self.past.counts.held_out += 1;
        }
        self.note_choice(now_s, algorithm);
        if trial & TP_TRIAL_COUNTS == 0 {
            return;
        }
        let started_s = self.clock.seconds(record.opened_ns).max(0.0) as u64;
        let group = design::group_of(self.design, bucket);
        // When blocks change, a connection may open a moment before its assignment bucket is written.
        let expected = match trial & TP_TRIAL_HELD_OUT {
            0 => Arm::Treated,
            _ => Arm::Control,
        };
        if self.schedule.arm(group, started_s) == expected {
            self.compare(group, started_s, &seen, policy, record);
        }
    }

    fn compare(
        &mut self,
        group: u64,
        started_s: u64,
        seen: &Outcome,
        policy: &str,
        record: &tp_record,
    ) {
        let Effect {
            schedule, terms, ..
        } = self;
        if !self.whole.take(group, started_s, seen, schedule, terms) {
            return;
        }
        self.past.counts.compared += 1;
        let no_guard = Terms {
            limits: None,
            ..*terms
        };
        let of_policy = self.policies.entry(policy.to_owned()).or_default();
        of_policy.take(group, started_s, seen, schedule, &no_guard);
        if group != ALL && !self.names.contains_key(&group) {
            let lineage = super::translate::lineage(record);
            let name = prefix_of(&lineage.group).to_string();
            self.names.insert(group, name);
        }
    }

    fn note_choice(&mut self, now_s: u64, algorithm: Option<&str>) {
        let hour = now_s / 3600;
        if self
            .past
            .choices
            .back()
            .is_none_or(|last| last.hour != hour)
        {
            if self.past.choices.len() >= CHOICES_MAX {
                self.past.choices.pop_front();
            }
            self.past.choices.push_back(Choices {
                hour,
                ..Choices::default()
            });
        }
        if let Some(last) = self.past.choices.back_mut() {
            let name = algorithm.unwrap_or("other").to_owned();
            *last.connections.entry(name).or_default() += 1;
        }
    }

    /// Counts finished blocks, and changes assignment buckets in time. Call it often.
    pub fn turn(&mut self) {
        let now_s = self.now_s();
        if now_s < self.next_s {
            return;
        }
        self.close(now_s);
        self.redesign(now_s);
        self.write_buckets(now_s);
        // The shortest wait, one second, is soon enough for every change.
        let next_s = self.schedule.next_change_s(now_s);
        let stops = self
            .whole
            .stopped(now_s)
            .map(|(_, until_s)| until_s - now_s);
        let host = self.whole.host.guard.stopped_until(now_s);
        let stops = stops.chain(host.map(|until_s| until_s - now_s)).min();
        let late_s = self.keys.block_s.into();
        self.next_s = now_s + next_s.min(stops.unwrap_or(u64::MAX)).min(late_s).max(1);
    }

    fn close(&mut self, now_s: u64) {
        let before = self.whole.host.effects.goodput.count;
        let alarms = self.whole.close_until(now_s, &self.schedule, &self.terms);
        let no_guard = Terms {
            limits: None,
            ..self.terms
        };
        for trial in self.policies.values_mut() {
            trial.close_until(now_s, &self.schedule, &no_guard);
        }
        let goodput = self.whole.host.effects.goodput;
        let interval = goodput.interval(&Sequence::default());
        if let Some(interval) = interval.filter(|_| goodput.count > before) {
            self.past.history.add(Point {
                at_s: now_s,
                pairs: goodput.count,
                interval,
            });
        }
        self.alarms.extend(alarms);
    }

    /// Reacts to what the guards have found. The first thing to go is what other hosts say of the place: `refuse` drops it
    /// for the groups that it is asked for, and says whether any of it was in use. Steering stops there if nothing was, or if the
    /// harm goes on without it. Call it after [`Effect::turn`].
    pub fn react(&mut self, mut refuse: impl FnMut(&dyn Fn(&Key) -> bool) -> bool) {
        if self.alarms.is_empty() {
            return;
        }
        let mut alarms = std::mem::take(&mut self.alarms);
        alarms.sort_by_key(|alarm| alarm.group); // that of the host first: it has all groups
        let (now_s, mut all_refused) = (self.now_s(), false);
        for alarm in alarms {
            let is_of = |key: &Key| {
                let bucket = self.assignment_bucket(&prefix_of(key));
                let group = design::group_of(self.design, bucket);
                alarm.group.is_none_or(|one| one == group)
            };
            let refused = refuse(&is_of) || all_refused;
            all_refused |= refused && alarm.group.is_none();
            let goes_on = refused && alarm.is_first;
            if goes_on {
                self.whole.go_on(alarm.group);
            }
            self.note_stop(&alarm, goes_on, now_s);
        }
        self.write_buckets(now_s);
    }

    fn note_stop(&mut self, alarm: &Alarm, goes_on: bool, now_s: u64) {
        let name = |group: u64| self.name(group).to_owned();
        let stop = Stop {
            group: alarm.group.map(name).unwrap_or_default(),
            harm: -(-alarm.harm).exp_m1(),
            at_s: now_s,
            until_s: if goes_on { now_s } else { alarm.until_s },
            fleet: goes_on,
        };
        let what = if goes_on {
            "found harm"
        } else {
            "stopped steering"
        };
        tracing::warn!("the guard has {what}: {}", stop.sentence(now_s));
        if self.past.stops.len() >= STOPS_MAX {
            self.past.stops.pop_front();
        }
        self.past.stops.push_back(stop);
    }

    /// Chooses design and schedule again. Blocks of another design, or of another length, are not
    /// comparable, so open ones are dropped.
    fn redesign(&mut self, now_s: u64) {
        let is_trial = self.is_trial(now_s);
        let known = HostFacts {
            is_full: self.is_full,
            groups: self.active.count(now_s),
            is_young: now_s.saturating_sub(self.started_s) < ACTIVE_S,
        };
        let design = design::choose(&self.keys, self.design, is_trial, &known);
        let secret = self.schedule.secret;
        let schedule = design::schedule(&self.keys, design, is_trial, secret);
        let lengths_s = match schedule.is_by_prefix() {
            true => [schedule.period_s, 0],
            false => [schedule.block_s, schedule.settle_s],
        };
        if (design.word(), lengths_s) != (self.past.design.as_str(), self.past.lengths_s) {
            if self.is_on() {
                tracing::info!(
                    hold_out = design.word(),
                    "some connections keep the kernel's default, for `tcpilot report`"
                );
            }
            self.whole.break_off();
            self.policies.values_mut().for_each(Trial::break_off);
            self.past.design = design.word().to_owned();
            self.past.lengths_s = lengths_s;
        } else if schedule != self.schedule {
            // A trial begins or ends. A block free until now is not complete, so it does not count.
            self.whole.break_off();
            self.policies.values_mut().for_each(Trial::break_off);
        }
        (self.design, self.schedule) = (design, schedule);
    }

    /// A stop is in force also while nothing is held out: it was found in a trial.
    fn write_buckets(&mut self, now_s: u64) {
        let mut all = Box::new([0; ASSIGNMENT_BUCKETS]);
        let is_on = self.is_on();
        let stopped: HashMap<u64, u64> = self.whole.stopped(now_s).collect();
        let is_stopped = !self.whole.host.guard.allows(now_s);
        let of_host = (self.design == HoldOut::Host).then(|| self.says(ALL, now_s));
        for (bucket, group) in all.iter_mut().zip(design::groups(self.design)) {
            *bucket = match of_host {
                _ if is_stopped || stopped.contains_key(&group) => TP_TRIAL_HELD_OUT as u8,
                _ if !is_on => 0,
                Some(says) => says,
                None => self.says(group, now_s),
            };
        }
        self.buckets.set(&all);
    }

    /// The `enum tp_trial` of a group by the schedule, without the guards.
    fn says(&self, group: u64, now_s: u64) -> u8 {
        let held_out = match self.schedule.steers(group, now_s) {
            true => 0,
            false => TP_TRIAL_HELD_OUT,
        };
        let counts = match self.schedule.arm(group, now_s) {
            Arm::Treated | Arm::Control => TP_TRIAL_COUNTS,
            Arm::Free | Arm::Settling => 0,
        };
        (held_out | counts) as u8
    }

    /// Forgets all results; the guards are reset too.
    pub fn reset(&mut self) {
        self.past = Past {
            since_s: self.now_s(),
            trial_until_s: self.past.trial_until_s,
            ..Past::default()
        };
        self.whole = Trial::default();
        self.policies.clear();
        self.names.clear();
        (self.unsaved_all, self.next_s) = (true, 0);
        self.turn();
    }
}

#[cfg(test)]
mod tests;
