//! Knowledge of the advantages of one node, as a Gaussian in information form.
//!
//! A likelihood or belief is kept as precision `Λ` and shift `η = Λ·mean`. In this form independent
//! pieces of knowledge can be added and subtracted, and may be singular: a path with only one used arm says
//! nothing about the others.
//!
//! The number of advantages is a constant of the types. A million beliefs are computed each time all choice
//! distributions are written, and their matrices should take no more memory, and their loops no more turns, than they
//! need.

use crate::linalg::{NotPositive, cholesky, forward, solve};

/// Gaussian knowledge of `C` advantages: precision and precision times mean.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Information<const C: usize> {
    /// Symmetric. Nats to the power of −2.
    pub precision: [[f64; C]; C],
    /// `precision · mean`.
    pub shift: [f64; C],
}

/// A proper belief: mean and factored precision.
#[derive(Clone, Copy, Debug)]
pub struct Belief<const C: usize> {
    /// Mean of each advantage, in nats.
    pub mean: [f64; C],
    factor: [[f64; C]; C],
}

impl<const C: usize> Information<C> {
    /// No knowledge.
    pub const NONE: Self = Self {
        precision: [[0.0; C]; C],
        shift: [0.0; C],
    };

    /// Independent advantages with this mean and standard deviation each.
    #[must_use]
    pub fn isotropic(mean: f64, sd: f64) -> Self {
        let mut all = Self::NONE;
        for i in 0..C {
            all.precision[i][i] = 1.0 / (sd * sd);
            all.shift[i] = mean / (sd * sd);
        }
        all
    }

    /// Advantages with this mean, standard deviation and correlation of each two.
    #[must_use]
    pub fn correlated(mean: f64, sd: f64, correlation: f64) -> Self {
        let mut all = Self::NONE;
        // Σ = sd²((1 − ρ)I + ρ11ᵀ), and its inverse by Sherman and Morrison.
        let own = 1.0 / (sd * sd * (1.0 - correlation));
        let shared = own * correlation / (1.0 + (C as f64 - 1.0) * correlation);
        for i in 0..C {
            for j in 0..C {
                all.precision[i][j] = if i == j { own - shared } else { -shared };
                all.shift[i] += all.precision[i][j] * mean;
            }
        }
        all
    }

    /// Adds `factor` times the other's knowledge; a negative factor subtracts it.
    #[inline]
    pub fn add(&mut self, other: &Self, factor: f64) {
        for i in 0..C {
            self.shift[i] += factor * other.shift[i];
            for j in 0..C {
                self.precision[i][j] += factor * other.precision[i][j];
            }
        }
    }

    /// Weighs the knowledge: 0.5 makes it count as half as many samples.
    #[inline]
    pub fn scale(&mut self, factor: f64) {
        for i in 0..C {
            self.shift[i] *= factor;
            for j in 0..C {
                self.precision[i][j] *= factor;
            }
        }
    }

    /// Turns knowledge of a child into knowledge of its parent, or the reverse, if the two differ by
    /// `N(0, spread² I)`: `Λ' = Λ(I + τ²Λ)⁻¹`, `η' = (I + τ²Λ)⁻¹η`, with τ = `spread` in nats.
    ///
    /// # Errors
    /// [`NotPositive`] if `Λ` has a direction below −1/τ²; only lost digits can cause this.
    #[inline]
    pub fn through(&self, spread: f64) -> Result<Self, NotPositive> {
        let tau2 = spread * spread;
        let mut factor = self.precision.map(|row| row.map(|x| tau2 * x));
        for (i, row) in factor.iter_mut().enumerate() {
            row[i] += 1.0;
        }
        let factor = factor.as_flattened_mut();
        cholesky(factor, C, C)?;
        let mut out = *self;
        solve(factor, C, C, &mut out.shift);
        for j in 0..C {
            let mut column = self.precision.map(|row| row[j]);
            solve(factor, C, C, &mut column);
            // Λ and (I + τ²Λ)⁻¹ commute, so the result is symmetric except for rounding: use one half.
            for (i, value) in column.iter().enumerate().take(j + 1) {
                out.precision[i][j] = *value;
                out.precision[j][i] = *value;
            }
        }
        Ok(out)
    }

    /// This knowledge as a belief.
    ///
    /// # Errors
    /// [`NotPositive`] if some direction is not known at all.
    #[inline]
    pub fn belief(&self) -> Result<Belief<C>, NotPositive> {
        let mut belief = Belief {
            mean: self.shift,
            factor: self.precision,
        };
        cholesky(belief.factor.as_flattened_mut(), C, C)?;
        solve(belief.factor.as_flattened(), C, C, &mut belief.mean);
        Ok(belief)
    }

