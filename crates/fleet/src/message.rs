//! A message about one group: a Gaussian over contrasts, as it travels.

use tcpilot_learner::MAX_ADVANTAGES;
use tcpilot_learner::gaussian::Information;
use tcpilot_learner::linalg::{cholesky, solve};

use crate::Refusal;

/// Numbers of a message with so many contrasts: the lower triangle of the precision, and the shift.
#[must_use]
pub const fn numbers(contrasts: usize) -> usize {
    contrasts * (contrasts + 1) / 2 + contrasts
}

const NUMBERS_MAX: usize = numbers(MAX_ADVANTAGES);

/// No contrast is farther from 0, in nats: a factor of 50 in goodput. Measured ones reach 1.3.
pub const MEAN_MAX: f64 = 4.0;

/// No precision is higher, in nats⁻²: the spread of paths keeps a group's far below, at 1000 paths of 1/0.02² each.
pub const PRECISION_MAX: f64 = 1e7;

/// Standard deviation of a prior of a hundredth of a sample, in nats. It keeps matrices of untried arms regular.
pub const VAGUE_SD: f64 = 5.0;

/// Rounding to f32 may leave a direction this far below 0, as a part of the trace.
const ROUNDING: f64 = 1e-5;

/// Precision and shift over contrasts, without a unit of a host: nats⁻² and nats⁻¹.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Message {
    contrasts: usize,
    numbers: [f32; NUMBERS_MAX],
}

impl Message {
    /// A message of these numbers, or the reason for which it cannot be true.
    ///
    /// # Errors
    /// [`Refusal::Algorithms`] if their number fits no message, [`Refusal::NotFinite`],
    /// [`Refusal::NotKnowledge`], [`Refusal::Implausible`].
    pub fn new(from: &[f32]) -> Result<Self, Refusal> {
        let contrasts = (1..=MAX_ADVANTAGES).find(|c| numbers(*c) == from.len());
        let contrasts = contrasts.ok_or(Refusal::Algorithms)?;
        if !from.iter().all(|x| x.is_finite()) {
            return Err(Refusal::NotFinite);
        }
        let mut message = Self {
            contrasts,
            numbers: [0.0; NUMBERS_MAX],
        };
        message.numbers[..from.len()].copy_from_slice(from);
        message.check()?;
        Ok(message)
    }

    /// A learner's knowledge as a message.
    ///
    /// # Errors
    /// As [`Message::new`].
    pub fn of<const C: usize>(known: &Information<C>) -> Result<Self, Refusal> {
        let rows = known.precision.iter().enumerate();
        let triangle = rows.flat_map(|(i, row)| row.iter().take(i + 1));
        let packed: Vec<f32> = triangle.chain(&known.shift).map(|x| *x as f32).collect();
        Self::new(&packed)
    }

    /// Number of contrasts: one less than algorithms.
    #[must_use]
    pub fn contrasts(&self) -> usize {
        self.contrasts
    }

    /// Lower triangle of the precision by rows, then the shift.
    #[must_use]
    pub fn numbers(&self) -> &[f32] {
        &self.numbers[..numbers(self.contrasts)]
    }

    /// An entry of the precision.
    #[must_use]
    pub fn precision(&self, i: usize, j: usize) -> f64 {
        let (i, j) = (i.max(j), i.min(j));
        f64::from(self.numbers[i * (i + 1) / 2 + j])
    }

    /// An entry of the shift.
    #[must_use]
    pub fn shift(&self, i: usize) -> f64 {
        let triangle = numbers(self.contrasts) - self.contrasts;
        f64::from(self.numbers[triangle + i])
    }

    /// Whether connections can have said it.
    fn check(&self) -> Result<(), Refusal> {
        let n = self.contrasts;
        let diagonal = || (0..n).map(|i| self.precision(i, i));
        if diagonal().any(|x| x < 0.0) {
            return Err(Refusal::NotKnowledge);
        }
        if diagonal().any(|x| x > PRECISION_MAX) {
            return Err(Refusal::Implausible);
        }
        let ridge = ROUNDING * diagonal().sum::<f64>() + 1.0 / (VAGUE_SD * VAGUE_SD);
        let mut factor = [0.0; MAX_ADVANTAGES * MAX_ADVANTAGES];
        let mut mean = [0.0; MAX_ADVANTAGES];
        for i in 0..n {
            mean[i] = self.shift(i);
            for j in 0..n {
                factor[i * n + j] = self.precision(i, j) + if i == j { ridge } else { 0.0 };
            }
        }
        cholesky(&mut factor, n, n).map_err(|_| Refusal::NotKnowledge)?;
        solve(&factor, n, n, &mut mean);
        let is_far = |x: &f64| x.abs() > MEAN_MAX;
        if mean.iter().take(n).any(is_far) {
            return Err(Refusal::Implausible);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knowledge_comes_back_as_rounded() {
        let mut known = Information::<2>::isotropic(0.25, 0.5);
        known.precision[0][1] = 1.5;
        known.precision[1][0] = 1.5;
        let message = Message::of(&known).unwrap();
        assert_eq!(message.numbers(), [4.0, 1.5, 4.0, 1.0, 1.0]);
        assert_eq!((message.precision(0, 1), message.shift(1)), (1.5, 1.0));
    }

    #[test]
    fn impossible_numbers_are_refused_by_reason() {
        let new = |numbers: &[f32]| Message::new(numbers).unwrap_err();
        assert_eq!(new(&[f32::NAN, 0.0]), Refusal::NotFinite);
        assert_eq!(new(&[1.0, f32::INFINITY]), Refusal::NotFinite);
        assert_eq!(new(&[-1.0, 0.0]), Refusal::NotKnowledge);
        assert_eq!(new(&[1.0, 2.0, 1.0, 0.0, 0.0]), Refusal::NotKnowledge);
        assert_eq!(new(&[100.0, 500.0]), Refusal::Implausible);
        assert_eq!(new(&[2e7, 0.0]), Refusal::Implausible);
        assert_eq!(new(&[1.0, 2.0, 3.0]), Refusal::Algorithms);
        assert_eq!(new(&[]), Refusal::Algorithms);
    }

    #[test]
    fn untried_arms_are_possible() {
        assert!(Message::new(&[4.0, 0.0, 0.0, 2.0, 0.0]).is_ok());
        assert!(Message::new(&[0.0; numbers(3)]).is_ok());
    }
}
