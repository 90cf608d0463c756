//! Knowledge of the contrasts of one node, as a Gaussian in information form.
//!
//! A likelihood or belief is kept as precision `Λ` and shift `η = Λ·mean`. In this form independent
//! pieces of knowledge can be added and subtracted, and may be singular: a path that used only one arm says
//! nothing about the others.

use crate::linalg::{NotPositive, cholesky, forward, solve, with_known_size};
use crate::{MAX_ARMS, MAX_CONTRASTS};

const N: usize = MAX_CONTRASTS;

/// Gaussian knowledge of `n` contrasts: precision and precision times mean.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Information {
    n: usize,
    /// Row-major, stride [`MAX_CONTRASTS`], symmetric. Nats to the power of −2.
    pub precision: [f64; N * N],
    /// `precision · mean`.
    pub shift: [f64; N],
}

/// A proper belief: mean and factored precision.
#[derive(Clone, Copy, Debug)]
pub struct Belief {
    n: usize,
    /// Mean of each contrast, in nats.
    pub mean: [f64; N],
    factor: [f64; N * N],
}

impl Information {
    /// No knowledge of `n` contrasts.
    #[inline]
    #[must_use]
    pub fn none(n: usize) -> Self {
        assert!(n <= N, "at most {MAX_ARMS} arms");
        Self {
            n,
            precision: [0.0; N * N],
            shift: [0.0; N],
        }
    }

    /// Independent contrasts with this mean and standard deviation each.
    #[must_use]
    pub fn isotropic(n: usize, mean: f64, sd: f64) -> Self {
        let mut all = Self::none(n);
        for i in 0..n {
            all.precision[i * N + i] = 1.0 / (sd * sd);
            all.shift[i] = mean / (sd * sd);
        }
        all
    }

    /// The number of contrasts.
    #[must_use]
    pub fn len(&self) -> usize {
        self.n
    }

    /// Whether it has no contrast at all (a learner with one arm).
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.n == 0
    }

    /// Adds `factor` times the other's knowledge; a negative factor subtracts it.
    #[inline]
    pub fn add(&mut self, other: &Self, factor: f64) {
        with_known_size!(self.n, N, |M, S| self.add_sized(other, factor, M, S));
    }

    #[inline(always)]
    fn add_sized(&mut self, other: &Self, factor: f64, n: usize, stride: usize) {
        for i in 0..n {
            self.shift[i] += factor * other.shift[i];
            for j in 0..n {
                self.precision[i * stride + j] += factor * other.precision[i * stride + j];
            }
        }
    }

    /// Weighs the knowledge: 0.5 makes it count as half as many samples.
    pub fn scale(&mut self, factor: f64) {
        for i in 0..self.n {
            self.shift[i] *= factor;
            for j in 0..self.n {
                self.precision[i * N + j] *= factor;
            }
        }
    }

    /// Turns knowledge of a child into knowledge of its parent, or the reverse, if the two differ by
    /// `N(0, spread² I)`: `Λ' = Λ(I + τ²Λ)⁻¹`, `η' = (I + τ²Λ)⁻¹η`, with τ = `spread` in nats.
    ///
    /// # Errors
    /// [`NotPositive`] if `Λ` has a direction below −1/τ², which only lost digits can cause.
    #[inline]
    pub fn through(&self, spread: f64) -> Result<Self, NotPositive> {
        with_known_size!(self.n, N, |M, S| self.through_sized(spread, M, S))
    }

    #[inline(always)]
    fn through_sized(&self, spread: f64, n: usize, stride: usize) -> Result<Self, NotPositive> {
        let tau2 = spread * spread;
        let mut factor = [0.0; N * N];
        for i in 0..n {
            for j in 0..n {
                factor[i * stride + j] = tau2 * self.precision[i * stride + j];
            }
            factor[i * stride + i] += 1.0;
        }
        cholesky(&mut factor, n, stride)?;
        let mut out = Self::none(n);
        out.shift = self.shift;
        solve(&factor, n, stride, &mut out.shift);
        let mut column = [0.0; N];
        for j in 0..n {
            for (i, value) in column.iter_mut().enumerate().take(n) {
                *value = self.precision[i * stride + j];
            }
            solve(&factor, n, stride, &mut column);
            // Λ and (I + τ²Λ)⁻¹ commute, so the result is symmetric except for rounding: use one half.
            for (i, value) in column.iter().enumerate().take(j + 1) {
                out.precision[i * stride + j] = *value;
                out.precision[j * stride + i] = *value;
            }
        }
        Ok(out)
    }

    /// This knowledge as a belief.
    ///
    /// # Errors
    /// [`NotPositive`] if some direction is not known at all.
    #[inline]
    pub fn belief(&self) -> Result<Belief, NotPositive> {
        let mut belief = Belief {
            n: self.n,
            mean: self.shift,
            factor: self.precision,
        };
        cholesky(&mut belief.factor, self.n, N)?;
        solve(&belief.factor, self.n, N, &mut belief.mean);
        Ok(belief)
    }

    /// The belief of independent contrasts, as [`Information::isotropic`] makes them: no matrix to factor.
    #[must_use]
    pub fn prior(&self) -> Belief {
        let mut belief = Belief {
            n: self.n,
            mean: [0.0; N],
            factor: [0.0; N * N],
        };
        for i in 0..self.n {
            let precision = self.precision[i * N + i];
            belief.factor[i * N + i] = precision.sqrt();
            belief.mean[i] = self.shift[i] / precision;
        }
        belief
    }

    /// Trace of the precision: how much is known, summed over the contrasts.
    #[must_use]
    pub fn trace(&self) -> f64 {
        (0..self.n).map(|i| self.precision[i * N + i]).sum()
    }
}

