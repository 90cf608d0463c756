//! epsilon-greedy in the daemon. It learns in the kernel: at a connection's end a BPF program charges a cost,
//! and rewrites the choice distribution of the connection's path (`bpf/pilot/greedy.h`). The daemon writes
//! none. It shows the shares and the costs, saves them, and keeps the estimates common to all learners.

use std::{collections::HashSet, sync::Arc};

use serde::{Deserialize, Serialize};
use tcpilot_abi::{tp_arm, tp_costs, tp_learner_config, tp_node_key, tp_window32, tp_window64};
use tcpilot_core::{
    choice_dist::{DistPlace, costs_key},
    learner,
};
use tcpilot_kernel::Costs;
use tcpilot_kernel::clock::{TICK_NS, monotonic_ns};
use tcpilot_learner::{
    Learner, Level, MAX_ARMS, NodeKey, Plan, Restored, Settings, Thompson,
    learner::{SaveRow, SavedRows, Unusable, View},
    lineage::Key,
};

use super::arms::Arms;
use crate::{
    figures::StoredAlgorithm,
    state::{OF_COSTS, SavedRow, is_of_costs},
};

/// The memory of the BPF program; in tests a map in memory.
pub trait Memory: Send + Sync {
    /// The costs under a key.
    fn get(&self, key: &tp_node_key) -> Option<tp_costs>;
    /// All costs.
    fn all(&self) -> Vec<tp_costs>;
    /// Puts costs in, and writes the resulting choice distribution.
    fn put(&self, costs: &tp_costs);
    /// Forgets everything but the choice distributions.
    fn clear(&self);
    /// Forgets the costs of these domains, but not their choice distributions; returns their keys.
    fn forget(&self, domains: &HashSet<u32>) -> Vec<tp_node_key>;
}

/// A failure of the kernel is logged: the path is unknown then, as if it were new.
impl Memory for Costs {
    fn get(&self, key: &tp_node_key) -> Option<tp_costs> {
        let found = Costs::get(self, key);
        found.unwrap_or_else(|error| {
            tracing::debug!(%error, "the costs of a path could not be read");
            None
        })
    }

    fn all(&self) -> Vec<tp_costs> {
        let mut all = Vec::new();
        if let Err(error) = self.for_each(|costs| all.push(*costs)) {
            tracing::warn!(%error, "the costs of paths could not be read");
        }
        all
    }

    fn put(&self, costs: &tp_costs) {
        if let Err(error) = Costs::put(self, costs) {
            tracing::debug!(%error, "the costs of a path could not be taken up");
        }
    }

    fn clear(&self) {
        if let Err(error) = Costs::clear(self) {
            tracing::warn!(%error, "the costs of paths could not be forgotten");
        }
    }

    fn forget(&self, domains: &HashSet<u32>) -> Vec<tp_node_key> {
        let mut forgotten = Vec::new();
        if let Err(error) = Costs::forget(self, domains, |key| forgotten.push(key)) {
            tracing::warn!(%error, "the costs of ended namespaces' paths could not be forgotten");
        }
        forgotten
    }
}

/// The memory shared by the learners of all policies, and the settings of their arithmetic.
#[derive(Clone)]
pub struct Greedy {
    /// The costs of all policies.
    pub memory: Arc<dyn Memory>,
    /// The constants.
    pub settings: tp_learner_config,
    /// Length of the windows of rates and round-trip times.
    pub window_ns: u64,
}

impl std::fmt::Debug for Greedy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Greedy")
    }
}

/// The learner of one policy.
pub struct EpsilonGreedy {
    estimates: Thompson,
    greedy: Greedy,
    policy: u8,
    arms: Arms,
    /// Costs changed after this time are still to be saved.
    saved_ns: u64,
    /// The keys of the costs in the file.
    saved: HashSet<Vec<u8>>,
    /// The learner's clock at the monotonic clock's zero, as of the start.
    zero_s: f64,
}

/// The costs of a path in the state file. Algorithms are kept by their names.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Saved {
    at_s: f64,
    instances: u32,
    max_delivery_rate: u64,
    min_rtt_us: u32,
    algorithms: Vec<StoredAlgorithm>,
}

fn key_bytes(key: &tp_node_key) -> Vec<u8> {
    let mut bytes = vec![OF_COSTS, key.level];
    bytes.extend(key.domain.to_be_bytes());
    bytes.extend(key.prefix.iter().flat_map(|word| word.to_ne_bytes()));
    bytes
}

fn key_of(bytes: &[u8], policy: u8) -> Option<tp_node_key> {
    let word = |at: usize| -> Option<[u8; 4]> { bytes.get(at..at + 4)?.try_into().ok() };
    let mut prefix = [0; 4];
    for (number, to) in prefix.iter_mut().enumerate() {
        *to = u32::from_ne_bytes(word(6 + 4 * number)?);
    }
    Some(tp_node_key {
        prefix,
        domain: u32::from_be_bytes(word(2)?),
        level: *bytes.get(1).filter(|_| bytes.len() == 22)?,
        policy,
        ..tp_node_key::default()
    })
}

