//! `thompson`: draws each arm as often as it may be the best, and learns in a tree of priors.

use super::{
    Alarm, Estimate, Learned, Learner, Observation, Outcome, Restored, Typical, Unusable, View,
};
use crate::choice::Plan;
use crate::lineage::{Key, NodeKey};
use crate::path::Widths;
use crate::settings::Settings;
use crate::tree::LEVELS;

/// Asks the learner of the right size: `exact!(&self.0, it => it.question())`.
macro_rules! exact {
    ($learner:expr, $exact:ident => $answer:expr) => {
        match $learner {
            $crate::learner::thompson::Any::One($exact) => $answer,
            $crate::learner::thompson::Any::Two($exact) => $answer,
            $crate::learner::thompson::Any::Three($exact) => $answer,
            $crate::learner::thompson::Any::Four($exact) => $answer,
            $crate::learner::thompson::Any::Five($exact) => $answer,
            $crate::learner::thompson::Any::Six($exact) => $answer,
            $crate::learner::thompson::Any::Seven($exact) => $answer,
            $crate::learner::thompson::Any::Eight($exact) => $answer,
        }
    };
}

mod exact;
mod fleet;
mod publish;
mod saved;
mod view;

use exact::Exact;
pub use fleet::OwnGroup;
pub use saved::SavedRows;

/// The learner `thompson` for one policy.
#[derive(Clone, Debug)]
pub struct Thompson(Any);

/// By the number of arms. All arithmetic is compiled for each number of advantages, since a million choice
/// distributions have to be computed within a second.
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

impl Learner for Thompson {
    fn estimates(&self) -> &Thompson {
        self
    }

    fn estimates_mut(&mut self) -> &mut Thompson {
        self
    }

    fn plan_of(&mut self, key: &NodeKey, now_s: f64) -> Option<Plan> {
        self.plan_of(key, now_s)
    }

    fn publish(
        &mut self,
        now_s: f64,
        budget: usize,
        each: &mut dyn FnMut(&NodeKey, Option<&Plan>),
    ) -> usize {
        self.publish(now_s, budget, each)
    }

    fn view(&mut self, key: &NodeKey, now_s: f64) -> Option<View> {
        self.view(key, now_s)
    }
}

impl Thompson {
    /// A learner of `arms` arms, the first being the kernel's default.
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

    /// How often sums lost their digits and were recomputed.
    #[must_use]
    pub fn rebuilt(&self) -> u64 {
        exact!(&self.0, it => it.rebuilt)
    }

    /// The shares for the next connections of a path, or of unknown paths below a node (these have no
    /// distribution of their own). `None` if nothing is kept under this key: then the next node above decides.
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
    /// As [`Thompson::observe`].
    pub fn observe_unsteered(&mut self, seen: &Observation) -> Result<Learned, Unusable> {
        exact!(&mut self.0, it => it.take_in(seen, false))
    }

    /// Counts more ended connections of a path, if the path is known.
    pub fn count_connections(&mut self, path: &Key, connections: u32) {
        exact!(&mut self.0, it => it.count_connections(path, connections));
    }
}
