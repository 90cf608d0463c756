//! Rewards of a path's typical connection, in absolute terms.
//!
//! Evidence has only the rest of each reward, without the regression's part for size and RTT. People want to read a
//! rate. So a path also keeps the mean of the regression's part of its samples, weighed as its evidence is.

use super::{PathId, Tree};
use crate::gaussian::Information;
use crate::linalg::NotPositive;
use crate::path::Expected;

impl<const C: usize> Tree<C> {
    /// Notes the regression's part of a sample, before the sample enters the evidence of the path and of its relative.
    pub(crate) fn note_typical(&mut self, id: PathId, explained: f64, weight: f64, now_s: f64) {
        self.mix_typical(id, explained, weight, now_s);
        if let Some((other, share)) = self.relative(id) {
            self.mix_typical(other, explained, share * weight, now_s);
        }
    }

    fn mix_typical(&mut self, id: PathId, explained: f64, weight: f64, now_s: f64) {
        let known = self.evidence_at(id, now_s).weight;
        let typical = &mut self.paths[id.0 as usize].typical;
        let before = f64::from(*typical);
        let share = weight / (known + weight);
        *typical = match before.is_finite() && share.is_finite() {
            true => (before + (explained - before) * share) as f32,
            false => explained as f32,
        };
    }

    /// The reward of a path's typical connection with each arm, if it ended now; the default's comes first. Empty
    /// before the path's first sample.
    ///
    /// # Errors
    /// [`NotPositive`], as for [`Tree::belief`].
    pub(crate) fn rewards(&mut self, id: PathId, now_s: f64) -> Result<Vec<Expected>, NotPositive> {
        let typical = f64::from(self.paths[id.0 as usize].typical);
        if !typical.is_finite() {
            return Ok(Vec::new());
        }
        let (now, prior): (_, Information<C>) = self.now_and_prior(id, now_s)?;
        let widths = self.widths();
        let of_arm = |arm| {
            let rest = now.evidence.expected(arm, &prior, &widths)?;
            let mean = typical + rest.mean;
            Ok(Expected { mean, ..rest })
        };
        (0..Self::ARMS).map(of_arm).collect()
    }
}
