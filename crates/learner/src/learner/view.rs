//! The learner's knowledge for people: estimates with intervals, their origin, the cost of exploring,
//! and the changes found.

use crate::choice::Plan;
use crate::lineage::{Level, NodeKey};

/// Standard deviations on either side of the mean of an interval that holds the truth with 95 %. A normal
/// distribution has 1.96. But the widths of the model are guesses at first, and differences of algorithms are not normally
/// distributed: with 1.96, 91 to 97 % of the intervals held the truth in simulated worlds, after 5 to 50 connections.
pub(super) const SD95: f64 = 2.25;

/// One arm against the default, in nats.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// Mean.
    pub mean: f64,
    /// Lower end of the interval that holds the truth with 95 %.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
    /// The level that most of this knowledge comes from; `None`: mostly from the initial assumption.
    pub from: Option<Level>,
}

impl Estimate {
    /// The estimate with this mean and standard deviation, in nats.
    #[must_use]
    pub fn new(mean: f64, sd: f64, from: Option<Level>) -> Self {
        Self {
            mean,
            low: mean - SD95 * sd,
            high: mean + SD95 * sd,
            from,
        }
    }

    /// Mean and ends of the interval as gains in per cent.
    #[must_use]
    pub fn percent(&self) -> [f64; 3] {
        [self.mean, self.low, self.high].map(|nats| 100.0 * nats.exp_m1())
    }
}

/// The reward of a path's typical connection with one arm, in nats: the logarithm of bytes per second, less the cost of
/// retransmissions and of a queue.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Typical {
    /// Mean.
    pub mean: f64,
    /// Lower end of the interval that holds the truth with 95 %.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
}

/// The knowledge about a path, or about an unknown path below a node.
#[derive(Clone, Debug, PartialEq)]
pub struct View {
    /// The path or node.
    pub key: NodeKey,
    /// One for each arm but the default.
    pub estimates: Vec<Estimate>,
    /// One for each arm, the default's first; empty for a node, and before the path's first sample.
    pub typical: Vec<Typical>,
    /// The shares of the next connections.
    pub plan: Plan,
    /// What the learner compares, one for each arm: a cost in millionths, 0 is best. Thompson's is the
    /// expected loss of reward against the best arm.
    pub costs: Vec<u64>,
    /// Ended connections of a path since it was first seen, or since its saved row was read; 0
    /// for a node.
    pub connections: u32,
    /// Weight of a path's own samples as they count now; 0 for a node.
    pub own_weight: f64,
    /// When a path gave its last sample, in seconds.
    pub seen_s: Option<f64>,
    /// Nats times connections left to its group (or the node) for exploring.
    pub credit: f64,
    /// Expected cost of exploring there so far, in nats times connections.
    pub spent: f64,
    /// The share of the default's bouts of loss that came with a queue; 0.8 if nothing is known.
    pub queued_share: f64,
    /// The least advantage of another arm over the default here, in nats ([`crate::sharing`]).
    pub bonus: f64,
    /// When it, or a node above it, was last found to have changed, as far as the log of alarms goes back.
    pub changed_s: Option<f64>,
    /// What the other hosts of a fleet say of the group.
    pub foreign: Option<Foreign>,
}

/// What the other hosts of a fleet say of a group.
#[derive(Clone, Debug, PartialEq)]
pub struct Foreign {
    /// As many whole connections with each arm say as much.
    pub connections: f64,
    /// The part of it that counts, 0 to 1: less if it contradicts the host's own knowledge.
    pub believed: f64,
    /// The others' paths behind it, to the next power of two below.
    pub paths: u64,
    /// Seconds since the last sample behind it.
    pub age_s: f64,
    /// Whether choices use it.
    pub is_used: bool,
    /// Whether they do not because the group is held back from the fleet.
    pub is_held_back: bool,
    /// The shares without it if it is used, and with it if it is not.
    pub otherwise: Plan,
}

/// A path or node was found to have changed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Alarm {
    /// The path or node.
    pub key: NodeKey,
    /// When, in seconds.
    pub at_s: f64,
}
