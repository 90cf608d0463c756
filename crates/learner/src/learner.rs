//! A learner: takes in the measures of connections, and gives the shares for the next ones.
//!
//! Each learner keeps the same estimates ([`Thompson`]): effects with their intervals, each path's
//! experience, the changes found. They are saved, and people see them, whichever learner is in
//! force. Learners differ in their shares, and so in the choice distributions they write.
//!
//! To add one: a file next to `thompson.rs` with an implementation of [`Learner`], and its line in
//! [`KINDS`]. This is enough for the simulator. The daemon needs its number in `bpf/abi/learner.h` too.

use std::collections::HashSet;

use crate::MAX_ARMS;
use crate::choice::Plan;
use crate::lineage::{Key, Level, Lineage, NodeKey};
use crate::regression::Features;
use crate::reward::Reward;
use crate::settings::Settings;
use crate::sharing::Bouts;

pub mod thompson;
mod view;

pub use crate::tree::saved::{KEY_BYTES, key_bytes};
pub use crate::tree::{Facts, Heard};
pub use thompson::{OwnGroup, SavedRows, Thompson};
pub use view::{Alarm, Estimate, Foreign, Typical, View};

/// Takes the key and the row of something to save; `None` for a row to be removed.
pub type SaveRow<'a> = dyn FnMut(&[u8], Option<&[u8]>) + 'a;

/// Makes a learner of so many arms.
type Make = fn(usize, Settings) -> Result<Box<dyn Learner>, Unusable>;

/// The learners of this crate, by their names in the configuration.
pub const KINDS: &[(&str, Make)] = &[("thompson", |arms, settings| {
    Ok(Box::new(Thompson::new(arms, settings)?))
})];

/// The learner of this name, without any knowledge.
///
/// # Errors
/// [`Unusable::Kind`], [`Unusable::Arms`].
pub fn make(kind: &str, arms: usize, settings: Settings) -> Result<Box<dyn Learner>, Unusable> {
    let known = KINDS.iter().find(|(name, _)| *name == kind);
    known.map_or(Err(Unusable::Kind), |(_, make)| make(arms, settings))
}

/// A learner for one policy: it writes the choice distributions by which connections choose their arms.
///
/// It does no I/O, and reads no clock: times are arguments in seconds. What is not given here, the
/// estimates do, the same way for all learners.
pub trait Learner: Send {
    /// The estimates, the same under each learner.
    fn estimates(&self) -> &Thompson;

    /// The estimates, to be changed.
    fn estimates_mut(&mut self) -> &mut Thompson;

    /// The shares for the next connections of a path, or of unknown paths below a node.
    /// `None` if nothing is kept under this key: then the next node above decides.
    fn plan_of(&mut self, key: &NodeKey, now_s: f64) -> Option<Plan>;

    /// The shares for the next connections of a path, known or not: those of the nearest node.
    fn plan(&mut self, lineage: &Lineage, now_s: f64) -> Plan {
        let of = |level: &Level| self.plan_of(&lineage.node(*level), now_s);
        Level::ALL.iter().find_map(of).unwrap_or(Plan::DEFAULT)
    }

    /// Takes in a connection.
    ///
    /// # Errors
    /// [`Unusable`] if it cannot be used; then nothing changes.
    fn observe(&mut self, seen: &Observation) -> Result<Learned, Unusable> {
        self.estimates_mut().observe(seen)
    }

    /// The same for a connection without a draw from the learner's shares (it kept the default, because only
    /// other connections are steered, or none): exploring has cost it nothing.
    ///
    /// # Errors
    /// As [`Learner::observe`].
    fn observe_unsteered(&mut self, seen: &Observation) -> Result<Learned, Unusable> {
        self.estimates_mut().observe_unsteered(seen)
    }

    /// Counts more ended connections of a path, if the path is known.
    fn count_connections(&mut self, path: &Key, connections: u32) {
        self.estimates_mut().count_connections(path, connections);
    }

    /// Queues all choice distributions, to fill an empty table.
    fn publish_all(&mut self) {
        self.estimates_mut().publish_all();
    }

    /// Gives the choice distributions to write, at most `budget` of them, and those to remove (`None`). Paths
    /// with new samples come first; call it again to go on. Returns their number.
    fn publish(
        &mut self,
        now_s: f64,
        budget: usize,
        each: &mut dyn FnMut(&NodeKey, Option<&Plan>),
    ) -> usize {
        let mut keys = Vec::new();
        let mut note = |key: &NodeKey, plan: Option<&Plan>| keys.push((*key, plan.is_some()));
        let given = self.estimates_mut().publish(now_s, budget, &mut note);
        for (key, is_known) in keys {
            let plan = is_known.then(|| self.plan_of(&key, now_s)).flatten();
            each(&key, plan.as_ref());
        }
        given
    }

    /// The knowledge about a path or node; `None` if nothing is kept under this key.
    fn view(&mut self, key: &NodeKey, now_s: f64) -> Option<View> {
        let plan = self.plan_of(key, now_s)?;
        let view = self.estimates_mut().view(key, now_s)?;
        Some(View { plan, ..view })
    }

