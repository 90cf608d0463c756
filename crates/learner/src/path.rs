//! The evidence of one path: the likelihood of its contrasts, given its samples.
//!
//! A sample of arm `a` at time `t` is `y = θ_a + s(t) + b + e`. θ is 0 for the default. The baseline
//! `b ~ N(0, baseline)` is the path's own level, the same for all arms. The load `s(t)` swings around it: a
//! stationary Ornstein-Uhlenbeck process of variance `swing` and time constant `swing_s`. Without it,
//! ten busy minutes that one arm happens to meet would count against that arm many times over.
//!
//! The evidence is the exact Gaussian likelihood of (θ, s now, b), in information form: samples add to
//! it, and waiting turns the load of then into the load of now (a Kalman filter's prediction step in
//! information form; Anderson and Moore, *Optimal Filtering*, 1979, 6.3). It is kept in units of a whole
//! sample's noise, so that a better estimate of the noise applies to the past as well.

use crate::gaussian::Information;
use crate::linalg::{NotPositive, cholesky, forward, solve, with_known_size};
use crate::{MAX_ARMS, MAX_CONTRASTS};

/// The contrasts, the load and the baseline.
const N: usize = MAX_CONTRASTS + 2;

/// Variances of everything that hides the contrasts, in nats squared.
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

/// The likelihood of one path's contrasts, load and baseline.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Evidence {
    arms: usize,
    precision: [f64; N * N],
    shift: [f64; N],
    /// Discounted weight of all samples.
    pub weight: f64,
}

/// The expectation for a path's next sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Expected {
    /// Nats.
    pub mean: f64,
    /// Variance, without the noise of the sample itself.
    pub variance: f64,
}

impl Evidence {
    /// Evidence without samples, for so many arms.
    #[must_use]
    pub fn none(arms: usize) -> Self {
        assert!((1..=MAX_ARMS).contains(&arms), "1 to {MAX_ARMS} arms");
        Self {
            arms,
            precision: [0.0; N * N],
            shift: [0.0; N],
            weight: 0.0,
        }
    }

    fn n(&self) -> usize {
        self.arms + 1
    }

    fn load(&self) -> usize {
        self.arms - 1
    }

    fn base(&self) -> usize {
        self.arms
    }

    /// Ages everything: 0.5 after one half-life.
    #[inline]
    pub fn scale(&mut self, factor: f64) {
        if factor == 1.0 {
            return;
        }
        self.precision.iter_mut().for_each(|x| *x *= factor);
        self.shift.iter_mut().for_each(|x| *x *= factor);
        self.weight *= factor;
    }

    /// Lets time pass: the load moves on, `s_then = φ·s_now + N(0, (1 − φ²)·swing)`.
    #[inline]
    pub fn wait(&mut self, elapsed_s: f64, widths: &Widths) {
        let phi = (-elapsed_s.max(0.0) / widths.swing_s).exp();
        let moved = (1.0 - phi * phi) * widths.swing / widths.noise;
        with_known_size!(self.n(), N, |M, S| self.wait_sized(phi, moved, M, S));
    }

    #[inline(always)]
    fn wait_sized(&mut self, phi: f64, moved: f64, n: usize, stride: usize) {
        let s = n - 2;
        if moved > 0.0 {
            let g = 1.0 / (1.0 / moved + self.precision[s * stride + s]);
            let mut row = [0.0; N];
            row[..n].copy_from_slice(&self.precision[s * N..s * stride + n]);
            let shift = self.shift[s];
            for i in 0..n {
                self.shift[i] -= g * row[i] * shift;
                for j in 0..n {
                    self.precision[i * stride + j] -= g * row[i] * row[j];
                }
            }
        }
        for i in 0..n {
            self.precision[i * stride + s] *= phi;
            self.precision[s * stride + i] *= phi;
        }
        self.shift[s] *= phi;
    }

    /// Adds a sample of `arm`: `residual` is its worth in nats less the regression's part.
    pub fn add(&mut self, arm: usize, residual: f64, weight: f64) {
        let (s, b) = (self.load(), self.base());
        let parts = if arm == 0 { [s, b, b] } else { [s, b, arm - 1] };
        let parts = &parts[..if arm == 0 { 2 } else { 3 }];
        for i in parts {
            self.shift[*i] += weight * residual;
            for j in parts {
                self.precision[i * N + j] += weight;
            }
        }
        self.weight += weight;
    }

    /// The likelihood of the contrasts alone, load and baseline integrated out. `factor` weighs all
    /// samples (1: as they are).
    #[inline]
    #[must_use]
    pub fn likelihood(&self, widths: &Widths, factor: f64) -> Information {
        with_known_size!(self.n(), N, |M, S| self
            .likelihood_sized(widths, factor, M, S))
    }

