//! A host of the simulation: the real learner, with a foreign message per group.
//!
//! The learner has no call for foreign messages yet. They enter by its saved rows: a group's row has a place for the knowledge
//! of forgotten paths, and a foreign message counts like one. Its own sum comes from the group's message to the site in the
//! same row.

use std::collections::BTreeMap;

use tcpilot_fleet::age::aged;
use tcpilot_fleet::{Group, Groups};
use tcpilot_learner::bytes::{Reader, Writer};
use tcpilot_learner::gaussian::Information;
use tcpilot_learner::learner::{KEY_BYTES, key_bytes};
use tcpilot_learner::linalg::{cholesky, solve};
use tcpilot_learner::lineage::{Key, Level, NodeKey};
use tcpilot_learner::regression::Features;
use tcpilot_learner::reward::Reward;
use tcpilot_learner::{Learner, Observation, Outcome, Settings, Thompson};
use tcpilot_random::Random;

use crate::world::{ARMS, CONTRASTS, PATHS, World, lineage, noise};

pub type Known = Information<CONTRASTS>;

const NUMBERS: usize = tcpilot_fleet::message::numbers(CONTRASTS);

/// Half-life of a site's knowledge: its row tells by it how old a message is.
const SITE_HALF_LIFE_S: f64 = 86_400.0;