    /// Trace of the precision: how much is known, summed over the advantages.
    #[inline]
    #[must_use]
    pub fn trace(&self) -> f64 {
        (0..C).map(|i| self.precision[i][i]).sum()
    }
}

impl<const C: usize> Belief<C> {
    /// Independent advantages of mean 0 and a standard deviation of one nat.
    pub const WIDE: Self = {
        let mut factor = [[0.0; C]; C];
        let mut i = 0;
        while i < C {
            factor[i][i] = 1.0;
            i += 1;
        }
        Self {
            mean: [0.0; C],
            factor,
        }
    };

    /// Variance of one advantage, in nats squared, if the others are unknown.
    #[inline]
    #[must_use]
    pub fn variance(&self, advantage: usize) -> f64 {
        // (L Lᵀ)⁻¹ᵢᵢ = |L⁻¹eᵢ|²
        self.deviations(advantage).iter().map(|x| x * x).sum()
    }

    /// How much better arm `to` is than arm `from`: mean and standard deviation, in nats. Arm 0 is the
    /// default, the reference of the advantages.
    #[must_use]
    pub fn gain(&self, from: usize, to: usize) -> (f64, f64) {
        let of = |arm: usize| match arm.checked_sub(1) {
            Some(advantage) => (self.mean[advantage], self.deviations(advantage)),
            None => (0.0, [0.0; C]),
        };
        let ((less, from), (more, to)) = (of(from), of(to));
        // Both deviate by the same independent numbers: Var(x − y) = |L⁻¹(eₓ − e_y)|².
        let variance: f64 = to.iter().zip(from).map(|(x, y)| (x - y) * (x - y)).sum();
        (more - less, variance.sqrt())
    }

    /// An advantage's deviation from its mean, per independent standard normal number: row `advantage` of
    /// `L⁻ᵀ`, equal to column `advantage` of `L⁻¹`. Entries below `advantage` are 0.
    #[inline]
    #[must_use]
    pub fn deviations(&self, advantage: usize) -> [f64; C] {
        let mut e = [0.0; C];
        e[advantage] = 1.0;
        forward(self.factor.as_flattened(), C, C, &mut e);
        e
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn correlated_advantages_have_their_covariance() {
        let known = Information::<4>::correlated(-0.1, 0.5, 0.5)
            .belief()
            .unwrap();
        for i in 0..4 {
            assert!((known.mean[i] + 0.1).abs() < 1e-12);
            assert!((known.variance(i) - 0.25).abs() < 1e-12);
            for j in 0..i {
                // Var(x − y) = 2·sd²·(1 − ρ)
                let (_, sd) = known.gain(i + 1, j + 1);
                assert!((sd * sd - 0.25).abs() < 1e-12);
            }
        }
        assert_eq!(
            Information::<2>::correlated(0.1, 0.5, 0.0),
            Information::isotropic(0.1, 0.5)
        );
    }

    #[test]
    fn a_spread_adds_to_the_variance() {
        let there = Information::<3>::isotropic(0.4, 0.5)
            .through(1.2)
            .unwrap()
            .belief()
            .unwrap();
        assert!((there.variance(1) - (0.25 + 1.44)).abs() < 1e-12);
        assert!((there.mean[2] - 0.4).abs() < 1e-12);
    }

    #[test]
    fn correlated_arms_make_a_gain_surer() {
        let mut known = Information::<2>::isotropic(0.0, 1.0);
        // Covariance [[1, r], [r, 1]] with r = 0.9; its inverse is [[1, -r], [-r, 1]] / (1 - r²).
        let r = 0.9;
        known.precision = [[1.0, -r], [-r, 1.0]].map(|row| row.map(|x| x / (1.0 - r * r)));
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
    fn unknown_stays_unknown_through_a_spread() {
        let mut one = Information::<2>::NONE;
        one.precision[0][0] = 4.0;
        one.shift[0] = 2.0;
        let there = one.through(0.5).unwrap();
        assert!((there.precision[0][0] - 2.0).abs() < 1e-12);
        assert_eq!(there.precision[1][1], 0.0);
        assert_eq!(there.belief().unwrap_err(), NotPositive);
    }

    #[test]
    fn taking_away_undoes_adding() {
        let mut a = Information::<2>::isotropic(0.1, 0.3);
        let before = a;
        let b = Information::<2>::isotropic(-0.2, 0.7);
        a.add(&b, 1.0);
        a.add(&b, -1.0);
        let before = before.precision.as_flattened();
        for (x, y) in a.precision.as_flattened().iter().zip(before) {
            assert!((x - y).abs() < 1e-12);
        }
    }
}
