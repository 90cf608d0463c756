//! A fleet's part in the learners: rows of this host's knowledge, and of the others' knowledge
//! (docs/understand/decisions/37-fleet-daemon.md).

use std::sync::Arc;

use tcpilot_config::{Config, Hear, LearnerKind};
use tcpilot_fleet::{
    Group, Message, Row,
    format::check_sum,
    state::{CONNECTIONS_MIN, PATHS_MIN, QUARTER_S},
};
use tcpilot_learner::{
    learner::{Facts, Heard},
    lineage::Key,
};

use super::{
    Learning,
    effect::FleetEffect,
    learners::Learners,
    policy_learner::{PolicyLearner, PolicySettings},
};

/// Version of the reward's code. Raise it if the same connection gets another reward: hosts merge only equal rewards.
const REWARD_VERSION: u8 = 1;

/// Groups in one question to the learner's thread: some milliseconds of work.
const AT_ONCE: usize = 1024;

/// A policy, as a fleet needs to know it.
#[derive(Clone, Debug, PartialEq)]
pub struct FleetPolicy {
    pub name: String,
    /// The default first.
    pub algorithms: Vec<String>,
    /// The meaning of its rewards.
    pub reward: u64,
    /// Records used for updates: as long as it is the same, this host's knowledge only ages.
    pub updates: u64,
    /// Whether its learner can begin with the others' knowledge.
    pub can_hear: bool,
    /// A number that changes with the sites held back from the fleet.
    pub period: u64,
}

/// What became of the rows of a heard state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeardRows {
    pub taken: u64,
    /// Of groups that have changed.
    pub changed: u64,
    /// Of unknown groups without room.
    pub no_room: u64,
}

/// A hash of everything that gives a reward its meaning.
fn reward(settings: &PolicySettings) -> u64 {
    let reward = &settings.constants.reward;
    let numbers = [
        reward.gamma,
        reward.beta,
        reward.dead_zone_us,
        reward.bytes_min as f64,
        reward.bdps,
        reward.weight_min,
        reward.timeout_cost,
        reward.interval_memory_s,
        settings.rescue_cost,
    ];
    let bytes = numbers.iter().flat_map(|x| x.to_le_bytes());
    check_sum(
        &std::iter::once(REWARD_VERSION)
            .chain(bytes)
            .collect::<Vec<u8>>(),
    )
}

impl PolicyLearner {
    /// At most `most` rows of this host's knowledge, from a number on; and the number to go on with. A group of few
    /// connections of few paths is not said, and neither is a private one.
    fn own_rows(&mut self, from: u32, most: usize, now_s: f64) -> (Vec<Row>, Option<u32>) {
        let (mut rows, measures) = (Vec::new(), &self.measures);
        let learner = self.learner.estimates_mut();
        let next = learner.own_groups(from, most, now_s, |own| {
            let connections = own.paths.iter().map(|path| measures.connections(path));
            let connections = connections.fold(0, u32::saturating_add);
            let paths = own.paths.len() as u32;
            if paths < PATHS_MIN && connections < CONNECTIONS_MIN {
                return;
            }
            let row = Group::of(own.key).and_then(|group| {
                Ok(Row {
                    group,
                    paths_log2: paths.max(1).ilog2() as u8,
                    doubt: own.doubt as u8,
                    age_quarters: ((now_s - own.seen_s) / QUARTER_S).clamp(0.0, 255.0) as u8,
                    losses: own.bouts.into(),
                    said: Message::new(own.numbers)?,
                })
            });
            rows.extend(row);
        });
        (rows, next)
    }

    fn hear(
        &mut self,
        rows: &[Row],
        left: f64,
        held_back: Option<&FleetEffect>,
        now_s: f64,
    ) -> HeardRows {
        let mut heard = HeardRows::default();
        let learner = self.learner.estimates_mut();
        for row in rows {
            let key = row.group.key();
            let facts = Facts {
                paths_log2: row.paths_log2,
                age_s: f64::from(row.age_quarters) * QUARTER_S,
                bouts: row.losses.bouts(left),
                is_held_back: held_back.is_some_and(|fleet| fleet.is_held_back(&key)),
            };
            match learner.hear(&key, row.said.numbers(), left, facts, now_s) {
                Heard::Taken => heard.taken += 1,
                Heard::Changed => heard.changed += 1,
                Heard::NoRoom => heard.no_room += 1,
                // The decoder has refused what no host can know.
                Heard::Unusable => {}
            }
        }
        heard
    }

