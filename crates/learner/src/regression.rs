//! f(x): the effect of sizes and RTTs on the reward, the same for all arms, by ridge regression.
//!
//! A feature must be known *before* the choice; the size is one, too, since no arm changes it. Loss or
//! the RTT under load are outcomes: to explain a reward by them would explain the arm away. Recursive
//! least squares with forgetting (Haykin, *Adaptive Filter Theory*, chapter 9), solved again now and
//! then rather than at each sample.

use crate::bytes::{Reader, Writer};
use crate::linalg::{cholesky, solve};
use crate::path::left;
use crate::settings::Regression as Settings;
use crate::{MAX_ADVANTAGES, MAX_ARMS};

/// Number of features of a connection, including the constant.
pub const FEATURES: usize = 10;

const N: usize = FEATURES + MAX_ADVANTAGES;

/// Samples until a solution is good enough to recognise extreme rewards.
const SETTLED: u64 = 256;

/// Properties of a connection, independent of its arm.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Features {
    /// RTT of the handshake in microseconds.
    pub handshake_rtt_us: f64,
    /// Transferred bytes.
    pub bytes: f64,
    /// The peer's window keeps the connection small.
    pub small_window: bool,
    /// 0 none, 1 classic, 2 accurate.
    pub ecn: u8,
    /// Kind of the egress interface, in the caller's numbering, such as wireless or a tunnel.
    pub interface: u8,
}

impl Features {
    /// Logarithms around 30 ms and 1 MB, to keep the columns near 0 and 1.
    fn vector(&self) -> [f64; FEATURES] {
        let rtt = (self.handshake_rtt_us.max(1.0) / 30_000.0).ln();
        let bytes = (self.bytes.max(1.0) / 1e6).ln() / 2.0;
        let flag = |on: bool| f64::from(u8::from(on));
        [
            1.0,
            rtt,
            rtt * rtt,
            bytes,
            bytes * bytes,
            rtt * bytes,
            flag(self.small_window),
            flag(self.ecn == 1),
            flag(self.ecn == 2),
            flag(self.interface != 0),
        ]
    }
}

/// Running sums of the regression, and its last solution.
#[derive(Clone, Debug)]
pub struct Regression {
    moments: Vec<f64>,
    products: [f64; N],
    solution: [f64; N],
    samples: u64,
    solve_at: u64,
    at_s: f64,
}

impl Default for Regression {
    fn default() -> Self {
        Self {
            moments: vec![0.0; N * N],
            products: [0.0; N],
            solution: [0.0; N],
            samples: 0,
            solve_at: 1,
            at_s: 0.0,
        }
    }
}

impl Regression {
    /// Whether samples can have given these numbers, see [`Regression::read`].
    pub(crate) fn is_possible(&self) -> bool {
        let sums = self.moments.iter().chain(&self.products);
        sums.chain(&self.solution).all(|x| x.abs() <= 1e15) && self.at_s.abs() <= 1e10
    }

    /// The expected reward of a connection with these features, in nats, without path and arm.
    #[must_use]
    pub fn expected(&self, features: &Features) -> f64 {
        features
            .vector()
            .iter()
            .zip(&self.solution)
            .map(|(x, b)| x * b)
            .sum()
    }

    /// Takes in a connection's reward. The arm is a dummy variable next to the features. Otherwise an
    /// arm with the large transfers would look better than it is.
    pub fn observe(
        &mut self,
        features: &Features,
        arm: usize,
        nats: f64,
        weight: f64,
        at_s: f64,
        settings: &Settings,
    ) {
        let mut x = [0.0; N];
        x[..FEATURES].copy_from_slice(&features.vector());
        if (1..MAX_ARMS).contains(&arm) {
            x[FEATURES + arm - 1] = 1.0;
        }
        let keep = left(at_s - self.at_s, settings.half_life_s);
        self.at_s = self.at_s.max(at_s);
        for i in 0..N {
            self.products[i] = self.products[i] * keep + weight * x[i] * nats;
            for j in 0..=i {
                let moment = &mut self.moments[i * N + j];
                *moment = *moment * keep + weight * x[i] * x[j];
            }
        }
        self.samples += 1;
        if self.samples >= self.solve_at {
            self.solve(settings);
            // At each doubling, later at each 1024: a solution costs as much as ten samples.
            self.solve_at = self.samples + self.samples.clamp(1, 1024);
        }
    }

