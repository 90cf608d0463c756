//! The evidence of one path: the likelihood of its advantages, given its samples.
//!
//! A sample of arm `a` at time `t` is `y = θ_a + s(t) + b + e`. θ is 0 for the default. The baseline
//! `b ~ N(0, baseline)` is the path's own level, the same for all arms. The load `s(t)` swings around it: a
//! stationary Ornstein-Uhlenbeck process of variance `swing` and time constant `swing_s`. Without it,
//! if one arm happens to meet ten busy minutes, they would count against it many times over.
//!
//! The evidence is the exact Gaussian likelihood of (θ, s now, b), in information form: samples add to
//! it, and waiting turns the load of then into the load of now (a Kalman filter's prediction step in
//! information form; Anderson and Moore, *Optimal Filtering*, 1979, 6.3). It is kept in units of a whole
//! sample's noise, so that a better estimate of the noise applies to the past as well.

use crate::MAX_ADVANTAGES;
use crate::gaussian::Information;
use crate::linalg::{NotPositive, cholesky, forward, solve};

/// Variances of the disturbances of the advantages, in nats squared.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Widths {
    /// Variance of a whole sample around its path, arm and time.
    pub noise: f64,
    /// Variance of the paths' baselines.
    pub baseline: f64,
    /// Variance of a path's load swings.
    pub swing: f64,
    /// Their time constant in seconds.
    pub swing_s: f64,
}

/// The likelihood of one path's advantages, load and baseline.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Evidence<const C: usize> {
    advantages: Information<C>,
    load: Hidden<C>,
    base: Hidden<C>,
    /// Precision between load and baseline.
    both: f64,
    /// Discounted weight of all samples.
    pub weight: f64,
}

/// The part of the load, or of the baseline, in the likelihood.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Hidden<const C: usize> {
    /// Precision between it and each advantage.
    with: [f64; C],
    precision: f64,
    shift: f64,
}

/// The expectation for a path's next sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Expected {
    /// Nats.
    pub mean: f64,
    /// Variance, without the noise of the sample itself.
    pub variance: f64,
}

impl<const C: usize> Hidden<C> {
    const NONE: Self = Self {
        with: [0.0; C],
        precision: 0.0,
        shift: 0.0,
    };

    #[inline]
    fn scale(&mut self, factor: f64) {
        self.with.iter_mut().for_each(|x| *x *= factor);
        self.precision *= factor;
        self.shift *= factor;
    }

    #[inline]
    fn add(&mut self, other: &Self, factor: f64) {
        for (with, other) in self.with.iter_mut().zip(&other.with) {
            *with += factor * other;
        }
        self.precision += factor * other.precision;
        self.shift += factor * other.shift;
    }

    /// Takes `g` times its own row from the advantages. With `g = 1/precision` it is integrated out.
    #[inline]
    fn leave(&self, g: f64, advantages: &mut Information<C>) {
        for i in 0..C {
            let share = g * self.with[i];
            advantages.shift[i] -= share * self.shift;
            for j in 0..C {
                advantages.precision[i][j] -= share * self.with[j];
            }
        }
    }

    /// The same from the other hidden part; `both` is the precision between them.
    #[inline]
    fn leave_other(&self, g: f64, both: f64, other: &mut Self) {
        let share = g * both;
        for (with, own) in other.with.iter_mut().zip(&self.with) {
            *with -= share * own;
        }
        other.precision -= share * both;
        other.shift -= share * self.shift;
    }
}

impl<const C: usize> Evidence<C> {
    /// Evidence without samples.
    pub const NONE: Self = Self {
        advantages: Information::NONE,
        load: Hidden::NONE,
        base: Hidden::NONE,
        both: 0.0,
        weight: 0.0,
    };

    /// The count of numbers written by [`Evidence::pack`].
    pub const PACKED: usize = (C + 2) * (C + 3) / 2 + C + 3;

    /// Adds the samples of another path with the same baseline and load, weighed by `factor`.
    #[inline]
    pub fn add_of(&mut self, other: &Self, factor: f64) {
        self.advantages.add(&other.advantages, factor);
        self.load.add(&other.load, factor);
        self.base.add(&other.base, factor);
        self.both += factor * other.both;
        self.weight += factor * other.weight;
    }

    /// Ages everything: 0.5 after one half-life.
    #[inline]
    pub fn scale(&mut self, factor: f64) {
        self.advantages.scale(factor);
        self.load.scale(factor);
        self.base.scale(factor);
        self.both *= factor;
        self.weight *= factor;
    }