impl Belief {
    /// The number of contrasts.
    #[must_use]
    pub fn len(&self) -> usize {
        self.n
    }

    /// Whether it has no contrast at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.n == 0
    }

    /// Variance of one contrast, in nats squared, if the others are unknown.
    #[must_use]
    pub fn variance(&self, contrast: usize) -> f64 {
        // (L Lᵀ)⁻¹ᵢᵢ = |L⁻¹eᵢ|²
        let e = self.deviations(contrast);
        e.iter().take(self.n).map(|x| x * x).sum()
    }

    /// How much better arm `to` is than arm `from`: mean and standard deviation, in nats. Arm 0 is the
    /// default, with which the contrasts compare.
    #[must_use]
    pub fn gain(&self, from: usize, to: usize) -> (f64, f64) {
        let of = |arm: usize| match arm.checked_sub(1) {
            Some(contrast) => (self.mean[contrast], self.deviations(contrast)),
            None => (0.0, [0.0; N]),
        };
        let ((less, from), (more, to)) = (of(from), of(to));
        // Both deviate by the same independent numbers: Var(x − y) = |L⁻¹(eₓ − e_y)|².
        let variance: f64 = to.iter().zip(from).map(|(x, y)| (x - y) * (x - y)).sum();
        (more - less, variance.sqrt())
    }

    /// A contrast's deviation from its mean, per independent standard normal number: row `contrast` of
    /// `L⁻ᵀ`, which is column `contrast` of `L⁻¹`. Entries below `contrast` are 0.
    #[must_use]
    pub fn deviations(&self, contrast: usize) -> [f64; N] {
        let mut e = [0.0; N];
        e[contrast] = 1.0;
        forward(&self.factor, self.n, N, &mut e);
        e
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_adds_to_the_variance() {
        let there = Information::isotropic(3, 0.4, 0.5)
            .through(1.2)
            .unwrap()
            .belief()
            .unwrap();
        assert!((there.variance(1) - (0.25 + 1.44)).abs() < 1e-12);
        assert!((there.mean[2] - 0.4).abs() < 1e-12);
    }

    #[test]
    fn a_gain_is_known_better_if_both_arms_deviate_alike() {
        let mut known = Information::isotropic(2, 0.0, 1.0);
        // Covariance [[1, r], [r, 1]] with r = 0.9; its inverse is [[1, -r], [-r, 1]] / (1 - r²).
        let r = 0.9;
        for (at, x) in [(0, 1.0), (1, -r), (N, -r), (N + 1, 1.0)] {
            known.precision[at] = x / (1.0 - r * r);
        }
        known.shift[0] = (0.3 - r * 0.5) / (1.0 - r * r);
        known.shift[1] = (0.5 - r * 0.3) / (1.0 - r * r);
        let belief = known.belief().unwrap();
        let is = |(mean, sd): (f64, f64), (to_be, to_be_sd): (f64, f64)| {
            assert!(
                (mean - to_be).abs() < 1e-12 && (sd - to_be_sd).abs() < 1e-12,
                "{mean} {sd}"
            );
        };
        is(belief.gain(0, 2), (0.5, 1.0));
        is(belief.gain(2, 0), (-0.5, 1.0));
        is(belief.gain(1, 2), (0.2, (2.0 - 2.0 * r).sqrt()));
        is(belief.gain(1, 1), (0.0, 0.0));
    }

    #[test]
    fn what_is_not_known_stays_unknown_through_a_spread() {
        let mut one = Information::none(2);
        one.precision[0] = 4.0;
        one.shift[0] = 2.0;
        let there = one.through(0.5).unwrap();
        assert!((there.precision[0] - 2.0).abs() < 1e-12);
        assert_eq!(there.precision[N + 1], 0.0);
        assert_eq!(there.belief().unwrap_err(), NotPositive);
    }

    #[test]
    fn taking_away_undoes_adding() {
        let mut a = Information::isotropic(2, 0.1, 0.3);
        let before = a;
        let b = Information::isotropic(2, -0.2, 0.7);
        a.add(&b, 1.0);
        a.add(&b, -1.0);
        for (x, y) in a.precision.iter().zip(before.precision) {
            assert!((x - y).abs() < 1e-12);
        }
    }
}