    #[inline(always)]
    fn likelihood_sized(
        &self,
        widths: &Widths,
        factor: f64,
        n: usize,
        stride: usize,
    ) -> Information {
        let contrasts = n - 2;
        let (mut precision, mut shift) = (self.precision, self.shift);
        let unit = factor / widths.noise;
        for i in 0..n {
            shift[i] *= unit;
            for j in 0..n {
                precision[i * stride + j] *= unit;
            }
        }
        precision[contrasts * (stride + 1)] += 1.0 / widths.swing.max(1e-12);
        precision[(n - 1) * (stride + 1)] += 1.0 / widths.baseline;
        for gone in (contrasts..n).rev() {
            let pivot = precision[gone * (stride + 1)];
            for i in 0..gone {
                let share = precision[i * stride + gone] / pivot;
                shift[i] -= share * shift[gone];
                for j in 0..gone {
                    precision[i * stride + j] -= share * precision[gone * stride + j];
                }
            }
        }
        let mut out = Information::none(contrasts);
        for i in 0..contrasts {
            out.shift[i] = shift[i];
            for j in 0..contrasts {
                out.precision[i * MAX_CONTRASTS + j] = precision[i * stride + j];
            }
        }
        out
    }

    /// The expectation for the next sample of `arm`, given the knowledge about the contrasts from
    /// elsewhere.
    ///
    /// # Errors
    /// [`NotPositive`] if `prior` is not a belief.
    pub fn expected(
        &self,
        arm: usize,
        prior: &Information,
        widths: &Widths,
    ) -> Result<Expected, NotPositive> {
        let (n, s, b) = (self.n(), self.load(), self.base());
        let (mut factor, mut mean) = (self.precision, self.shift);
        factor.iter_mut().for_each(|x| *x /= widths.noise);
        mean.iter_mut().for_each(|x| *x /= widths.noise);
        for i in 0..self.arms - 1 {
            mean[i] += prior.shift[i];
            for j in 0..self.arms - 1 {
                factor[i * N + j] += prior.precision[i * MAX_CONTRASTS + j];
            }
        }
        factor[s * (N + 1)] += 1.0 / widths.swing.max(1e-12);
        factor[b * (N + 1)] += 1.0 / widths.baseline;
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

    /// The count of numbers that [`Evidence::pack`] writes for so many arms.
    #[must_use]
    pub fn packed_len(arms: usize) -> usize {
        let n = arms + 1;
        n * (n + 1) / 2 + n + 1
    }

    /// Writes the evidence in f32, with only the lower triangle of its precision, since there may be a
    /// million paths.
    pub fn pack(&self, out: &mut [f32]) {
        let n = self.n();
        let triangle = (0..n).flat_map(|i| (0..=i).map(move |j| i * N + j));
        let numbers = triangle.map(|at| self.precision[at]);
        let all = numbers
            .chain(self.shift.iter().take(n).copied())
            .chain([self.weight]);
        for (slot, x) in out.iter_mut().zip(all) {
            *slot = x as f32;
        }
    }

    /// Reads the numbers that [`Evidence::pack`] wrote.
    #[inline]
    #[must_use]
    pub fn unpack(arms: usize, packed: &[f32]) -> Self {
        let mut all = Self::none(arms);
        let n = all.n();
        let mut numbers = packed.iter().map(|x| f64::from(*x));
        let mut next = || numbers.next().unwrap_or(0.0);
        for i in 0..n {
            for j in 0..=i {
                let x = next();
                all.precision[i * N + j] = x;
                all.precision[j * N + i] = x;
            }
        }
        all.shift.iter_mut().take(n).for_each(|x| *x = next());
        all.weight = next();
        all
    }
}

/// The part that is left after this time: half as much after each half-life.
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
    fn one_arm_alone_says_little_of_its_contrast() {
        let mut evidence = Evidence::none(2);
        for _ in 0..10_000 {
            evidence.add(1, 2.0, 1.0);
        }
        // No number of samples can separate the arm from the path: the path's width remains.
        let known = evidence.likelihood(&WIDTHS, 1.0);
        assert!((1.0 / known.precision[0] - 0.73).abs() < 0.001);
    }

    #[test]
    fn a_contrast_does_not_depend_on_the_baseline() {
        for shift in [-3.0, 0.0, 5.0] {
            let mut evidence = Evidence::none(2);
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
    fn a_busy_hour_is_no_fault_of_the_arm_that_met_it() {
        let contrast = |widths: &Widths| {
            let mut evidence = Evidence::none(2);
            for i in 0..200 {
                // The arm and the load change together, once in twenty samples.
                let late = i / 20 % 2;
                evidence.add(late, -0.4 * late as f64, 1.0);
                evidence.wait(30.0, widths);
            }
            evidence.likelihood(widths, 1.0).belief().unwrap()
        };
        let (aware, blind) = (
            contrast(&WIDTHS),
            contrast(&Widths {
                swing: 1e-9,
                ..WIDTHS
            }),
        );
        assert!(aware.variance(0) > 2.0 * blind.variance(0));
    }

    #[test]
    fn packing_keeps_what_f32_can_hold() {
        for arms in 1..=MAX_ARMS {
            let mut evidence = Evidence::none(arms);
            for i in 0..40 {
                evidence.add(i % arms, 0.25 * i as f64, 0.5);
            }
            let mut packed = vec![0.0; Evidence::packed_len(arms)];
            evidence.pack(&mut packed);
            assert_eq!(Evidence::unpack(arms, &packed), evidence);
        }
    }

    #[test]
    fn half_is_left_after_a_half_life() {
        assert_eq!(left(30.0, 30.0), 0.5);
        assert_eq!(left(-1.0, 30.0), 1.0); // a clock that goes back ages nothing
    }
}