    /// Lets time pass: the load moves on, `s_then = φ·s_now + N(0, (1 − φ²)·swing)`.
    #[inline]
    pub fn wait(&mut self, elapsed_s: f64, widths: &Widths) {
        let phi = (-elapsed_s.max(0.0) / widths.swing_s).exp();
        let moved = (1.0 - phi * phi) * widths.swing / widths.noise;
        if moved > 0.0 {
            let load = self.load;
            let g = 1.0 / (1.0 / moved + load.precision);
            load.leave(g, &mut self.advantages);
            load.leave_other(g, self.both, &mut self.base);
            let left = g / moved; // 1 − g·precision, without the loss of digits
            self.load.scale(left);
            self.both *= left;
        }
        self.load.scale(phi);
        self.load.precision *= phi;
        self.both *= phi;
    }

    /// Adds a sample of `arm`: `residual` is its reward in nats less the regression's part.
    pub fn add(&mut self, arm: usize, residual: f64, weight: f64) {
        let shift = weight * residual;
        for hidden in [&mut self.load, &mut self.base] {
            hidden.precision += weight;
            hidden.shift += shift;
        }
        self.both += weight;
        if let Some(advantage) = arm.checked_sub(1) {
            self.advantages.precision[advantage][advantage] += weight;
            self.advantages.shift[advantage] += shift;
            self.load.with[advantage] += weight;
            self.base.with[advantage] += weight;
        }
        self.weight += weight;
    }

    /// The likelihood of the advantages alone, load and baseline integrated out. `factor` weighs all
    /// samples (1: as they are).
    #[inline]
    #[must_use]
    pub fn likelihood(&self, widths: &Widths, factor: f64) -> Information<C> {
        let Self {
            mut advantages,
            mut load,
            mut base,
            both,
            ..
        } = *self;
        let unit = factor / widths.noise;
        advantages.scale(unit);
        load.scale(unit);
        base.scale(unit);
        load.precision += 1.0 / widths.swing.max(1e-12);
        base.precision += 1.0 / widths.baseline;
        let g = 1.0 / base.precision;
        base.leave(g, &mut advantages);
        base.leave_other(g, both * unit, &mut load);
        load.leave(1.0 / load.precision, &mut advantages);
        advantages
    }

    /// The expectation for the next sample of `arm`, given the knowledge about the advantages from
    /// elsewhere.
    ///
    /// # Errors
    /// [`NotPositive`] if `prior` is not a belief.
    pub fn expected(
        &self,
        arm: usize,
        prior: &Information<C>,
        widths: &Widths,
    ) -> Result<Expected, NotPositive> {
        // The advantages, the load and the baseline.
        const N: usize = MAX_ADVANTAGES + 2;
        let (n, s, b) = (C + 2, C, C + 1);
        let (mut factor, mut mean) = ([0.0; N * N], [0.0; N]);
        for i in 0..C {
            mean[i] = self.advantages.shift[i] / widths.noise + prior.shift[i];
            for j in 0..=i {
                let own = self.advantages.precision[i][j] / widths.noise;
                factor[i * N + j] = own + prior.precision[i][j];
            }
            factor[s * N + i] = self.load.with[i] / widths.noise;
            factor[b * N + i] = self.base.with[i] / widths.noise;
        }
        mean[s] = self.load.shift / widths.noise;
        mean[b] = self.base.shift / widths.noise;
        let swing = widths.swing.max(1e-12);
        factor[s * (N + 1)] = self.load.precision / widths.noise + 1.0 / swing;
        factor[b * (N + 1)] = self.base.precision / widths.noise + 1.0 / widths.baseline;
        factor[b * N + s] = self.both / widths.noise;
        cholesky(&mut factor, n, N)?;
        solve(&factor, n, N, &mut mean);
        let mut sample = [0.0; N];
        (sample[s], sample[b]) = (1.0, 1.0);
        if arm > 0 {
            sample[arm - 1] = 1.0;
        }
        let expected = sample.iter().zip(&mean).map(|(x, m)| x * m).sum();
        forward(&factor, n, N, &mut sample);
        let variance = sample.iter().take(n).map(|x| x * x).sum();
        Ok(Expected {
            mean: expected,
            variance,
        })
    }