/// When a saved row of costs was last changed, by the learner's clock; `None` if it is no such row.
pub fn costs_at_s(key: &[u8], row: &[u8]) -> Option<f64> {
    let saved = || serde_json::from_slice::<Saved>(row).ok();
    Some(is_of_costs(key).then(saved)??.at_s)
}

/// The domain in the key of saved costs; `None` if it is no such key.
pub fn domain_of_costs(key: &[u8]) -> Option<u32> {
    let key = is_of_costs(key).then(|| key_of(key, 0))?;
    Some(key?.domain)
}

impl EpsilonGreedy {
    /// The learner of a policy, with access to the memory of the learning program.
    ///
    /// # Errors
    /// As [`Thompson::new`].
    pub fn new(
        settings: Settings,
        greedy: Greedy,
        policy: u8,
        arms: Arms,
    ) -> Result<EpsilonGreedy, Unusable> {
        Ok(EpsilonGreedy {
            estimates: Thompson::new(arms.len(), settings)?,
            greedy,
            policy,
            arms,
            saved_ns: 0,
            saved: HashSet::new(),
            zero_s: 0.0,
        })
    }

    /// The costs of a path or node; nodes above the groups have none.
    fn costs(&self, node: &NodeKey) -> Option<tp_costs> {
        if node.level > Level::Group {
            return None;
        }
        let bits = node.key.prefix;
        let key = costs_key(&DistPlace {
            remote: [96, 64, 32, 0].map(|shift| ((bits >> shift) as u32).to_be()),
            domain: node.key.domain,
            policy: self.policy,
            class: 0,
        });
        self.greedy.memory.get(&key)
    }

    /// The shares of the choice distribution resulting from these costs; without costs the default stays.
    fn plan(&self, costs: Option<&tp_costs>) -> Plan {
        let dist = costs.and_then(|costs| learner::choice_dist(&self.greedy.settings, costs));
        let Some(upto) = dist else {
            return Plan::DEFAULT;
        };
        let mut shares = [0.0; MAX_ARMS];
        for (arm, share) in shares.iter_mut().enumerate().take(self.arms.len()) {
            let number = usize::from(self.arms.number(arm));
            let before = number.checked_sub(1).map_or(0, |before| upto[before]);
            *share = f64::from(upto[number] - before) / f64::from(u16::MAX);
        }
        Plan {
            shares,
            best: shares,
            ..Plan::DEFAULT
        }
    }

    fn to_saved(&self, costs: &tp_costs, at_s: f64) -> Saved {
        let arm = |(arm, name): (usize, &String)| {
            let of = &costs.arms[usize::from(self.arms.number(arm))];
            StoredAlgorithm {
                name: name.clone(),
                cost: of.cost,
                samples: of.samples,
                unpaid: of.unpaid,
                chosen: of.chosen,
                greedy: of.greedy,
                max_delivery_rate: greatest(&of.max_delivery_rate),
                min_rtt_us: least(&of.min_rtt_us),
                ..Default::default()
            }
        };
        Saved {
            at_s,
            instances: costs.instances,
            max_delivery_rate: greatest(&costs.max_delivery_rate),
            min_rtt_us: least(&costs.min_rtt_us),
            algorithms: self.arms.names().iter().enumerate().map(arm).collect(),
        }
    }

    /// The costs of the file as the program keeps them. Rates and round-trip times older than a window are
    /// forgotten, as in the program.
    fn to_kernel(&self, key: tp_node_key, saved: &Saved, now_s: f64) -> tp_costs {
        let now_ns = monotonic_ns();
        let epoch = now_ns.checked_div(self.greedy.window_ns).unwrap_or(0) as u32;
        let is_fresh = (now_s - saved.at_s) * 1e9 < self.greedy.window_ns as f64;
        let rate = |of: u64| tp_window64 {
            previous: if is_fresh { of } else { 0 },
            ..Default::default()
        };
        let rtt = |of: u32| tp_window32 {
            previous: if is_fresh { of } else { 0 },
            ..Default::default()
        };
        let mut costs = tp_costs {
            updated_ns: now_ns,
            key,
            max_delivery_rate: rate(saved.max_delivery_rate),
            min_rtt_us: rtt(saved.min_rtt_us),
            epoch,
            instances: saved.instances,
            ..Default::default()
        };
        for (arm, name) in self.arms.names().iter().enumerate() {
            let number = usize::from(self.arms.number(arm));
            costs.eligible |= 1 << number;
            if let Some(of) = saved.algorithms.iter().find(|of| of.name == *name) {
                costs.arms[number] = tp_arm {
                    cost: of.cost,
                    max_delivery_rate: rate(of.max_delivery_rate),
                    min_rtt_us: rtt(of.min_rtt_us),
                    epoch,
                    samples: of.samples,
                    unpaid: of.unpaid,
                    chosen: of.chosen,
                    greedy: of.greedy,
                    ..Default::default()
                };
            }
        }
        costs
    }

