//! One policy's learner, with what it needs to understand records and to write rows.

use std::{borrow::Cow, collections::BTreeMap};

use serde::{Deserialize, Serialize};
use tcpilot_abi::{
    TP_CONN_DRY_RUN, TP_RECORD_FOREIGN, TP_RECORD_FORGOTTEN, TP_RECORD_SAMPLE, TP_TRIAL_HELD_OUT,
    tp_record,
};
use tcpilot_kernel::Put;
use tcpilot_learner::{
    Learner, Level, Lineage, MAX_ARMS, NodeKey, Observation, Plan, Settings, learner::Restored,
};

use crate::pilot::{figures::ShownView, state::SavedRow};

use super::{
    arms::{Arms, Upto},
    clock::Clock,
    histogram::Shown,
    moves::MoveTerms,
    rows::{Table, row_key},
    switches::Switches,
    translate::{Silent, Terms, Totals, has, observation, was_switched},
};

/// What a policy's learner is told at the start.
#[derive(Clone, Debug)]
pub struct Lesson {
    /// The policy's number.
    pub policy: u8,
    /// Its name.
    pub name: String,
    /// Its algorithms.
    pub arms: Arms,
    /// The learner's constants.
    pub settings: Settings,
    /// Nats that a rescue takes off.
    pub rescue_cost: f64,
    /// Of the groups, how many are steered.
    pub steer_percent: u32,
    /// When a long connection is moved to another algorithm; `None`: never.
    pub moves: Option<MoveTerms>,
}

/// How often an algorithm was in force at an end, and how likely it was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Drawn {
    /// Connections.
    pub connections: u64,
    /// Sum of the probabilities with which they got it.
    pub probability: f64,
}

/// What became of rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Rows that say something new.
    pub rows: usize,
    /// Rows that might have said something new.
    pub looked_at: usize,
    /// Rows for which there was no room, or for which another was given up.
    pub crowded: u64,
}

/// One policy's learner.
pub struct Taught {
    /// What it was told at the start.
    pub lesson: Lesson,
    /// The learner itself.
    pub learner: Learner,
    /// In the learner's order.
    pub drawn: Vec<Drawn>,
    /// Records that taught something.
    pub taught: u64,
    /// Connections whose algorithm was changed while they were open.
    pub switches: Switches,
    /// What each algorithm has shown, in the learner's order.
    shown: Vec<[Shown; 2]>,
    /// Records that did not, by the reason.
    pub silent: BTreeMap<Cow<'static, str>, u64>,
    /// What the file has is not what this learner began with: all has to be saved.
    pub is_unsaved: bool,
}

impl Taught {
    /// A learner with these saved rows. A learner cannot be made only if there is no arm, and
    /// [`Arms`] has at least one.
    pub fn new(lesson: Lesson, saved: &[SavedRow], now_s: f64) -> Option<(Taught, Restored)> {
        let rows = saved.iter().map(|(key, row)| (key, row));
        let (mut learner, restored) =
            Learner::restore(lesson.arms.len(), lesson.settings.clone(), rows, now_s).ok()?;
        learner.publish_all();
        let taught = Taught {
            drawn: vec![Drawn::default(); lesson.arms.len()],
            learner,
            taught: 0,
            switches: Switches::default(),
            shown: vec![Shown::both(); lesson.arms.len()],
            silent: BTreeMap::new(),
            is_unsaved: saved.is_empty() || restored.taken_up == 0,
            lesson,
        };
        Some((taught, restored))
    }

    /// Learns from a record; `before` is what its connection had shown when it was told of last. Whether it
    /// taught something.
    pub fn take(
        &mut self,
        record: &tp_record,
        before: Option<&Totals>,
        clock: &Clock,
        ticks_per_s: u32,
    ) -> bool {
        self.count(record);
        self.switches.count(record);
        let terms = Terms {
            arms: &self.lesson.arms,
            reward: &self.lesson.settings.reward,
            rescue_cost: self.lesson.rescue_cost,
            ticks_per_s,
            clock,
        };
        let seen = observation(record, lineage(record), before, &terms);
        match &seen {
            Ok(seen) => {
                self.observe(seen, record);
                let groups = self.shown.get_mut(seen.arm).into_iter().flatten();
                groups.for_each(|shown| shown.add(record, before, ticks_per_s));
            }
            Err(why) => self.note_silent(*why),
        }
        self.count_by_path(record);
        seen.is_ok()
    }

    /// What each algorithm has shown, by the group.
    pub(super) fn shown(&self, arm: usize) -> Vec<ShownView> {
        let groups = self.shown.get(arm).into_iter().flatten();
        groups.filter_map(Shown::view).collect()
    }

