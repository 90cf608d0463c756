//! The counts of the learners, for the daemon's successor.
//!
//! Knowledge reaches the next program through the state file, but counts are in no file. The next program
//! inherits the map with the BPF programs' counts, so they go on. This module carries the learners' counts
//! over. Their JSON keeps its former names, for programs of other versions.

use std::{borrow::Cow, collections::BTreeMap};

use serde::{Deserialize, Serialize};
use tcpilot_learner::{Level, NodeKey, learner::Alarm, lineage::Key};

use super::{
    learners::Learners,
    origin::{Origin, SharedCounts},
    policy_learner::{Drawn, PolicyLearner},
    switches::{Switched, Switches},
};

/// The counts of all policies.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Counts {
    #[serde(rename = "room")]
    shared: SharedCounts,
    domains: Vec<(u32, Origin)>,
    policies: Vec<OfPolicy>,
}

/// The counts of one policy, by the algorithms' names: their numbers may differ in the next program.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct OfPolicy {
    name: String,
    #[serde(rename = "taught")]
    updates: u64,
    #[serde(rename = "silent")]
    rejected: BTreeMap<Cow<'static, str>, u64>,
    drawn: Vec<(String, Drawn)>,
    switched: Vec<(Named, Switched)>,
    alarms: Vec<(Named, f64)>,
}

/// The key of a path or node. The prefix is in two halves, because numbers in JSON have 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Named {
    level: u8,
    prefix: [u64; 2],
    len: u8,
    class: u16,
    domain: u32,
}

impl Named {
    fn new(node: &NodeKey) -> Named {
        Named {
            level: node.level as u8,
            prefix: [(node.key.prefix >> 64) as u64, node.key.prefix as u64],
            len: node.key.len,
            class: node.key.class,
            domain: node.key.domain,
        }
    }

    fn node(&self) -> Option<NodeKey> {
        let [high, low] = self.prefix.map(u128::from);
        Some(NodeKey {
            level: Level::from_number(self.level)?,
            key: Key {
                prefix: high << 64 | low,
                domain: self.domain,
                class: self.class,
                len: self.len,
            },
        })
    }
}

impl Learners {
    /// The counts of former programs and of this one.
    pub fn counted(&self) -> SharedCounts {
        SharedCounts {
            records: self.before.records + self.records,
            dropped: self.before.dropped + self.dropped,
            publications: self.before.publications + self.publications,
        }
    }

    /// All counts so far.
    pub fn counts(&self) -> Counts {
        Counts {
            shared: self.counted(),
            domains: self
                .domains
                .iter()
                .map(|(of, (origin, _))| (*of, *origin))
                .collect(),
            policies: self.policies.iter().map(OfPolicy::new).collect(),
        }
    }

    /// Continues from a former program's counts. Skips former policies and algorithms.
    pub fn go_on(&mut self, counts: Counts) {
        self.before = counts.shared;
        let domains = counts.domains.into_iter();
        self.domains
            .extend(domains.map(|(of, origin)| (of, (origin, 0))));
        for of in counts.policies {
            let is_it = |policy: &&mut PolicyLearner| policy.settings.name == of.name;
            if let Some(policy) = self.policies.iter_mut().find(is_it) {
                of.add_to(policy);
            }
        }
    }
}

impl OfPolicy {
    fn new(policy: &PolicyLearner) -> OfPolicy {
        let names = policy.settings.arms.names().iter().cloned();
        let switched = policy.switches.all();
        let alarms = policy.learner.alarms();
        OfPolicy {
            name: policy.settings.name.clone(),
            updates: policy.updates,
            rejected: policy.rejected.clone(),
            drawn: names.zip(policy.drawn.iter().copied()).collect(),
            switched: switched.map(|(path, of)| (Named::new(path), *of)).collect(),
            alarms: alarms
                .map(|alarm| (Named::new(&alarm.key), alarm.at_s))
                .collect(),
        }
    }

    fn add_to(self, policy: &mut PolicyLearner) {
        policy.updates += self.updates;
        for (why, count) in self.rejected {
            *policy.rejected.entry(why).or_default() += count;
        }
        for (name, before) in self.drawn {
            let number = policy
                .settings
                .arms
                .names()
                .iter()
                .position(|known| *known == name);
            if let Some(drawn) = number.and_then(|number| policy.drawn.get_mut(number)) {
                drawn.connections += before.connections;
                drawn.probability += before.probability;
            }
        }
        let switched = self.switched.into_iter();
        policy.switches =
            Switches::of_all(switched.filter_map(|(path, of)| Some((path.node()?, of))));
        let mut alarms = self.alarms.iter().filter_map(|(named, at_s)| {
            let key = named.node()?;
            Some(Alarm { key, at_s: *at_s })
        });
        policy.learner.remember_alarms(&mut alarms);
    }
}

#[cfg(test)]
#[path = "counts_tests.rs"]
mod tests;
