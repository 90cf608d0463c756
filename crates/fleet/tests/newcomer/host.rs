//! A host of the simulation: the real learner, which hears foreign messages as a daemon's does.

use std::collections::BTreeMap;

use tcpilot_fleet::{Group, Groups, Message};
use tcpilot_learner::gaussian::Information;
use tcpilot_learner::learner::{Facts, Heard};
use tcpilot_learner::regression::Features;
use tcpilot_learner::reward::Reward;
use tcpilot_learner::{Learner, Observation, Outcome, Settings, Thompson};
use tcpilot_random::Random;

use crate::world::{ARMS, CONTRASTS, PATHS, Traffic, World, lineage, noise};

pub type Known = Information<CONTRASTS>;

/// A learner and its draws.
pub struct Host {
    number: u64,
    traffic: Traffic,
    learner: Thompson,
    random: Random,
    /// Numbers of the groups' nodes, to ask for one group.
    nodes: BTreeMap<Group, u32>,
}

/// What one connection cost.
#[derive(Clone, Copy, Default)]
pub struct Cost {
    /// Expected nats below the best algorithm.
    pub regret: f64,
    /// Nats of the best algorithm above the default.
    pub possible: f64,
    /// Probability of the best algorithm.
    pub best: f64,
}

fn unpacked(numbers: &[f32]) -> Known {
    let mut known = Known::NONE;
    let mut next = numbers.iter().map(|x| f64::from(*x));
    for i in 0..CONTRASTS {
        for j in 0..=i {
            known.precision[i][j] = next.next().unwrap();
            known.precision[j][i] = known.precision[i][j];
        }
    }
    known.shift = std::array::from_fn(|_| next.next().unwrap());
    known
}

/// The default ones, but nobody else stands in these worlds' queues.
fn settings() -> Settings {
    let mut settings = Settings::default();
    settings.choice.shared_bonus = 0.0;
    settings
}

impl Host {
    pub fn new(seed: u64, number: u64) -> Self {
        Self::with(seed, number, Traffic::LARGE)
    }

    pub fn with(seed: u64, number: u64, traffic: Traffic) -> Self {
        let mut learner = Thompson::new(ARMS, settings()).unwrap();
        learner.use_foreign(true);
        Self {
            number,
            traffic,
            learner,
            random: Random::of(&[seed, 4, number]),
            nodes: BTreeMap::new(),
        }
    }

    /// One connection to a group.
    pub fn connect(&mut self, world: &World, group: usize, at_s: f64) -> Cost {
        let (cost, seen) = self.meet(world, group, at_s);
        self.learn(&seen);
        cost
    }

    /// Learns from a connection of its own.
    pub fn learn(&mut self, seen: &Observation) {
        self.learner.observe(seen).unwrap();
    }

    /// One connection to a group: its cost, and what is to be learned from it.
    pub fn meet(&mut self, world: &World, group: usize, at_s: f64) -> (Cost, Observation) {
        let path = self.random.below(PATHS);
        let lineage = lineage(group, path);
        let (whole, baseline) = world.path(self.number, group, path);
        let rewards = self.traffic.rewards(whole, world.waste(group));
        let shares = self.learner.plan(&lineage, at_s).shares;
        let highest = rewards.iter().copied().fold(f64::MIN, f64::max);
        let cost = shares
            .iter()
            .zip(rewards)
            .fold(Cost::default(), |sum, (share, reward)| Cost {
                regret: sum.regret + share * (highest - reward),
                possible: highest,
                best: if reward == highest { *share } else { sum.best },
            });
        let arm = self.random.weighted(shares[..ARMS].iter().copied());
        let nats = 13.0 + baseline + rewards[arm] + noise(&mut self.random, self.traffic.noise);
        let features = Features {
            handshake_rtt_us: 40_000.0,
            bytes: self.traffic.bytes,
            ..Features::default()
        };
        let outcome = Outcome::Reward(Reward {
            nats,
            weight: self.traffic.weight,
        });
        let seen = Observation {
            lineage,
            arm,
            outcome,
            features,
            at_s,
            bouts: tcpilot_learner::sharing::Bouts::CLEAR,
            since_last_s: None,
            segments: 0,
            is_switched: false,
            beside: 1,
        };
        (cost, seen)
    }

    /// How often it doubted each group, since its start.
    pub fn doubts(&mut self, now_s: f64) -> BTreeMap<Group, u16> {
        let mut doubts = BTreeMap::new();
        self.learner.own_groups(0, usize::MAX, now_s, |own| {
            doubts.insert(Group::of(own.key).unwrap(), own.doubt);
        });
        doubts
    }

    /// Its own knowledge of all groups, without anything heard.
    pub fn knowledge(&mut self, now_s: f64) -> Groups<CONTRASTS> {
        let mut known = Groups::new();
        self.learner.own_groups(0, usize::MAX, now_s, |own| {
            let group = Group::of(own.key).unwrap();
            known.insert(group, unpacked(own.numbers));
        });
        known
    }

    /// The same of one group; `None` if there is none.
    pub fn knowledge_of(&mut self, group: Group, now_s: f64) -> Option<Known> {
        if !self.nodes.contains_key(&group) {
            self.find_nodes(now_s);
        }
        let node = *self.nodes.get(&group)?;
        let mut known = None;
        self.learner.own_groups(node, 1, now_s, |own| {
            assert_eq!(Group::of(own.key).unwrap(), group);
            known = Some(unpacked(own.numbers));
        });
        known
    }

    fn find_nodes(&mut self, now_s: f64) {
        let mut node = Some(0);
        while let Some(from) = node {
            node = self.learner.own_groups(from, 1, now_s, |own| {
                self.nodes.insert(Group::of(own.key).unwrap(), from);
            });
        }
    }

    /// Replaces the foreign message of one group by a part of this one.
    pub fn hear_one(&mut self, group: Group, said: &Known, part: f64, now_s: f64) {
        if let Ok(said) = Message::of(said) {
            let facts = Facts::default();
            let key = group.key();
            self.learner.hear(&key, said.numbers(), part, facts, now_s);
        }
    }

    /// Replaces the foreign messages.
    pub fn hear(&mut self, foreign: &Groups<CONTRASTS>, now_s: f64) {
        let facts = Facts::default();
        self.learner.begin_hearing(now_s);
        for (group, said) in foreign {
            let Ok(said) = Message::of(said) else {
                continue;
            };
            let key = group.key();
            let heard = self.learner.hear(&key, said.numbers(), 1.0, facts, now_s);
            assert_ne!(heard, Heard::Unusable);
        }
        self.learner.end_hearing();
    }
}