    /// Drops what others say of these groups, and hears nothing of them for a while; whether any of it was in use.
    pub(super) fn refuse_foreign(&mut self, is_of: &dyn Fn(&Key) -> bool, now_s: f64) -> bool {
        let learner = self.learner.estimates_mut();
        let groups = learner.foreign_groups().map(|node| node.key);
        let groups: Vec<Key> = groups.filter(|key| is_of(key)).collect();
        let refused = groups.iter().map(|key| learner.refuse_foreign(key, now_s));
        refused.fold(false, |any, one| any | one)
    }
}

/// Why no site is held back from the fleet; `None` if some are.
pub fn no_fleet(keys: &Config) -> Option<&'static str> {
    match &keys.fleet {
        None => Some("this host is in no fleet: its configuration has no [fleet]"),
        Some(fleet) if fleet.hear != Hear::On => {
            Some("no connection uses the fleet: set hear = \"on\" in [fleet]")
        }
        _ if keys.learner.common.kind != LearnerKind::THOMPSON => {
            Some("this learner hears nothing of the fleet")
        }
        _ if keys.dry_run => Some("in a dry run nothing is steered"),
        _ if keys.effect.hold_out_percent == 0 => {
            Some("no site is held back (hold_out_percent in [effect] is 0), so nobody can say")
        }
        _ => None,
    }
}

impl Learners {
    /// The policies, in the learners' order.
    pub fn fleet_policies(&self) -> Vec<FleetPolicy> {
        let period = self.fleet.as_ref().map_or(0, FleetEffect::period);
        let policy = |policy: &PolicyLearner| FleetPolicy {
            name: policy.settings.name.clone(),
            algorithms: policy.settings.arms.names().to_vec(),
            reward: reward(&policy.settings),
            updates: policy.updates,
            can_hear: policy.settings.greedy.is_none(),
            period,
        };
        self.policies.iter().map(policy).collect()
    }

    /// See [`PolicyLearner::own_rows`].
    pub fn own_rows(&mut self, policy: usize, from: u32, most: usize) -> (Vec<Row>, Option<u32>) {
        let now_s = self.clock.now_s();
        let policy = self.policies.get_mut(policy);
        policy.map_or((Vec::new(), None), |policy| {
            policy.own_rows(from, most, now_s)
        })
    }

    /// Hears some rows of a state, `left` times what they say. What is not among the rows from the first to the last is
    /// dropped after the last.
    pub fn hear(
        &mut self,
        policy: usize,
        rows: &[Row],
        left: f64,
        (is_first, is_last): (bool, bool),
    ) -> HeardRows {
        let now_s = self.clock.now_s();
        let Some(policy) = self.policies.get_mut(policy) else {
            return HeardRows::default();
        };
        if is_first {
            policy.learner.estimates_mut().begin_hearing(now_s);
        }
        let heard = policy.hear(rows, left, self.fleet.as_ref(), now_s);
        if is_last {
            policy.learner.estimates_mut().end_hearing();
        }
        heard
    }
}

impl Learning {
    /// The policies, in the learners' order; `None` if the thread does not answer.
    pub fn fleet_policies(&self) -> Option<Vec<FleetPolicy>> {
        self.ask(|learners| learners.fleet_policies())
    }

    /// All that this host knows of groups under a policy; `None` if the thread does not answer.
    pub fn own_rows(&self, policy: usize) -> Option<Vec<Row>> {
        let (mut rows, mut from) = (Vec::new(), Some(0));
        while let Some(at) = from {
            let (some, next) = self.ask(move |learners| learners.own_rows(policy, at, AT_ONCE))?;
            rows.extend(some);
            from = next;
        }
        Some(rows)
    }

    /// Hears a whole state; `None` if the thread does not answer. Then a part of it may have been heard.
    pub fn hear(&self, policy: usize, rows: Vec<Row>, left: f64) -> Option<HeardRows> {
        let rows = Arc::new(rows);
        let parts = rows.len().div_ceil(AT_ONCE).max(1);
        let mut all = HeardRows::default();
        for part in 0..parts {
            let rows = Arc::clone(&rows);
            let ends = (part == 0, part + 1 == parts);
            let heard = self.ask(move |learners| {
                let from = part * AT_ONCE;
                let to = (from + AT_ONCE).min(rows.len());
                learners.hear(policy, &rows[from..to], left, ends)
            })?;
            all.taken += heard.taken;
            all.changed += heard.changed;
            all.no_room += heard.no_room;
        }
        Some(all)
    }
}

#[cfg(test)]
mod tests;
