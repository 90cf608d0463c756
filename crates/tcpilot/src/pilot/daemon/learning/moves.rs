//! Which long connections are to have another algorithm while they are open
//! (docs/understand/decisions/21-move.md).
//!
//! New connections try algorithms out. A long one is only ever moved to an algorithm that others on its path
//! have shown to be better, as Mutant does within one connection (Pappone et al., NSDI'25), but without trying
//! out: each change costs the connection a start, and nobody can tell from one connection alone whether its
//! path or its algorithm has changed.

use tcpilot_abi::{TP_CONN_DRY_RUN, TP_RECORD_SAMPLE, tp_record};
use tcpilot_kernel::Move;
use tcpilot_learner::{Level, MAX_ARMS};

use super::taught::{Taught, is_held_out, lineage};

/// When a connection is moved.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MoveTerms {
    /// Nats that its new algorithm must surely bring.
    pub gain: f64,
    /// For so long it keeps what it was moved to.
    pub every_ns: u64,
}

/// Standard deviations that make a gain sure. It is looked at every few seconds for as long as a connection
/// lives, so what happens by chance once in forty looks would happen to most.
const SURE_SD: f64 = 3.0;

impl Taught {
    /// Where the connection of this record, which has just taught, should be moved to.
    pub fn wish(&mut self, record: &tp_record, now_s: f64) -> Option<Move> {
        let terms = self.lesson.moves?;
        let is_ours = u32::from(record.flags) == TP_RECORD_SAMPLE
            && u32::from(record.conn_flags) & TP_CONN_DRY_RUN == 0
            && !is_held_out(record);
        let from = self.lesson.arms.of_number(record.arm).filter(|_| is_ours)?;
        let path = lineage(record).node(Level::Path);
        if !self.lesson.is_steered(&path) {
            return None;
        }
        let plan = self.learner.plan_of(&path, now_s)?;
        // What the row of this path gives most new connections.
        let shares = self.lesson.shares(&path, &plan);
        let to =
            (0..shares.len().min(MAX_ARMS)).max_by(|a, b| shares[*a].total_cmp(&shares[*b]))?;
        let (mean, sd) = self.learner.gain(&path.key, from, to, now_s)?;
        let is_sure = to != from && mean - SURE_SD * sd > terms.gain;
        is_sure.then(|| Move {
            cookie: record.cookie,
            from: record.arm,
            to: self.lesson.arms.number(to),
        })
    }
}
