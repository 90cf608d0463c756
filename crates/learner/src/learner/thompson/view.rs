//! Makes the views of a path or node, and keeps the log of the changes found.

use std::collections::VecDeque;

use super::super::view::SD95;
pub(super) use crate::learner::Foreign;

use super::{Alarm, Estimate, Exact, Learned, Observation, Thompson, Typical, View};
use crate::gaussian::{Belief, Information};
use crate::linalg::NotPositive;
use crate::lineage::{Key, Level, Lineage, NodeKey};
use crate::path::Expected;
use crate::tree::{GLOBAL, PathId, Tree};

/// Maximum number of alarms kept.
const ALARMS_MAX: usize = 256;

/// The last alarms.
pub(super) type Log = VecDeque<Alarm>;

/// One arm's knowledge by origin: a path's own samples, group, site, class, global node, and the
/// initial assumption.
type Parts<const C: usize> = [[f64; C]; 6];

impl Thompson {
    /// The knowledge about a path or node; `None` if nothing is kept under this key.
    pub fn view(&mut self, key: &NodeKey, now_s: f64) -> Option<View> {
        exact!(&mut self.0, it => it.view(key, now_s))
    }

    /// How much better arm `to` is for the next connections of a path than arm `from`: mean and standard
    /// deviation, in nats. `None` if the path is not known, or the learner does not have one of the arms.
    pub fn gain(&mut self, path: &Key, from: usize, to: usize, now_s: f64) -> Option<(f64, f64)> {
        exact!(&mut self.0, it => it.gain(path, from, to, now_s))
    }

    /// The paths with the most connections, at most so many, in any order.
    pub fn busiest(&self, most: usize) -> Vec<NodeKey> {
        exact!(&self.0, it => it.busiest(most))
    }

    /// The keys of all known paths.
    pub fn paths(&self) -> impl Iterator<Item = NodeKey> + '_ {
        let all: Box<dyn Iterator<Item = NodeKey> + '_> =
            exact!(&self.0, it => Box::new(it.paths()));
        all
    }

    /// The last alarms, the oldest first.
    pub fn alarms(&self) -> impl Iterator<Item = &Alarm> {
        exact!(&self.0, it => it.alarms.iter())
    }

    /// Takes over the alarms of a former learner, the oldest first.
    pub fn remember_alarms(&mut self, alarms: &mut dyn Iterator<Item = Alarm>) {
        let log = exact!(&mut self.0, it => &mut it.alarms);
        log.extend(alarms);
        let surplus = log.len().saturating_sub(ALARMS_MAX);
        log.drain(..surplus);
    }

    /// Expected cost of exploring so far in all groups, in nats times connections.
    #[must_use]
    pub fn spent(&self) -> f64 {
        let nodes = exact!(&self.0, it => &it.tree.nodes);
        let groups = nodes.iter().filter(|n| n.live && n.level == 1);
        // The sum of nothing would be −0.
        groups.fold(0.0, |sum, n| sum + n.ledger.spent())
    }
}

impl<const C: usize> Exact<C> {
    fn view(&mut self, key: &NodeKey, now_s: f64) -> Option<View> {
        let (id, node) = match key.level {
            Level::Path => {
                let id = self.tree.find(&key.key)?;
                (Some(id), self.tree.group_of(id))
            }
            // A group that is only heard of may have no node: then the next one above chooses.
            Level::Group if self.tree.is_heard_of(&key.key) => {
                (None, self.tree.deepest(&Lineage::of_key(&key.key)))
            }
            _ => (None, self.tree.find_node(key)?),
        };
        let plan = match id {
            Some(id) => self.plan_of_path(id, now_s),
            None => self.plan_of_node(node, now_s),
        };
        let group = match key.level {
            Level::Path => Some(self.tree.node_key(node).key),
            Level::Group => Some(key.key),
            _ => None,
        };
        let foreign = group.and_then(|group| self.foreign(&group, id, now_s).ok().flatten());
        let belief = match id {
            Some(id) => self.tree.belief(id, now_s),
            None => self.tree.belief_below(node, now_s),
        };
        let belief = belief.ok()?;
        let parts = self.parts(id, node, now_s).ok()?;
        let rewards = id.and_then(|id| self.tree.rewards(id, now_s).ok());
        let ledger = self.tree.ledger_of(node);
        let queued_share = match id {
            Some(id) => self.tree.queued_share(id),
            None => self.tree.queued_share_below(node),
        };
        Some(View {
            key: *key,
            estimates: estimates(&belief, &parts),
            typical: rewards.iter().flatten().map(typical).collect(),
            plan,
            costs: costs(&belief),
            connections: id.map_or(0, |id| self.tree.paths[id.0 as usize].connections),
            own_weight: id.map_or(0.0, |id| self.tree.own_weight(id, now_s)),
            seen_s: id.map(|id| self.tree.at_s(id)),
            credit: ledger.balance(),
            spent: ledger.spent(),
            queued_share,
            bonus: self.settings.choice.with_queued_share(queued_share).bonus,
            changed_s: self.changed_s(id, node),
            foreign,
        })
    }

    fn gain(&mut self, path: &Key, from: usize, to: usize, now_s: f64) -> Option<(f64, f64)> {
        let has_both = from.max(to) < Tree::<C>::ARMS;
        let id = self.tree.find(path).filter(|_| has_both)?;
        Some(self.belief_and_now(id, now_s).0.gain(from, to))
    }