    /// Writes the evidence in f32, with only the lower triangle of its precision, since there may be a
    /// million paths.
    pub fn pack(&self, out: &mut [f32]) {
        let Self {
            advantages,
            load,
            base,
            both,
            weight,
        } = self;
        let rows = advantages.precision.iter().enumerate();
        let triangle = rows.flat_map(|(i, row)| row.iter().take(i + 1));
        let numbers = triangle
            .chain(load.with.iter().chain([&load.precision]))
            .chain(base.with.iter().chain([both, &base.precision]))
            .chain(&advantages.shift)
            .chain([&load.shift, &base.shift, weight]);
        for (slot, x) in out.iter_mut().zip(numbers) {
            *slot = *x as f32;
        }
    }

    /// Reads the numbers written by [`Evidence::pack`].
    #[inline]
    #[must_use]
    pub fn unpack(packed: &[f32]) -> Self {
        let mut all = Self::NONE;
        let mut numbers = packed.iter().map(|x| f64::from(*x));
        let mut next = || numbers.next().unwrap_or(0.0);
        for i in 0..C {
            for j in 0..=i {
                let x = next();
                all.advantages.precision[i][j] = x;
                all.advantages.precision[j][i] = x;
            }
        }
        all.load.with.iter_mut().for_each(|x| *x = next());
        all.load.precision = next();
        all.base.with.iter_mut().for_each(|x| *x = next());
        all.both = next();
        all.base.precision = next();
        all.advantages.shift.iter_mut().for_each(|x| *x = next());
        all.load.shift = next();
        all.base.shift = next();
        all.weight = next();
        all
    }
}

/// The part left after this time: half as much after each half-life.
#[must_use]
pub fn left(elapsed_s: f64, half_life_s: f64) -> f64 {
    (-elapsed_s.max(0.0) / half_life_s).exp2()
}

#[cfg(test)]
mod tests {
    use super::*;

    const WIDTHS: Widths = Widths {
        noise: 0.25,
        baseline: 0.64,
        swing: 0.09,
        swing_s: 600.0,
    };

    #[test]
    fn one_arm_alone_says_little_of_its_advantage() {
        let mut evidence = Evidence::<1>::NONE;
        for _ in 0..10_000 {
            evidence.add(1, 2.0, 1.0);
        }
        // No number of samples can separate the arm from the path: the path's width remains.
        let known = evidence.likelihood(&WIDTHS, 1.0);
        assert!((1.0 / known.precision[0][0] - 0.73).abs() < 0.001);
    }

    #[test]
    fn advantages_do_not_depend_on_the_baseline() {
        for shift in [-3.0, 0.0, 5.0] {
            let mut evidence = Evidence::<1>::NONE;
            for _ in 0..10_000 {
                evidence.add(0, shift, 1.0);
                evidence.add(1, shift + 0.7, 1.0);
            }
            let known = evidence.likelihood(&WIDTHS, 1.0).belief().unwrap();
            assert!(
                (known.mean[0] - 0.7).abs() < 0.005,
                "{shift}: {}",
                known.mean[0]
            );
        }
    }

    #[test]
    fn busy_hour_is_not_charged_to_an_arm() {
        let advantage = |widths: &Widths| {
            let mut evidence = Evidence::<1>::NONE;
            for i in 0..200 {
                // The arm and the load change together, once in twenty samples.
                let late = i / 20 % 2;
                evidence.add(late, -0.4 * late as f64, 1.0);
                evidence.wait(30.0, widths);
            }
            evidence.likelihood(widths, 1.0).belief().unwrap()
        };
        let (aware, blind) = (
            advantage(&WIDTHS),
            advantage(&Widths {
                swing: 1e-9,
                ..WIDTHS
            }),
        );
        assert!(aware.variance(0) > 2.0 * blind.variance(0));
    }

    fn is_kept_by_packing<const C: usize>() {
        let mut evidence = Evidence::<C>::NONE;
        for i in 0..40 {
            evidence.add(i % (C + 1), 0.25 * i as f64, 0.5);
        }
        let mut packed = vec![0.0; Evidence::<C>::PACKED];
        evidence.pack(&mut packed);
        assert_eq!(Evidence::unpack(&packed), evidence);
    }

    #[test]
    fn packing_keeps_what_f32_can_hold() {
        is_kept_by_packing::<0>();
        is_kept_by_packing::<1>();
        is_kept_by_packing::<2>();
        is_kept_by_packing::<MAX_ADVANTAGES>();
    }

    #[test]
    fn half_is_left_after_a_half_life() {
        assert_eq!(left(30.0, 30.0), 0.5);
        assert_eq!(left(-1.0, 30.0), 1.0); // a clock that goes back ages nothing
    }
}