    /// Writes the numbers to save.
    pub(crate) fn write(&self, row: &mut Writer) {
        row.f64s(&self.moments)
            .f64s(&self.products)
            .f64s(&self.solution)
            .u64(self.samples)
            .u64(self.solve_at)
            .f64(self.at_s);
    }

    /// Reads the numbers written by [`Regression::write`]. Times in the future become `now_s`.
    pub(crate) fn read(row: &mut Reader, now_s: f64) -> Option<Self> {
        let mut read = Self::default();
        row.f64s(&mut read.moments)?;
        row.f64s(&mut read.products)?;
        row.f64s(&mut read.solution)?;
        read.samples = row.u64()?;
        read.solve_at = row.u64()?;
        read.at_s = row.f64()?.min(now_s);
        Some(read)
    }

    /// The reward, moved to within `most` nats of this arm's expected reward (Huber, *Robust Estimation
    /// of a Location Parameter*, 1964): a few lying paths must not move the level of all others.
    #[must_use]
    pub fn clipped(&self, features: &Features, arm: usize, nats: f64, most: f64) -> f64 {
        if self.samples < SETTLED {
            return nats;
        }
        let dummy = match arm {
            1..MAX_ARMS => self.solution[FEATURES + arm - 1],
            _ => 0.0,
        };
        let expected = self.expected(features) + dummy;
        nats.clamp(expected - most, expected + most)
    }

    fn solve(&mut self, settings: &Settings) {
        let mut factor = self.moments.clone();
        for i in 0..N {
            // The constant must not be shrunk: it is the scale of the rates.
            factor[i * N + i] += if i == 0 { 1e-6 } else { settings.ridge };
        }
        let mut solution = self.products;
        if cholesky(&mut factor, N, N).is_ok() {
            solve(&factor, N, N, &mut solution);
            self.solution = solution;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn features(i: u64) -> Features {
        Features {
            handshake_rtt_us: 5_000.0 * (1 + i % 17) as f64,
            bytes: 2e4 * (1 + i % 101) as f64,
            ..Features::default()
        }
    }

    #[test]
    fn size_and_rtt_are_explained_not_the_arm() {
        let settings = Settings::default();
        let mut regression = Regression::default();
        let truth = |x: &Features| 14.0 - 0.8 * x.handshake_rtt_us.ln() + 0.3 * x.bytes.ln();
        for i in 0..20_000 {
            let x = features(i);
            // Arm 1 is 1 nat better, and got the large transfers.
            let arm = usize::from(x.bytes > 1e6);
            regression.observe(&x, arm, truth(&x) + arm as f64, 1.0, 0.0, &settings);
        }
        for i in 0..200 {
            let x = features(i);
            let error = regression.expected(&x) - truth(&x);
            assert!(error.abs() < 0.1, "{x:?}: {error}");
        }
    }

    #[test]
    fn liars_move_the_level_less_than_proportionally() {
        let level = |lie: f64| {
            let settings = Settings::default();
            let mut regression = Regression::default();
            for i in 0..20_000 {
                let x = features(i);
                let lies = i > 500 && i % 5 == 0;
                let nats = if lies { 14.0 + lie } else { 14.0 };
                let nats = regression.clipped(&x, 0, nats, 1.0);
                regression.observe(&x, 0, nats, 1.0, 0.0, &settings);
            }
            regression.expected(&features(3))
        };
        assert!((level(0.0) - 14.0).abs() < 0.01);
        assert!((level(5.0) - 14.0).abs() < 0.4, "{}", level(5.0));
    }

    #[test]
    fn a_first_sample_sets_the_scale() {
        let mut regression = Regression::default();
        regression.observe(&features(3), 0, 13.0, 1.0, 0.0, &Settings::default());
        assert!((regression.expected(&features(3)) - 13.0).abs() < 0.5);
    }
}