    fn busiest(&self, most: usize) -> Vec<NodeKey> {
        let paths = &self.tree.paths;
        let mut all: Vec<PathId> = self.tree.live_paths().collect();
        let fewest_last = |id: &PathId| std::cmp::Reverse(paths[id.0 as usize].connections);
        if all.len() > most && most > 0 {
            all.select_nth_unstable_by_key(most - 1, fewest_last);
        }
        all.truncate(most);
        let key = |id: &PathId| NodeKey {
            level: Level::Path,
            key: self.tree.path_key(id.0),
        };
        all.iter().map(key).collect()
    }

    fn paths(&self) -> impl Iterator<Item = NodeKey> + '_ {
        self.tree.live_paths().map(|id| NodeKey {
            level: Level::Path,
            key: self.tree.path_key(id.0),
        })
    }

    pub(super) fn note_alarm(&mut self, id: PathId, learned: &Learned, seen: &Observation) {
        let mut changed = Vec::new();
        if learned.path_changed {
            changed.push(seen.lineage.node(Level::Path));
        }
        if learned.levels_changed > 0 {
            let mut node = self.tree.group_of(id);
            for _ in 1..learned.levels_changed {
                node = self.tree.nodes[node as usize].parent;
            }
            self.queue_below(node);
            changed.push(self.tree.node_key(node));
        }
        for key in changed {
            if self.alarms.len() == ALARMS_MAX {
                self.alarms.pop_front();
            }
            let at_s = seen.at_s;
            self.alarms.push_back(Alarm { key, at_s });
        }
    }

    fn changed_s(&self, id: Option<PathId>, mut node: u32) -> Option<f64> {
        let mut keys: Vec<NodeKey> = id
            .map(|id| NodeKey {
                level: Level::Path,
                key: self.tree.path_key(id.0),
            })
            .into_iter()
            .collect();
        loop {
            keys.push(self.tree.node_key(node));
            if node == GLOBAL {
                break;
            }
            node = self.tree.nodes[node as usize].parent;
        }
        let last = self.alarms.iter().rev().find(|a| keys.contains(&a.key));
        last.map(|alarm| alarm.at_s)
    }

    /// Precisions of all advantages by their origin. Knowledge from higher nodes has passed more
    /// spreads, and each spread takes the same part of everything passing it.
    fn parts(
        &mut self,
        id: Option<PathId>,
        node: u32,
        now_s: f64,
    ) -> Result<Parts<C>, NotPositive> {
        let mut chain = vec![node];
        while let Some(last) = chain.last().copied().filter(|last| *last != GLOBAL) {
            chain.push(self.tree.nodes[last as usize].parent);
        }
        let mut parts: Parts<C> = [[0.0; C]; 6];
        let base = self.tree.base_information();
        parts[5] = diagonal(&base);
        let mut known = base;
        for id in chain.into_iter().rev() {
            let level = usize::from(self.tree.nodes[id as usize].level);
            if id != GLOBAL {
                let all = diagonal(&known);
                known = self.tree.outside(id)?;
                dampen(&mut parts, &all, &diagonal(&known));
            }
            let sum = self.tree.sum(id);
            known.add(&sum, 1.0);
            parts[level] = diagonal(&sum);
        }
        let Some(id) = id else { return Ok(parts) };
        // The path's own message to its group is its own knowledge, not its neighbours'.
        let (now, prior) = self.tree.now_and_prior(id, now_s)?;
        let told = diagonal(&now.told_live());
        for (part, told) in parts[1].iter_mut().zip(told) {
            *part = (*part - told).max(0.0);
        }
        let all = diagonal(&known);
        dampen(&mut parts, &all, &diagonal(&prior));
        parts[0] = diagonal(&now.likelihood);
        Ok(parts)
    }
}

fn diagonal<const C: usize>(known: &Information<C>) -> [f64; C] {
    std::array::from_fn(|i| known.precision[i][i])
}

fn dampen<const C: usize>(parts: &mut Parts<C>, before: &[f64; C], after: &[f64; C]) {
    for part in parts {
        for i in 0..C {
            part[i] *= if before[i] > 0.0 {
                after[i] / before[i]
            } else {
                0.0
            };
        }
    }
}

/// For each arm the expected loss of reward against the best arm, in millionths: of two equal ones 0.
fn costs<const C: usize>(belief: &Belief<C>) -> Vec<u64> {
    let means = std::iter::once(0.0).chain(belief.mean);
    let best = means.clone().fold(f64::NEG_INFINITY, f64::max);
    means
        .map(|mean| (-1e6 * (mean - best).exp_m1()).round() as u64)
        .collect()
}

fn typical(reward: &Expected) -> Typical {
    let (mean, half) = (reward.mean, SD95 * reward.variance.sqrt());
    Typical {
        mean,
        low: mean - half,
        high: mean + half,
    }
}

fn estimates<const C: usize>(belief: &Belief<C>, parts: &Parts<C>) -> Vec<Estimate> {
    (0..C)
        .map(|advantage| {
            let (mean, sd) = (belief.mean[advantage], belief.variance(advantage).sqrt());
            let most = (0..parts.len())
                .max_by(|a, b| parts[*a][advantage].total_cmp(&parts[*b][advantage]))
                .unwrap_or(parts.len() - 1);
            Estimate::new(mean, sd, Level::from_number(most as u8))
        })
        .collect()
}
