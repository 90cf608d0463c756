//! Widths of hosts and places (steps 4 and 6 of the merge rule): how far their knowledge is from that of the
//! others, beyond what samples explain. A wide one counts little.
//!
//! The estimator is that of DerSimonian and Laird (*Controlled Clinical Trials* 7, 1986) in its simplest form, moments
//! with weights, drawn towards a guess.

use crate::vote::Vote;

/// Standard deviation in the weights of pairs, in nats: `w = 1/(v + 0.3²)`, with 0.3 for usual differences.
pub const PAIR_SD: f64 = 0.3;

/// Weight of a guess: 16 pairs of the usual variance 0.1, each `1/(0.1 + 0.3²)`. The learner's guesses have the weight
/// of 16 pairs, too (`Model::guess_weight`).
pub const GUESS_WEIGHT: f64 = 84.0;

/// Guess of a host's width within its place, in nats.
pub const HOST_GUESS: f64 = 0.1;

/// Least width of a host, in nats: two hosts of one place differ by 0.03 to 0.1.
pub const HOST_LEAST: f64 = 0.03;

/// A host farther from its place is not heard, in nats.
pub const HOST_MOST: f64 = 1.0;

/// Guess of the width between places, in nats.
pub const PLACE_GUESS: f64 = 0.3;

/// Guess of the width between a host and its own place, in nats.
pub const HOME_GUESS: f64 = 0.05;

/// Weight of [`HOME_GUESS`]: a host's place is right unless much speaks against it.
pub const HOME_WEIGHT: f64 = 256.0;

/// Least width of a place, in nats: that of hosts.
pub const PLACE_LEAST: f64 = HOST_LEAST;

/// Moments of differences between pairs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pairs {
    above: f64,
    below: f64,
}

impl Pairs {
    /// Adds the difference of two means of one contrast in one group.
    pub fn add(&mut self, a: Vote, b: Vote) {
        let variance = a.variance + b.variance;
        let weight = 1.0 / (variance + PAIR_SD * PAIR_SD);
        let difference = a.mean - b.mean;
        self.above += weight * (difference * difference - variance);
        self.below += weight;
    }

    /// Adds other pairs.
    pub fn join(&mut self, other: &Self) {
        self.above += other.above;
        self.below += other.below;
    }

    /// The width in nats, at least `least`: that of the pairs, with the guess counted as `weight`.
    #[must_use]
    pub fn width(&self, guess: f64, weight: f64, least: f64) -> f64 {
        let square = (self.above + weight * guess * guess) / (self.below + weight);
        square.max(least * least).sqrt()
    }

    /// The width of a host; `None` if it is too far from its place to be heard.
    #[must_use]
    pub fn host(&self) -> Option<f64> {
        let width = self.width(HOST_GUESS, GUESS_WEIGHT, HOST_LEAST);
        (width <= HOST_MOST).then_some(width)
    }
}

/// A width as people see it: 1 for a host like its place, near 0 for one that is far from it.
#[must_use]
pub fn trust(width: f64) -> f64 {
    let usual = HOST_GUESS * HOST_GUESS;
    usual / usual.max(width * width)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tcpilot_random::Random;

    fn pairs(count: usize, width: f64, noise: f64) -> Pairs {
        let mut random = Random::of(&[count as u64, 41]);
        let mut pairs = Pairs::default();
        let variance = noise * noise;
        for _ in 0..count {
            let of = |mean| Vote { mean, variance };
            let truth = width * random.normal();
            let (a, b) = (noise * random.normal(), noise * random.normal());
            pairs.add(of(truth + a), of(b));
        }
        pairs
    }

    #[test]
    fn width_is_recovered_despite_noise() {
        for (width, noise) in [(0.2, 0.1), (0.5, 0.3), (0.9, 0.2)] {
            let found = pairs(4000, width, noise).width(0.3, GUESS_WEIGHT, 0.0);
            assert!((found / width - 1.0).abs() < 0.05, "{width}: {found}");
        }
    }

    #[test]
    fn without_pairs_the_guess_stays() {
        assert_eq!(Pairs::default().host(), Some(HOST_GUESS));
    }

    #[test]
    fn hosts_far_from_their_place_are_unheard() {
        assert_eq!(pairs(500, 3.0, 0.2).host(), None);
        assert_eq!(pairs(4000, 0.0, 0.2).host(), Some(HOST_LEAST));
    }

    #[test]
    fn trust_falls_with_the_width() {
        assert_eq!(trust(HOST_LEAST), 1.0);
        assert!((trust(1.0) - 0.01).abs() < 1e-12);
    }
}
