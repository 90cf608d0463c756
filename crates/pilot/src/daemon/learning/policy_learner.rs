//! One policy's learner, with everything to understand records and to write choice distributions.

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashSet},
    convert::Infallible,
};

use serde::{Deserialize, Serialize};
use tcpilot_abi::{
    TP_CONN_DRY_RUN, TP_RECORD_FOREIGN, TP_RECORD_FORGOTTEN, TP_RECORD_SAMPLE, tp_record,
};
use tcpilot_config::LearnerKind;
use tcpilot_kernel::Put;
use tcpilot_learner::{
    Learner, Level, Lineage, MAX_ARMS, NodeKey, Observation, Plan, Restored, Settings,
    learner::Unusable,
};
use tcpilot_random::mix;

use crate::figures::ShownView;

use super::{
    arms::{Arms, Upto},
    choice_dists::{Table, node_key},
    clock::Clock,
    greedy::{EpsilonGreedy, Greedy},
    histogram::Shown,
    long::Before,
    measures::{Book, Sample, Windows},
    switches::Switches,
    translate::{Rejected, Terms, has, is_held_out, lineage, observation, was_switched},
};

/// The settings of a policy's learner.
#[derive(Clone, Debug)]
pub struct PolicySettings {
    /// The policy's number.
    pub policy: u8,
    /// Its name.
    pub name: String,
    /// The kind of its learner.
    pub kind: LearnerKind,
    /// The memory of epsilon-greedy, for a learner of this kind.
    pub greedy: Option<Greedy>,
    /// Its algorithms.
    pub arms: Arms,
    /// The learner's constants.
    pub constants: Settings,
    /// The windows of the paths' measures.
    pub windows: Windows,
    /// Nats subtracted from the reward of a rescued connection.
    pub rescue_cost: f64,
    /// The share of steered groups, in percent.
    pub steer_percent: u32,
    /// Whether choices use the knowledge of other hosts of a fleet.
    pub uses_fleet: bool,
    /// The conditions to move a long connection to another algorithm; `None`: never.
    pub moves: Option<MoveTerms>,
}

/// The conditions for a move of a long connection to another algorithm.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MoveTerms {
    /// The least sure gain of the new algorithm, in nats.
    pub gain: f64,
    /// Minimum time between two switches of a connection's algorithm.
    pub every_ns: u64,
}

/// How often an algorithm was drawn, by the ends of connections, and the expected number of draws.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Drawn {
    /// Connections.
    pub connections: u64,
    /// Sum of the probabilities with which they got it.
    pub probability: f64,
}

/// The result of writing choice distributions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Distributions written because their content changed.
    pub dists: usize,
    /// Distributions checked for a change.
    pub looked_at: usize,
    /// Distributions that found no free place, or replaced another.
    pub crowded: u64,
}

/// One policy's learner.
pub struct PolicyLearner {
    /// Its settings.
    pub settings: PolicySettings,
    /// The learner itself.
    pub learner: Box<dyn Learner>,
    /// The draws of each algorithm, in the learner's order.
    pub drawn: Vec<Drawn>,
    /// Records used for updates.
    pub updates: u64,
    /// Connections whose algorithm was changed while they were open.
    pub switches: Switches,
    /// The measures of each path.
    pub measures: Book,
    /// The measures of each algorithm's connections, in the learner's order.
    shown: Vec<[Shown; 2]>,
    /// Rejected records, by the reason.
    pub rejected: BTreeMap<Cow<'static, str>, u64>,
    /// Whether this learner began without the content of the file, and has to save everything.
    pub is_unsaved: bool,
    /// Keys of the file that mean nothing any more, to be removed with the next save.
    pub ended: Vec<Vec<u8>>,
}

impl PolicyLearner {
    /// A learner without any knowledge; `None` only without arms, but [`Arms`] has at least one.
    pub fn anew(settings: PolicySettings, now_s: f64) -> Option<PolicyLearner> {
        let none = |_: &mut dyn FnMut(&[u8], &[u8])| Ok::<_, Infallible>(());
        let Ok(policy) = PolicyLearner::restore(settings, now_s, none);
        policy.map(|(policy, _)| policy)
    }