/// A learner and its draws.
pub struct Host {
    number: u64,
    learner: Thompson,
    random: Random,
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

/// A node's row: the layout of `crates/learner/src/tree/saved.rs`.
struct NodeRow {
    as_of_s: f64,
    faded: f64,
    factor: f64,
    ledger: [f32; 2],
    told: Known,
    gone: Known,
}

fn unpacked(numbers: &[f32; NUMBERS]) -> Known {
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

fn packed(known: &Known) -> Vec<f32> {
    let rows = known.precision.iter().enumerate();
    let triangle = rows.flat_map(|(i, row)| row[..=i].iter());
    triangle.chain(&known.shift).map(|x| *x as f32).collect()
}

impl NodeRow {
    fn new(gone: Known) -> Self {
        Self {
            as_of_s: 0.0,
            faded: 0.0,
            factor: 1.0,
            ledger: [Settings::default().choice.ledger_start as f32, 0.0],
            told: Known::NONE,
            gone,
        }
    }

    fn read(row: &[u8]) -> Self {
        let mut row = Reader::new(row).unwrap();
        let [_, as_of_s, faded] = [(); 3].map(|()| row.f64().unwrap());
        let factor = f64::from(row.f32().unwrap());
        let (mut ledger, mut time_outs) = ([0.0; 2], [0.0; 2]);
        row.f32s(&mut ledger).unwrap();
        row.f32s(&mut time_outs).unwrap();
        row.u32().unwrap();
        let known = [(); 2].map(|()| {
            let mut numbers = [0.0; NUMBERS];
            row.f32s(&mut numbers).unwrap();
            unpacked(&numbers)
        });
        row.f32s(&mut [0.0; 2]).unwrap(); // bouts of loss
        row.done().unwrap();
        let [told, gone] = known;
        Self {
            as_of_s,
            faded,
            factor,
            ledger,
            told,
            gone,
        }
    }

    /// The row as of now, without its message to the parent: the learner sends it again.
    fn write(&self, now_s: f64) -> Vec<u8> {
        let mut row = Writer::new();
        row.f64(now_s).f64(now_s).f64(0.0).f32(1.0);
        row.f32s(&self.ledger).f32s(&[0.0; 2]).u32(0);
        row.f32s(&packed(&Known::NONE)).f32s(&packed(&self.gone));
        row.f32s(&[0.0; 2]);
        row.finish()
    }

    /// The sum behind the message: the reverse of `through`, `Λ(I − τ²Λ)⁻¹`.
    fn sum(&self, spread: f64, now_s: f64) -> Option<Known> {
        let mut told = self.told;
        told.scale(1.0 / self.factor.max(1e-2));
        let mut factor = told.precision.map(|row| row.map(|x| -spread * spread * x));
        (0..CONTRASTS).for_each(|i| factor[i][i] += 1.0);
        let factor = factor.as_flattened_mut();
        cholesky(factor, CONTRASTS, CONTRASTS).ok()?;
        let mut sum = told;
        solve(factor, CONTRASTS, CONTRASTS, &mut sum.shift);
        for i in 0..CONTRASTS {
            let mut column = told.precision[i];
            solve(factor, CONTRASTS, CONTRASTS, &mut column);
            for (j, x) in column.iter().enumerate().take(i + 1) {
                (sum.precision[i][j], sum.precision[j][i]) = (*x, *x);
            }
        }
        let elapsed_s = self.faded * SITE_HALF_LIFE_S + now_s - self.as_of_s;
        aged(&sum, elapsed_s)
    }
}

fn group_of(key: &[u8]) -> Option<Group> {
    (key.len() == KEY_BYTES && key[0] == Level::Group as u8).then_some(())?;
    let (class, prefix) = ([key[2], key[3]], key[8..].try_into().ok()?);
    let prefix = u128::from_be_bytes(prefix);
    Group::of(&Key {
        prefix,
        domain: 0,
        class: u16::from_be_bytes(class),
        len: key[1],
    })
    .ok()
}

/// The default ones, but nobody else stands in these worlds' queues.
fn settings() -> Settings {
    let mut settings = Settings::default();
    settings.choice.shared_bonus = 0.0;
    settings
}

impl Host {
    pub fn new(seed: u64, number: u64) -> Self {
        Self {
            number,
            learner: Thompson::new(ARMS, settings()).unwrap(),
            random: Random::of(&[seed, 4, number]),
        }
    }

    /// One connection to a group. `shadow` sees it as well.
    pub fn connect(
        &mut self,
        world: &World,
        group: usize,
        at_s: f64,
        shadow: Option<&mut Host>,
    ) -> Cost {
        let path = self.random.below(PATHS);
        let lineage = lineage(group, path);
        let (rewards, baseline) = world.path(self.number, group, path);
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
        let nats = 13.0 + baseline + rewards[arm] + noise(&mut self.random);
        let features = Features {
            handshake_rtt_us: 40_000.0,
            bytes: 1e6,
            ..Features::default()
        };
        let outcome = Outcome::Reward(Reward { nats, weight: 1.0 });
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
        self.learner.observe(&seen).unwrap();
        if let Some(shadow) = shadow {
            shadow.learner.observe(&seen).unwrap();
        }
        cost
    }

    fn rows(&mut self) -> BTreeMap<Vec<u8>, Vec<u8>> {
        let mut rows = BTreeMap::new();
        self.learner.save(true, |key, row| {
            rows.insert(key.to_vec(), row.unwrap().to_vec());
        });
        rows
    }

    /// Its own knowledge of all groups; call it only for hosts without foreign messages.
    pub fn knowledge(&mut self, now_s: f64) -> Groups<CONTRASTS> {
        let spread = self.learner.spread()[1];
        let rows = self.rows();
        let of = |(key, row): (&Vec<u8>, &Vec<u8>)| {
            let sum = NodeRow::read(row).sum(spread, now_s)?;
            Some((group_of(key)?, sum))
        };
        let groups = rows.iter().filter(|(key, _)| group_of(key).is_some());
        groups.filter_map(of).collect()
    }

    /// Replaces the foreign messages.
    pub fn hear(&mut self, foreign: &Groups<CONTRASTS>, now_s: f64) {
        let mut rows = self.rows();
        for (key, row) in &mut rows {
            let is_node = key.len() == KEY_BYTES && key[0] > 0;
            if is_node {
                let mut node = NodeRow::read(row);
                if let Some(group) = group_of(key) {
                    node.gone = foreign.get(&group).copied().unwrap_or(Known::NONE);
                }
                *row = node.write(now_s);
            }
        }
        for (group, said) in foreign {
            let key = key_bytes(&NodeKey {
                level: Level::Group,
                key: group.key(),
            });
            let row = || NodeRow::new(*said).write(now_s);
            rows.entry(key.to_vec()).or_insert_with(row);
        }
        let mut each = |take: &mut dyn FnMut(&[u8], &[u8])| {
            rows.iter().for_each(|(key, row)| take(key, row));
        };
        let restored = self.learner.take_up(&mut each, now_s);
        assert_eq!((restored.damaged, restored.head), (0, true));
    }
}