    /// Takes up the saved costs of a path, unless the program knows the path already: it goes on after a
    /// upgrade.
    fn take_up_costs(&mut self, key: &[u8], row: &[u8], now_s: f64) -> bool {
        let saved = serde_json::from_slice::<Saved>(row).ok();
        let (Some(of), Some(saved)) = (key_of(key, self.policy), saved) else {
            return false;
        };
        self.saved.insert(key.to_vec());
        if self.greedy.memory.get(&of).is_none() {
            self.greedy.memory.put(&self.to_kernel(of, &saved, now_s));
        }
        true
    }
}

fn least(window: &tp_window32) -> u32 {
    let both = [window.current, window.previous];
    both.into_iter().filter(|us| *us > 0).min().unwrap_or(0)
}

fn greatest(window: &tp_window64) -> u64 {
    window.current.max(window.previous)
}

/// A function to call for each row, with its key.
type EachRow<'a> = dyn FnMut(&[u8], &[u8]) + 'a;

/// The rows of the estimates; those of costs are put aside.
fn without_costs<'a>(
    rows: &'a mut SavedRows<'_>,
    costs: &'a mut Vec<SavedRow>,
) -> impl FnMut(&mut EachRow<'_>) + 'a {
    |each| {
        rows(&mut |key: &[u8], row: &[u8]| match is_of_costs(key) {
            true => costs.push((key.to_vec(), row.to_vec())),
            false => each(key, row),
        });
    }
}

impl Learner for EpsilonGreedy {
    fn estimates(&self) -> &Thompson {
        &self.estimates
    }

    fn estimates_mut(&mut self) -> &mut Thompson {
        &mut self.estimates
    }

    fn plan_of(&mut self, key: &NodeKey, _: f64) -> Option<Plan> {
        let costs = self.costs(key);
        (costs.is_some() || key.level == Level::Global)
            .then(|| EpsilonGreedy::plan(self, costs.as_ref()))
    }

    fn publish(
        &mut self,
        now_s: f64,
        budget: usize,
        _: &mut dyn FnMut(&NodeKey, Option<&Plan>),
    ) -> usize {
        self.estimates
            .publish(now_s, budget, |_: &NodeKey, _: Option<&Plan>| {})
    }

    fn view(&mut self, key: &NodeKey, now_s: f64) -> Option<View> {
        let view = self.estimates.view(key, now_s)?;
        let costs = self.costs(key);
        let cost = |arm: usize| {
            let number = usize::from(self.arms.number(arm));
            costs.map_or(0, |costs| costs.arms[number].cost)
        };
        Some(View {
            plan: EpsilonGreedy::plan(self, costs.as_ref()),
            costs: (0..self.arms.len()).map(cost).collect(),
            ..view
        })
    }

    /// It compares paths' best rates, not connections: it has no gain to move a connection for.
    fn gain(&mut self, _: &Key, _: usize, _: usize, _: f64) -> Option<(f64, f64)> {
        None
    }

    fn take_up(&mut self, rows: &mut SavedRows<'_>, now_s: f64) -> Restored {
        self.zero_s = now_s - monotonic_ns() as f64 / 1e9;
        let mut costs = Vec::new();
        let mut others = without_costs(rows, &mut costs);
        let mut restored = self.estimates.take_up(&mut others, now_s);
        drop(others);
        for (key, row) in costs {
            match self.take_up_costs(&key, &row, now_s) {
                true => restored.taken_up += 1,
                false => restored.damaged += 1,
            }
        }
        restored
    }

    fn begin_anew(&mut self) {
        self.estimates.begin_anew();
        self.saved_ns = 0;
        self.saved.clear();
    }

    /// The costs come with the last of the estimates.
    fn save_some(&mut self, most: usize, row: &mut SaveRow<'_>) -> bool {
        if !self.estimates.save_some(most, &mut *row) {
            return false;
        }
        let begun_ns = monotonic_ns();
        let mut gone = std::mem::take(&mut self.saved);
        for costs in self.greedy.memory.all() {
            if costs.key.policy != self.policy {
                continue;
            }
            let key = key_bytes(&costs.key);
            if costs.updated_ns >= self.saved_ns.saturating_sub(TICK_NS) || !gone.contains(&key) {
                let saved = self.to_saved(&costs, self.zero_s + begun_ns as f64 / 1e9);
                row(&key, serde_json::to_vec(&saved).ok().as_deref());
            }
            gone.remove(&key);
            self.saved.insert(key);
        }
        gone.iter().for_each(|key| row(key, None));
        self.saved_ns = begun_ns;
        true
    }
}