    /// A learner with the saved rows; `None` as above. `rows` calls its argument with each key and row. They
    /// are not kept, because a million rows need as much memory as the learner itself.
    ///
    /// # Errors
    /// Those of `rows`.
    pub fn restore<E>(
        settings: PolicySettings,
        now_s: f64,
        rows: impl FnOnce(&mut dyn FnMut(&[u8], &[u8])) -> Result<(), E>,
    ) -> Result<Option<(PolicyLearner, Restored)>, E> {
        let Ok(mut learner) = settings.learner() else {
            return Ok(None);
        };
        let (mut rows, mut read) = (Some(rows), Ok(()));
        let mut rows = |each: &mut dyn FnMut(&[u8], &[u8])| {
            if let Some(rows) = rows.take() {
                read = rows(each);
            }
        };
        let restored = learner.take_up(&mut rows, now_s);
        read?;
        learner.estimates_mut().use_foreign(settings.uses_fleet);
        learner.publish_all();
        let policy = PolicyLearner {
            drawn: vec![Drawn::default(); settings.arms.len()],
            learner,
            updates: 0,
            switches: Switches::default(),
            measures: Book::new(settings.arms.len(), settings.windows),
            shown: vec![Shown::both(); settings.arms.len()],
            rejected: BTreeMap::new(),
            is_unsaved: restored.taken_up == 0,
            ended: Vec::new(),
            settings,
        };
        Ok(Some((policy, restored)))
    }

    /// Learns from a record; true if it updated the learner. `before`: the connection's last record.
    pub fn take(
        &mut self,
        record: &tp_record,
        before: &Before,
        clock: &Clock,
        ticks_per_s: u32,
    ) -> bool {
        self.count(record);
        self.switches
            .count(record, self.settings.arms.of_number(record.arm));
        let terms = Terms {
            arms: &self.settings.arms,
            reward: &self.settings.constants.reward,
            rescue_cost: self.settings.rescue_cost,
            ticks_per_s,
            clock,
        };
        let sample = Sample::new(record, before, &terms);
        let seen = match before {
            Before::Nothing => observation(record, lineage(record), None, &terms),
            Before::Told(totals) => observation(record, lineage(record), Some(totals), &terms),
            Before::Unknown => Err(Rejected::KnownInPart),
        };
        match &seen {
            Ok(seen) => {
                self.observe(seen, record);
                let groups = self.shown.get_mut(seen.arm).into_iter().flatten();
                groups.for_each(|shown| shown.add(record, before.totals(), ticks_per_s));
            }
            Err(why) => self.note_rejected(*why),
        }
        self.count_by_path(record);
        if let Some(sample) = sample {
            self.measure(record, &sample, seen.is_ok());
        }
        seen.is_ok()
    }

    /// Adds a record to the measures of its path, and forgets the measures of paths forgotten by the learner.
    fn measure(&mut self, record: &tp_record, sample: &Sample, is_update: bool) {
        let path = lineage(record).node(Level::Path);
        self.measures.take(&path, sample, is_update);
        if self.measures.needs_sweep(self.learner.path_count()) {
            self.measures.sweep(self.learner.paths());
        }
    }

    /// Forgets the paths of ended domains with their measures; returns their number.
    pub fn forget_domains(&mut self, ended: &HashSet<u32>) -> usize {
        let paths = self.learner.forget_domains(ended);
        if paths > 0 {
            self.measures.sweep(self.learner.paths());
        }
        paths
    }

    /// The measures of an algorithm's connections, steered and held out.
    pub(super) fn shown(&self, arm: usize) -> Vec<ShownView> {
        let groups = self.shown.get(arm).into_iter().flatten();
        groups.filter_map(Shown::view).collect()
    }

    /// Counts a path's ends, even of rejected records. A path exists after its first update.
    fn count_by_path(&mut self, record: &tp_record) {
        if !has(record, TP_RECORD_SAMPLE) {
            let path = lineage(record).node(Level::Path);
            let ends = record.weight.max(1).into();
            self.learner.count_connections(&path.key, ends);
        }
    }

    fn observe(&mut self, seen: &Observation, record: &tp_record) {
        let was_drawn = self.settings.is_steered(&seen.lineage.node(Level::Group))
            && u32::from(record.conn_flags) & TP_CONN_DRY_RUN == 0
            && !is_held_out(record);
        let learned = match was_drawn {
            true => self.learner.observe(seen),
            false => self.learner.observe_unsteered(seen),
        };
        match learned {
            Ok(learned) => {
                self.updates += 1;
                if learned.levels_changed > 0 || learned.path_changed {
                    tracing::debug!(policy = self.settings.name, ?learned, "a path changed");
                }
            }
            // A number was not finite. No record of the BPF programs has one.
            Err(error) => tracing::debug!(%error, "a record could not be used"),
        }
    }

