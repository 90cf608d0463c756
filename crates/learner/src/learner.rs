//! One learner: takes in the measures of connections, and gives the shares for the next ones.

use crate::MAX_ARMS;
use crate::choice::Plan;
use crate::lineage::{Key, Lineage, NodeKey};
use crate::path::Widths;
use crate::regression::Features;
use crate::reward::Worth;
use crate::settings::Settings;
use crate::tree::LEVELS;

/// Asks the learner of the right size: `exact!(&self.0, it => it.question())`.
macro_rules! exact {
    ($learner:expr, $exact:ident => $answer:expr) => {
        match $learner {
            $crate::learner::Any::One($exact) => $answer,
            $crate::learner::Any::Two($exact) => $answer,
            $crate::learner::Any::Three($exact) => $answer,
            $crate::learner::Any::Four($exact) => $answer,
            $crate::learner::Any::Five($exact) => $answer,
            $crate::learner::Any::Six($exact) => $answer,
            $crate::learner::Any::Seven($exact) => $answer,
            $crate::learner::Any::Eight($exact) => $answer,
        }
    };
}

mod exact;
mod publish;
mod saved;
mod view;

use exact::Exact;
pub use saved::{Restored, Restoring};
pub use view::{Alarm, Estimate, View};

/// How a connection, or an interval of a long one, ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Outcome {
    /// It has a worth.
    Worth(Worth),
    /// It timed out; its rate says nothing.
    TimedOut,
}

/// One connection, as the learner sees it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Observation {
    /// The path of the connection, with the nodes above.
    pub lineage: Lineage,
    /// The arm that was chosen first; 0 is the default.
    pub arm: usize,
    /// How it ended.
    pub outcome: Outcome,
    /// Properties that do not depend on the arm.
    pub features: Features,
    /// When it ended, in seconds of any clock that does not go back. Saved knowledge needs a clock
    /// that all boots share.
    pub at_s: f64,
    /// Seconds since its last sample, if this is an interval of a long connection and not its first.
    /// Intervals of one connection resemble each other, so the later ones count less
    /// ([`crate::settings::Reward::interval_memory_s`]).
    pub since_last_s: Option<f64>,
}

/// Why a learner cannot be made, or an observation cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unusable {
    /// One arm is no choice, and more than eight do not fit.
    #[error("a learner compares 1 to {MAX_ARMS} arms, not {0}")]
    Arms(usize),
    /// The learner does not have this arm.
    #[error("arm {0} is none of this learner's")]
    Arm(usize),
    /// A value that is not finite.
    #[error("the observation is not finite")]
    NotFinite,
}

/// What an observation changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Learned {
    /// The path was found to have changed.
    pub path_changed: bool,
    /// So many paths of its group changed that the group did (1), so many groups of its site that the
    /// site did (2), and so on.
    pub levels_changed: usize,
}

/// A learner for one policy.
#[derive(Clone, Debug)]
pub struct Learner(Any);

/// By the number of arms. All arithmetic is compiled for each number of contrasts, since a million rows
/// have to be computed within a second.
#[derive(Clone, Debug)]
enum Any {
    One(Box<Exact<0>>),
    Two(Box<Exact<1>>),
    Three(Box<Exact<2>>),
    Four(Box<Exact<3>>),
    Five(Box<Exact<4>>),
    Six(Box<Exact<5>>),
    Seven(Box<Exact<6>>),
    Eight(Box<Exact<7>>),
}

impl Learner {
    /// A learner of `arms` arms, the first of which is the kernel's default.
    ///
    /// # Errors
    /// [`Unusable::Arms`].
    pub fn new(arms: usize, settings: Settings) -> Result<Self, Unusable> {
        Ok(Self(match arms {
            1 => Any::One(Box::new(Exact::new(settings))),
            2 => Any::Two(Box::new(Exact::new(settings))),
            3 => Any::Three(Box::new(Exact::new(settings))),
            4 => Any::Four(Box::new(Exact::new(settings))),
            5 => Any::Five(Box::new(Exact::new(settings))),
            6 => Any::Six(Box::new(Exact::new(settings))),
            7 => Any::Seven(Box::new(Exact::new(settings))),
            8 => Any::Eight(Box::new(Exact::new(settings))),
            _ => return Err(Unusable::Arms(arms)),
        }))
    }

    /// Number of paths.
    #[must_use]
    pub fn path_count(&self) -> usize {
        exact!(&self.0, it => it.tree.len())
    }

    /// Number of nodes above the paths.
    #[must_use]
    pub fn node_count(&self) -> usize {
        exact!(&self.0, it => it.tree.node_count())
    }

    /// Noise and baseline widths in use.
    #[must_use]
    pub fn widths(&self) -> Widths {
        exact!(&self.0, it => it.tree.widths())
    }

    /// Spreads in use, from path in group up.
    #[must_use]
    pub fn spread(&self) -> [f64; LEVELS] {
        exact!(&self.0, it => it.tree.spread())
    }

    /// How often sums lost their digits and were computed anew.
    #[must_use]
    pub fn rebuilt(&self) -> u64 {
        exact!(&self.0, it => it.rebuilt)
    }

    /// The shares for the next connections of a path, known or not.
    pub fn plan(&mut self, lineage: &Lineage, now_s: f64) -> Plan {
        exact!(&mut self.0, it => it.plan(lineage, now_s))
    }

    /// The shares for the next connections of a path, or of unknown paths below a node, which have no own row.
    /// `None` if nothing is kept under this key: then the next node above decides.
    pub fn plan_of(&mut self, key: &NodeKey, now_s: f64) -> Option<Plan> {
        exact!(&mut self.0, it => it.plan_of(key, now_s))
    }

    /// Takes in a connection.
    ///
    /// # Errors
    /// [`Unusable`] if it cannot be used; then nothing changes.
    pub fn observe(&mut self, seen: &Observation) -> Result<Learned, Unusable> {
        exact!(&mut self.0, it => it.take_in(seen, true))
    }

    /// The same for a connection without a draw from the learner's shares (it kept the default, because only
    /// other connections are steered, or none): exploring has cost it nothing.
    ///
    /// # Errors
    /// As [`Learner::observe`].
    pub fn observe_unsteered(&mut self, seen: &Observation) -> Result<Learned, Unusable> {
        exact!(&mut self.0, it => it.take_in(seen, false))
    }

    /// Counts more ended connections of a path, if the path is known.
    pub fn count_connections(&mut self, path: &Key, connections: u32) {
        exact!(&mut self.0, it => it.count_connections(path, connections));
    }
}
