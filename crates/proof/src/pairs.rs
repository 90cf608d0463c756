//! Differences of pairs of blocks: sums of one host or of several can be added.

use serde::{Deserialize, Serialize};

use crate::sequence::{Interval, Sequence};

/// One pair of blocks of one group, steered and not.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pair {
    /// Mean of the outcome while steered less the mean while not, in nats or as a share.
    pub difference: f64,
    /// The same difference of something beyond the reach of steering: the goodput expected of the sizes of
    /// the same connections, or the group's own past. It has mean 0 because a coin decides which block comes
    /// first. 0 without a covariate.
    pub covariate: f64,
}

/// Sums over pairs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Pairs {
    /// How many.
    pub count: u64,
    sum: f64,
    square: f64,
    covariate: f64,
    covariate_square: f64,
    product: f64,
}

impl Pairs {
    /// Adds a pair; non-finite ones are ignored.
    pub fn add(&mut self, pair: Pair) {
        let Pair {
            difference: d,
            covariate: x,
        } = pair;
        if !(d.is_finite() && x.is_finite()) {
            return;
        }
        self.count += 1;
        self.sum += d;
        self.square += d * d;
        self.covariate += x;
        self.covariate_square += x * x;
        self.product += d * x;
    }

    /// Adds the pairs of another host or group.
    pub fn merge(&mut self, other: &Pairs) {
        self.count += other.count;
        self.sum += other.sum;
        self.square += other.square;
        self.covariate += other.covariate;
        self.covariate_square += other.covariate_square;
        self.product += other.product;
    }

    /// The plain sum of differences.
    #[must_use]
    pub fn total(&self) -> f64 {
        self.sum
    }

    /// Mean and standard deviation of the difference, less the part explained by the covariate; `None` below
    /// two pairs.
    ///
    /// The adjustment follows Deng, Xu, Kohavi and Walker, *Improving the Sensitivity of Online Controlled
    /// Experiments by Utilizing Pre-Experiment Data* (WSDM 2013): d − θx with θ = Σdx / Σx². x has mean 0 by
    /// the coin, so the mean of d stays as it is, and its variance shrinks by the share explained by x.
    #[must_use]
    pub fn moments(&self) -> Option<(f64, f64)> {
        if self.count < 2 {
            return None;
        }
        let n = self.count as f64;
        let slope = self.slope();
        let mean = (self.sum - slope * self.covariate) / n;
        // The variance of d − θx around its mean; the last digits may make it negative.
        let square = slope.mul_add(
            slope.mul_add(self.covariate_square, -2.0 * self.product),
            self.square,
        );
        // θ was fitted to the same pairs.
        let fitted = if slope == 0.0 { 1.0 } else { 2.0 };
        let variance = ((square - n * mean * mean) / (n - fitted)).max(0.0);
        Some((mean, variance.sqrt()))
    }

    /// θ. A covariate whose mean is shown not to be 0 differs by the treatment, not by luck: to take it off
    /// would take off a part of the effect. Below [`Sequence::LEAST`] pairs this is unknown, and none is
    /// used.
    fn slope(&self) -> f64 {
        if self.count < Sequence::LEAST || self.covariate_square <= 0.0 {
            return 0.0;
        }
        let n = self.count as f64;
        let mean = self.covariate / n;
        let variance = ((self.covariate_square - n * mean * mean) / (n - 1.0)).max(0.0);
        let half = Sequence::default().half_width(self.count) * variance.sqrt();
        if mean.abs() > half {
            return 0.0;
        }
        self.product / self.covariate_square
    }

    /// The interval of the mean difference.
    #[must_use]
    pub fn interval(&self, sequence: &Sequence) -> Option<Interval> {
        let (mean, sd) = self.moments()?;
        sequence.interval(self.count, mean, sd)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pairs(values: &[(f64, f64)]) -> Pairs {
        let mut pairs = Pairs::default();
        for &(difference, covariate) in values {
            pairs.add(Pair {
                difference,
                covariate,
            });
        }
        pairs
    }

    #[test]
    fn without_covariate_it_is_mean_and_deviation() {
        let (mean, sd) = pairs(&[(1.0, 0.0), (2.0, 0.0), (3.0, 0.0)])
            .moments()
            .unwrap();
        assert_eq!((mean, sd), (2.0, 1.0));
    }

    #[test]
    fn explained_variance_is_no_noise() {
        let explained = pairs(&[(3.0, 1.0), (1.0, -1.0)].repeat(10));
        let (mean, sd) = explained.moments().unwrap();
        assert!((mean - 2.0).abs() < 1e-12 && sd < 1e-6, "{mean} {sd}");
        // So few pairs cannot show whether the covariate fits by chance.
        let few = pairs(&[(3.0, 1.0), (1.0, -1.0)].repeat(9));
        assert!(few.moments().unwrap().1 > 0.9);
    }

    /// Such as the round trip of the handshake, with the queue made by all connections of a block.
    #[test]
    fn covariate_changed_by_steering_is_not_used() {
        let swing = |i: u32| if i % 2 == 0 { 0.1 } else { -0.1 };
        let values: Vec<(f64, f64)> = (0..40)
            .map(|i| (0.2 + swing(i), -1.0 + swing(i / 2)))
            .collect();
        let (mean, sd) = pairs(&values).moments().unwrap();
        assert!(
            (mean - 0.2).abs() < 1e-12 && (0.09..0.11).contains(&sd),
            "{mean} {sd}"
        );
    }

    #[test]
    fn infinite_values_are_left_out() {
        assert_eq!(pairs(&[(f64::NAN, 0.0), (0.0, f64::INFINITY)]).count, 0);
    }

    proptest! {
        #[test]
        fn sums_of_hosts_add_up(
            values in prop::collection::vec((-2.0..2.0, -1.0..1.0), 4..60), at in 0usize..60
        ) {
            let at = at.min(values.len());
            let mut merged = pairs(&values[..at]);
            merged.merge(&pairs(&values[at..]));
            let (one, two) = (merged.moments().unwrap(), pairs(&values).moments().unwrap());
            prop_assert!((one.0 - two.0).abs() < 1e-9 && (one.1 - two.1).abs() < 1e-9);
        }
    }
}
