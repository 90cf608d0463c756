//! An interval that covers a mean at all times at once.
//!
//! An ordinary 95 % interval covers the mean with this probability at a single look, chosen before. An
//! operator who looks after each pair and stops when zero is outside is misled far more often than in 5 % of
//! trials. A confidence sequence covers the mean at all looks together with the probability asked for, at the
//! price of a wider interval. This is the asymptotic one of Waudby-Smith, Arbour, Sinha, Kennedy and Ramdas,
//! *Time-uniform central limit theory and asymptotic confidence sequences* (Annals of Statistics 52(6), 2024,
//! arXiv:2103.06476), theorem 2.2:
//!
//! ```text
//! mean ± sd·√( 2(nρ²+1)/(n²ρ²) · ln(√(nρ²+1)/α) ),   ρ² = (−2 ln α + ln(−2 ln α + 1)) / n*
//! ```
//!
//! n* is the number of samples with the narrowest interval, relative to an ordinary interval.

use serde::{Deserialize, Serialize};

/// A range with the true value inside.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// The best guess.
    pub estimate: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Interval {
    /// The interval after a monotonic change of unit, such as from nats to per cent.
    #[must_use]
    pub fn map(self, f: impl Fn(f64) -> f64) -> Interval {
        Interval {
            estimate: f(self.estimate),
            low: f(self.low),
            high: f(self.high),
        }
    }
}

/// The parameters of the intervals.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sequence {
    alpha: f64,
    rho2: f64,
}

impl Sequence {
    /// Fewer samples give no interval: the sequence holds asymptotically, and a variance from few samples is
    /// mostly luck.
    pub const LEAST: u64 = 20;

    /// For an error of `alpha` over all looks, narrowest at `best_at` samples. `alpha` is kept between 10⁻⁶ and
    /// one half.
    #[must_use]
    pub fn new(alpha: f64, best_at: f64) -> Sequence {
        let alpha = alpha.clamp(1e-6, 0.5);
        let twice = -2.0 * alpha.ln();
        Sequence {
            alpha,
            rho2: (twice + twice.ln_1p()) / best_at.max(1.0),
        }
    }

    /// Half of the interval's width, in standard deviations of a sample; infinite below [`Sequence::LEAST`].
    #[must_use]
    pub fn half_width(&self, samples: u64) -> f64 {
        if samples < Sequence::LEAST {
            return f64::INFINITY;
        }
        let n = samples as f64;
        let grown = n.mul_add(self.rho2, 1.0);
        let log = 0.5f64.mul_add(grown.ln(), -self.alpha.ln());
        (2.0 * grown / (n * n * self.rho2) * log).sqrt()
    }

    /// The interval of a mean; `None` while there are too few samples.
    #[must_use]
    pub fn interval(&self, samples: u64, mean: f64, sd: f64) -> Option<Interval> {
        let half = self.half_width(samples) * sd;
        half.is_finite().then_some(Interval {
            estimate: mean,
            low: mean - half,
            high: mean + half,
        })
    }

    /// How many samples it takes until half of the width is `half`, with this standard deviation.
    #[must_use]
    pub fn samples_for(&self, half: f64, sd: f64) -> u64 {
        let enough = |n: u64| self.half_width(n) * sd <= half;
        let mut high = Sequence::LEAST;
        while !enough(high) {
            if high > 1 << 40 {
                return high;
            }
            high *= 2;
        }
        let mut low = high / 2;
        while low < high {
            let middle = low.midpoint(high);
            if enough(middle) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        high.max(Sequence::LEAST)
    }
}

impl Default for Sequence {
    /// 5 % over all looks, narrowest at 300 pairs: about a week of a host with twenty groups.
    fn default() -> Sequence {
        Sequence::new(0.05, 300.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn best_width_is_1_5_ordinary_intervals() {
        let ordinary = 1.96 / 300f64.sqrt();
        let ratio = Sequence::default().half_width(300) / ordinary;
        assert!((1.5..1.6).contains(&ratio), "{ratio}");
    }

    /// From the authors' own package: `boundaries.normal_mixture_bound(n, alpha=0.05, v_opt=300, alpha_opt=0.05,
    /// is_one_sided=False) / n` of confseq 0.0.11 (PyPI).
    #[test]
    fn its_width_is_that_of_confseq() {
        for (n, theirs) in [
            (20, 0.962_890),
            (100, 0.316_840),
            (300, 0.175_238),
            (1000, 0.098_263),
            (6000, 0.043_079),
        ] {
            let ours = Sequence::default().half_width(n);
            assert!((ours - theirs).abs() < 1e-6, "{n}: {ours}");
        }
    }

    #[test]
    fn it_narrows_with_each_sample() {
        let sequence = Sequence::default();
        for n in Sequence::LEAST..5000 {
            assert!(sequence.half_width(n + 1) < sequence.half_width(n), "{n}");
        }
    }

    #[test]
    fn few_samples_give_none() {
        assert_eq!(Sequence::default().interval(19, 1.0, 0.1), None);
    }

    #[test]
    fn samples_for_a_width_are_the_fewest() {
        let sequence = Sequence::default();
        for half in [0.02, 0.05, 0.1, 0.3] {
            let n = sequence.samples_for(half, 0.3);
            assert!(sequence.half_width(n) * 0.3 <= half);
            assert!(n == Sequence::LEAST || sequence.half_width(n - 1) * 0.3 > half);
        }
    }
}
