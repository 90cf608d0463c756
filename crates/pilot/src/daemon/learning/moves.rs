//! Decides which open long connections get another algorithm (docs/understand/decisions/21-move.md).
//!
//! Only new connections explore. A long connection is moved only to an algorithm proven better by other
//! connections on its path. Mutant moves within one connection too (Pappone et al., NSDI'25), but it explores
//! there. We do not: each change costs the connection a new start, and a single connection cannot separate
//! the effects of path and algorithm.

use tcpilot_abi::{TP_CONN_DRY_RUN, TP_RECORD_SAMPLE, tp_record};
use tcpilot_kernel::MoveRequest;
use tcpilot_learner::{Level, MAX_ARMS};

use super::{
    policy_learner::PolicyLearner,
    translate::{is_held_out, lineage},
};

/// Standard deviations of a sure gain. The gain is checked every few seconds while a connection lives, so a
/// chance of one in forty per check would move most connections sooner or later.
const SURE_SD: f64 = 3.0;

impl PolicyLearner {
    /// The move, if any, for the connection of this record, after the record has updated the learner.
    pub fn move_request(&mut self, record: &tp_record, now_s: f64) -> Option<MoveRequest> {
        let terms = self.settings.moves?;
        let is_ours = u32::from(record.flags) == TP_RECORD_SAMPLE
            && u32::from(record.conn_flags) & TP_CONN_DRY_RUN == 0
            && !is_held_out(record);
        let from = self
            .settings
            .arms
            .of_number(record.arm)
            .filter(|_| is_ours)?;
        let path = lineage(record).node(Level::Path);
        if !self.settings.is_steered(&path) {
            return None;
        }
        let plan = self.learner.plan_of(&path, now_s)?;
        // The algorithm of most new connections on this path.
        let shares = self.settings.shares(&path, &plan);
        let to =
            (0..shares.len().min(MAX_ARMS)).max_by(|a, b| shares[*a].total_cmp(&shares[*b]))?;
        let (mean, sd) = self.learner.gain(&path.key, from, to, now_s)?;
        let is_sure = to != from && mean - SURE_SD * sd > terms.gain;
        is_sure.then(|| MoveRequest {
            cookie: record.cookie,
            from: record.arm,
            to: self.settings.arms.number(to),
        })
    }
}