    /// A record of which nobody knows how much was taught already.
    pub fn pass_over(&mut self, record: &tp_record) {
        self.count(record);
        self.switches.count(record);
        self.note_silent(Silent::Untold);
        self.count_by_path(record);
    }

    /// Of ends alone, whatever they taught. A path is there once it has taught.
    fn count_by_path(&mut self, record: &tp_record) {
        if !has(record, TP_RECORD_SAMPLE) {
            let path = lineage(record).node(Level::Path);
            let ends = record.weight.max(1).into();
            self.learner.count_connections(&path.key, ends);
        }
    }

    fn observe(&mut self, seen: &Observation, record: &tp_record) {
        let was_drawn = self.lesson.is_steered(&seen.lineage.node(Level::Group))
            && u32::from(record.conn_flags) & TP_CONN_DRY_RUN == 0
            && !is_held_out(record);
        let learned = match was_drawn {
            true => self.learner.observe(seen),
            false => self.learner.observe_unsteered(seen),
        };
        match learned {
            Ok(learned) => {
                self.taught += 1;
                if learned.levels_changed > 0 || learned.path_changed {
                    tracing::debug!(policy = self.lesson.name, ?learned, "a path changed");
                }
            }
            // A number that is not finite: no record of the programs has one.
            Err(error) => tracing::debug!(%error, "a record could not be used"),
        }
    }

    fn note_silent(&mut self, why: Silent) {
        *self.silent.entry(Cow::Borrowed(why.word())).or_default() += 1;
    }

    /// Of ends alone; beyond 50,000 a second one record stands for several. What a rescued or
    /// moved connection had at its end nobody drew.
    fn count(&mut self, record: &tp_record) {
        let not_drawn = [TP_RECORD_SAMPLE, TP_RECORD_FORGOTTEN, TP_RECORD_FOREIGN];
        if not_drawn.iter().any(|flag| has(record, *flag))
            || was_switched(record)
            || is_held_out(record)
        {
            return;
        }
        let arm = self.lesson.arms.of_number(record.arm);
        if let Some(drawn) = arm.and_then(|arm| self.drawn.get_mut(arm)) {
            let ends = record.weight.max(1);
            drawn.connections += u64::from(ends);
            let probability = f64::from(record.probability) / f64::from(u16::MAX);
            drawn.probability += probability * f64::from(ends);
        }
    }

    /// Writes at most `budget` rows that may say something new, under this generation.
    pub fn publish(
        &mut self,
        table: &mut dyn Table,
        now_s: f64,
        budget: usize,
        generation: u32,
    ) -> Written {
        let mut written = Written::default();
        let lesson = &self.lesson;
        let looked_at = self.learner.publish(now_s, budget, |node, plan| {
            let key = row_key(node, lesson.policy);
            let Some(plan) = plan else {
                table.remove(&key);
                return;
            };
            let upto = lesson.upto(node, plan);
            let is_same = |row: Upto| lesson.arms.is_same(&row, &upto);
            if table.get(&key).is_some_and(is_same) {
                return;
            }
            match table.put(&key, upto, generation) {
                Put::New | Put::Changed => written.rows += 1,
                Put::Same => {}
                Put::Replaced => {
                    written.rows += 1;
                    written.crowded += 1;
                }
                Put::Full => written.crowded += 1,
            }
        });
        written.looked_at = looked_at;
        written
    }
}

impl Lesson {
    /// How likely each algorithm is for connections of a node with this plan.
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

    /// Whether connections of this node are steered. A canary's share of the groups is the same after each
    /// restart, and one that grows has all that it had. Nobody can say of strangers whether their group
    /// will be one of them, so they are not steered.
    pub(super) fn is_steered(&self, node: &NodeKey) -> bool {
        if self.steer_percent >= 100 {
            return true;
        }
        if node.level > Level::Group {
            return false;
        }
        let group = Lineage::of_key(&node.key).group.prefix;
        // splitmix64 (Steele, Lea and Flood, OOPSLA 2014) of both halves: prefixes differ in few bits.
        let mix = |x: u64| {
            let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            x ^ (x >> 31)
        };
        let hash = mix(mix((group >> 64) as u64).wrapping_add(group as u64));
        ((hash >> 32) * 100) >> 32 < u64::from(self.steer_percent)
    }
}

/// Whether its connection got the default whatever the learner says, so that nothing was drawn.
pub fn is_held_out(record: &tp_record) -> bool {
    u32::from(record.trial) & TP_TRIAL_HELD_OUT != 0
}

/// The lineage of a record's connection. Its address is IPv4-mapped and unwrapped already.
pub fn lineage(record: &tp_record) -> Lineage {
    let bits = record.remote.iter().fold(0, |bits: u128, word| {
        bits << 32 | u128::from(u32::from_be(*word))
    });
    Lineage::of_prefix(bits, record.class, record.domain)
}