    /// How much better arm `to` is for the next connections of a path than arm `from`: mean and standard
    /// deviation, in nats. `None` if the path is not known, or the learner does not have one of the arms.
    fn gain(&mut self, path: &Key, from: usize, to: usize, now_s: f64) -> Option<(f64, f64)> {
        self.estimates_mut().gain(path, from, to, now_s)
    }

    /// The keys of all known paths.
    fn paths(&self) -> Box<dyn Iterator<Item = NodeKey> + '_> {
        Box::new(self.estimates().paths())
    }

    /// The paths with the most connections, at most so many, in any order.
    fn busiest(&self, most: usize) -> Vec<NodeKey> {
        self.estimates().busiest(most)
    }

    /// Number of paths.
    fn path_count(&self) -> usize {
        self.estimates().path_count()
    }

    /// Number of nodes above the paths.
    fn node_count(&self) -> usize {
        self.estimates().node_count()
    }

    /// Expected cost of exploring so far in all groups, in nats times connections.
    fn spent(&self) -> f64 {
        self.estimates().spent()
    }

    /// The last alarms, the oldest first.
    fn alarms(&self) -> Box<dyn Iterator<Item = &Alarm> + '_> {
        Box::new(self.estimates().alarms())
    }

    /// Takes over the alarms of a former learner, the oldest first.
    fn remember_alarms(&mut self, alarms: &mut dyn Iterator<Item = Alarm>) {
        self.estimates_mut().remember_alarms(alarms);
    }

    /// Forgets the paths whose samples have faded. Nothing else forgets for age, not even [`Learner::take_up`]:
    /// call it only if the clock is known to be right.
    fn forget_old(&mut self, now_s: f64) {
        self.estimates_mut().forget_old(now_s);
    }

    /// Forgets the paths of these domains, and the groups and sites above them, because the domains have ended. What their
    /// classes have learned from them stays. Returns the number of paths.
    fn forget_domains(&mut self, domains: &HashSet<u32>) -> usize {
        self.estimates_mut().forget_domains(domains)
    }

    /// Begins with the saved rows, in any order; `now_s` must be of the clock of the saved times.
    fn take_up(&mut self, rows: &mut SavedRows<'_>, now_s: f64) -> Restored {
        self.estimates_mut().take_up(rows, now_s)
    }

    /// Tells the learner that the saved rows are gone: it will give all rows again.
    fn begin_anew(&mut self) {
        self.estimates_mut().begin_anew();
    }

    /// Gives at most `most` of the rows changed since they were last given. Returns whether those were
    /// all; if not, call it again.
    fn save_some(&mut self, most: usize, row: &mut SaveRow<'_>) -> bool {
        self.estimates_mut().save_some(most, row)
    }
}

/// The outcome of reading the rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Restored {
    /// Paths and nodes known again.
    pub taken_up: usize,
    /// Rows that could not be read.
    pub damaged: usize,
    /// Rows of obsolete classes, now without connections. They will be removed.
    pub outdated: usize,
    /// A head for the same number of arms was there; without one the learner starts without knowledge.
    pub head: bool,
}

/// How a connection, or an interval of a long one, ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Outcome {
    /// It has a reward.
    Reward(Reward),
    /// It timed out, so its rate is not used.
    TimedOut,
}

/// One connection, as the learner sees it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Observation {
    /// The path of the connection, with the nodes above.
    pub lineage: Lineage,
    /// The first arm chosen; 0 is the default.
    pub arm: usize,
    /// How it ended.
    pub outcome: Outcome,
    /// Its bouts of loss, and since its last sample if it has been sampled before.
    pub bouts: Bouts,
    /// The segments it sent meanwhile.
    pub segments: u64,
    /// Properties independent of the arm.
    pub features: Features,
    /// When it ended, in seconds of any monotonic clock. Saved knowledge needs the same clock in all boots.
    pub at_s: f64,
    /// Seconds since its last sample, if this is an interval of a long connection and not its first.
    /// Intervals of one connection resemble each other, so the later ones count less
    /// ([`crate::settings::RewardSettings::interval_memory_s`]).
    pub since_last_s: Option<f64>,
    /// Its first sample with this arm: it was switched since the last one.
    pub is_switched: bool,
    /// Connections of the path that were open at a time, this one included. They shared a queue and an arm, so
    /// together they are one sample.
    pub beside: u32,
}

/// Why a learner cannot be made, or an observation cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unusable {
    /// No learner of this crate has the name.
    #[error("there is no such learner")]
    Kind,
    /// There is at least one, and more than eight do not fit.
    #[error("a learner compares 1 to {MAX_ARMS} arms, not {0}")]
    Arms(usize),
    /// The learner does not have this arm.
    #[error("arm {0} is none of this learner's")]
    Arm(usize),
    /// A value is not finite.
    #[error("the observation is not finite")]
    NotFinite,
}

/// What an observation changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Learned {
    /// The path was found to have changed.
    pub path_changed: bool,
    /// The highest changed level above the path: 1 if enough paths of the group changed to change the
    /// group too, 2 if enough groups changed the site, and so on.
    pub levels_changed: usize,
}
