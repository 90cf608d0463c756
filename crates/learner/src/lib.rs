//! The learner: carries knowledge from one path to its neighbours.
//!
//! It estimates, for each path, how much better or worse each arm (congestion control) does than the
//! kernel's default. These differences are called *advantages*, in nats of the reward of [`reward`]. A
//! path's advantages are one draw around those of its /24 or /48, these around those of the /16 or /32,
//! and so on up to one global node ([`tree`]). A new path starts from the knowledge about its neighbours.
//!
//! Nothing in this crate reads a clock, does I/O or draws a random number: times are arguments in
//! seconds, and a choice takes its uniform number from the caller ([`draw`]). Start with [`Learner`]
//! and [`Thompson`].
//!
//! Sources: Hong et al., *Hierarchical Bayesian Bandits* (AISTATS 2022) and *Deep Hierarchy in Bandits*
//! (ICML 2022) for the tree; Wu et al., *Conservative Bandits* (ICML 2016) for the ledger; Page,
//! *Continuous Inspection Schemes* (Biometrika 1954) for the change detection.

pub mod bytes;
pub mod change;
pub mod choice;
pub mod draw;
pub mod empirical;
pub mod gaussian;
mod index;
pub mod learner;
pub mod ledger;
pub mod linalg;
pub mod lineage;
pub mod path;
pub mod regression;
pub mod reward;
pub mod settings;
pub mod sharing;
pub mod tree;

pub use choice::Plan;
pub use learner::{Estimate, Learner, Observation, Outcome, Restored, Thompson, View};
pub use lineage::{Level, Lineage, NodeKey};
pub use settings::Settings;
pub use tree::saved::{saved_at_s, saved_domain};

/// Maximum number of arms in a learner, the default among them (`TP_MAX_ARMS` of the kernel side).
pub const MAX_ARMS: usize = 8;

/// The most advantages: each arm but the default has one.
pub const MAX_ADVANTAGES: usize = MAX_ARMS - 1;
