//! Translation of a message between two hosts' algorithms and defaults.
//!
//! A message is about contrasts, differences to the sender's default. Written over the algorithms' rewards
//! themselves its precision is `JᵀΛJ`, where `J` takes rewards to contrasts. A reward added to all of them changes
//! nothing, so any of them can be the reference. Three steps follow:
//!
//! - An algorithm unknown to the reader is integrated out (Schur complement). Its reward has a flat prior.
//! - The reader's default becomes the reference: its row and column are left out. If the sender does not have
//!   it, nothing is left out, and the result speaks only of differences among the others.
//! - Algorithms unknown to the sender get zeros: nothing is known.
//!
//! With `θ' = Mθ` for a changed default this equals `Λ' = M⁻ᵀΛM⁻¹`, `η' = M⁻ᵀη`; tests compare the two.

use tcpilot_learner::MAX_ARMS;
use tcpilot_learner::gaussian::Information;

use crate::{Message, Refusal, Row, State};

/// A precision below this part of the trace is rounding: nothing is known of the algorithm.
const NOTHING: f64 = 1e-9;

/// Precision and shift over rewards, one for each algorithm of the sender.
struct Rewards {
    arms: usize,
    precision: [[f64; MAX_ARMS]; MAX_ARMS],
    shift: [f64; MAX_ARMS],
}

impl Rewards {
    /// `JᵀΛJ` and `Jᵀη`: the default's entries are minus the sums of the others.
    fn of(message: &Message) -> Self {
        let n = message.contrasts();
        let mut all = Self {
            arms: n + 1,
            precision: [[0.0; MAX_ARMS]; MAX_ARMS],
            shift: [0.0; MAX_ARMS],
        };
        for i in 0..n {
            all.shift[i + 1] = message.shift(i);
            all.shift[0] -= message.shift(i);
            for j in 0..n {
                let x = message.precision(i, j);
                all.precision[i + 1][j + 1] = x;
                all.precision[i + 1][0] -= x;
                all.precision[0][j + 1] -= x;
                all.precision[0][0] += x;
            }
        }
        all
    }

    /// Integrates an algorithm out.
    fn forget(&mut self, arm: usize) {
        let trace: f64 = (0..self.arms).map(|i| self.precision[i][i]).sum();
        let own = self.precision[arm][arm];
        let (row, shift) = (self.precision[arm], self.shift[arm]);
        for i in 0..self.arms {
            let part = if own > NOTHING * trace {
                row[i] / own
            } else {
                0.0
            };
            self.shift[i] -= part * shift;
            for (j, x) in row.iter().enumerate().take(self.arms) {
                self.precision[i][j] -= part * x;
            }
        }
        for i in 0..self.arms {
            self.precision[arm][i] = 0.0;
            self.precision[i][arm] = 0.0;
        }
        self.shift[arm] = 0.0;
    }
}

/// How a sender's algorithms map to a reader's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Translation<const C: usize> {
    /// For each of the sender's algorithms its number with the reader.
    to: Vec<Option<usize>>,
}

impl<const C: usize> Translation<C> {
    /// From a state to a reader with these algorithms (the first is its default) and this meaning of rewards.
    ///
    /// # Errors
    /// [`Refusal::Reward`], [`Refusal::NothingInCommon`]; [`Refusal::Algorithms`] if the reader's are not `C` + 1.
    pub fn new(state: &State, reward: u64, reader: &[String]) -> Result<Self, Refusal> {
        if state.reward != reward {
            return Err(Refusal::Reward);
        }
        Self::between(state.algorithms(), reader)
    }

    /// Between two lists of algorithms.
    ///
    /// # Errors
    /// As [`Translation::new`].
    pub fn between(sender: &[String], reader: &[String]) -> Result<Self, Refusal> {
        if reader.len() != C + 1 || sender.len() > MAX_ARMS {
            return Err(Refusal::Algorithms);
        }
        let place = |name: &String| reader.iter().position(|other| other == name);
        let to: Vec<Option<usize>> = sender.iter().map(place).collect();
        if to.iter().flatten().count() < 2 {
            return Err(Refusal::NothingInCommon);
        }
        Ok(Self { to })
    }

    /// A row's knowledge in the reader's terms.
    #[must_use]
    pub fn row(&self, row: &Row) -> Information<C> {
        self.message(&row.said)
    }

    /// A message in the reader's terms; no knowledge if it is of another number of algorithms.
    #[must_use]
    pub fn message(&self, message: &Message) -> Information<C> {
        let mut known = Information::NONE;
        if message.contrasts() + 1 != self.to.len() {
            return known;
        }
        let mut rewards = Rewards::of(message);
        for (arm, _) in self.to.iter().enumerate().filter(|(_, to)| to.is_none()) {
            rewards.forget(arm);
        }
        let contrast = |arm: usize| self.to[arm].and_then(|to| to.checked_sub(1));
        for i in 0..rewards.arms {
            let Some(to_i) = contrast(i) else { continue };
            known.shift[to_i] = rewards.shift[i];
            for j in 0..rewards.arms {
                if let Some(to_j) = contrast(j) {
                    known.precision[to_i][to_j] = rewards.precision[i][j];
                }
            }
        }
        known
    }
}

#[cfg(test)]
#[path = "translate_tests.rs"]
mod tests;