    fn note_rejected(&mut self, why: Rejected) {
        *self.rejected.entry(Cow::Borrowed(why.word())).or_default() += 1;
    }

    /// Counts the draw of an ended connection. Beyond 50,000 ends a second one record stands for several. A
    /// rescued or moved connection does not count, because its algorithm at the end was not drawn.
    fn count(&mut self, record: &tp_record) {
        let not_drawn = [TP_RECORD_SAMPLE, TP_RECORD_FORGOTTEN, TP_RECORD_FOREIGN];
        if not_drawn.iter().any(|flag| has(record, *flag))
            || was_switched(record)
            || is_held_out(record)
        {
            return;
        }
        let arm = self.settings.arms.of_number(record.arm);
        if let Some(drawn) = arm.and_then(|arm| self.drawn.get_mut(arm)) {
            let ends = record.weight.max(1);
            drawn.connections += u64::from(ends);
            let probability = f64::from(record.probability) / f64::from(u16::MAX);
            drawn.probability += probability * f64::from(ends);
        }
    }

    /// Checks at most `budget` choice distributions for a change, and writes the changed ones under this
    /// generation.
    pub fn publish(
        &mut self,
        table: &mut dyn Table,
        now_s: f64,
        budget: usize,
        generation: u32,
    ) -> Written {
        let mut written = Written::default();
        let settings = &self.settings;
        let looked_at = self.learner.publish(now_s, budget, &mut |node, plan| {
            let key = node_key(node, settings.policy);
            let Some(plan) = plan else {
                table.remove(&key);
                return;
            };
            let upto = settings.upto(node, plan);
            let is_same = |dist: Upto| settings.arms.is_same(&dist, &upto);
            if table.get(&key).is_some_and(is_same) {
                return;
            }
            match table.put(&key, upto, generation) {
                Put::New | Put::Changed => written.dists += 1,
                Put::Same => {}
                Put::Replaced => {
                    written.dists += 1;
                    written.crowded += 1;
                }
                Put::Full => written.crowded += 1,
            }
        });
        written.looked_at = looked_at;
        written
    }
}

impl PolicySettings {
    /// The learner of this kind, without any knowledge: register each kind with choice distributions here.
    fn learner(&self) -> Result<Box<dyn Learner>, Unusable> {
        if let Some(greedy) = self.greedy.clone() {
            let (settings, arms) = (self.constants.clone(), self.arms.clone());
            let learner = EpsilonGreedy::new(settings, greedy, self.policy, arms)?;
            return Ok(Box::new(learner));
        }
        // The learners of the crate have the names of the configuration.
        tcpilot_learner::learner::make(self.kind.name(), self.arms.len(), self.constants.clone())
    }

    /// The probability of each algorithm for connections of a node with this plan.
    pub fn shares(&self, node: &NodeKey, plan: &Plan) -> Vec<f64> {
        let mut shares = plan.shares;
        if !self.is_steered(node) {
            shares = [0.0; MAX_ARMS];
            shares[0] = 1.0;
        }
        self.arms.drawable(&shares, node.level, node.key.class)
    }

    fn upto(&self, node: &NodeKey, plan: &Plan) -> Upto {
        self.arms.upto(&self.shares(node, plan))
    }

    /// Whether connections of this node are steered. Below 100 percent a hash of the group's prefix decides.
    /// So the steered groups are the same after each restart, and stay steered if the percentage grows.
    /// Nodes above the groups serve new addresses. The group of a new address is not known there, so it is
    /// not steered.
    pub(super) fn is_steered(&self, node: &NodeKey) -> bool {
        if self.steer_percent >= 100 {
            return true;
        }
        if node.level > Level::Group {
            return false;
        }
        let group = Lineage::of_key(&node.key).group.prefix;
        // The hash covers both halves, because prefixes differ in few bits.
        let hash = mix(mix((group >> 64) as u64).wrapping_add(group as u64));
        ((hash >> 32) * 100) >> 32 < u64::from(self.steer_percent)
    }
}
