//! The bounds that a world sets for its runs.

use serde::{Deserialize, Serialize};

/// A bound.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expect {
    #[serde(default = "tree")]
    pub learner: String,
    pub metric: Metric,
    /// Only these kinds; empty: all.
    #[serde(default)]
    pub kinds: Vec<String>,
    #[serde(default)]
    pub over: Over,
    pub min: Option<f64>,
    pub max: Option<f64>,
}

fn tree() -> String {
    "tree".into()
}

/// The figure that is bounded.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// Mean nats below the best arm.
    Regret,
    /// The same over each path's last quarter.
    LastRegret,
    /// Share of the possible gain over the default.
    ShareOfGain,
    /// Mean of the reward against the default's, as a ratio less 1, over the kinds.
    Gain,
    /// The same for the worst kind.
    WorstGain,
    /// Geometric mean of the reward against the best arm's, of the worst kind.
    OfBest,
    /// The same from the 26th connection of each path on.
    OfBestLate,
    /// Share of the paths that never have the best arm from their 26th connection on.
    Stuck,
    /// The same for the regret: of the worst kind.
    WorstRegret,
    /// Share of connections with the best arm.
    ShareOfBest,
    /// Connections per path from a change until the next 50 have 0.95 of the best again.
    Regained,
    /// Share of the 95 % intervals that hold the truth, after 5, 10, 20 and 50 connections of a path.
    Coverage,
    /// The loss of honest peers near a hostile one, as a ratio; then of those elsewhere.
    LostNear,
    LostElsewhere,
}

/// How the figures of several seeds become one.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Over {
    #[default]
    Mean,
    Worst,
}
