//! The outcome of one connection, and a trial's figures over many.

use serde::{Deserialize, Serialize};

use crate::{
    pairs::{Pair, Pairs},
    sequence::Sequence,
    verdict::{Aim, Verdict},
};

/// Bounds between classes of sizes, in bytes: below the first a connection is mostly slow start's first rounds.
pub const SIZES: [u64; 3] = [16 << 10, 256 << 10, 1 << 20];
/// Classes of sizes with completion times of their own.
pub const CLASSES: usize = SIZES.len();

/// The outcome of one connection.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outcome {
    /// Bytes acknowledged.
    pub bytes: u64,
    /// ln of bytes a second while data was under way.
    pub goodput_nats: f64,
    /// ln of the seconds from its first byte to its last.
    pub duration_nats: f64,
    /// Segments sent again, as a share of all.
    pub retransmitted: f64,
    /// ln of its smoothed round trip over its least.
    pub inflation_nats: f64,
    /// The `goodput_nats` expected of its size, for any algorithm: see [`expected`].
    pub expected_nats: f64,
}

/// The class of a size; `None` if it is too small to count.
#[must_use]
pub fn class(bytes: u64) -> Option<usize> {
    SIZES.iter().rposition(|least| bytes >= *least)
}

/// Bytes of a 20 Mbit/s path in 100 ms, the time of a handshake and slow start.
const START_BYTES: f64 = 262_144.0;

/// The ln goodput expected of a size, up to a level common to all connections. A start takes T₀, and B bytes
/// at the rate R take B/R, so goodput is R·B/(B + T₀R), and its logarithm ln R − ln(1 + T₀R/B). The pairs
/// determine how strongly this host follows it ([`Pairs::moments`]).
///
/// All blocks use the same function. A function learned meanwhile would make blocks differ by the knowledge
/// gained between them.
#[must_use]
pub fn expected(bytes: u64) -> f64 {
    -(START_BYTES / bytes.max(1) as f64).ln_1p()
}

/// Sums of one block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Sums {
    /// Counted connections.
    pub count: u64,
    /// ln of bytes a second.
    goodput: f64,
    /// Sum of the expectations by size.
    expected: f64,
    retransmitted: f64,
    inflation: f64,
    /// By class of size: how many, and the ln of their seconds.
    durations: [(u64, f64); CLASSES],
}

impl Sums {
    /// Adds a connection. Returns whether it counts: too small or non-finite ones do not.
    pub fn add(&mut self, seen: &Outcome) -> bool {
        let numbers = [
            seen.goodput_nats,
            seen.duration_nats,
            seen.retransmitted,
            seen.inflation_nats,
            seen.expected_nats,
        ];
        let Some(class) = class(seen.bytes) else {
            return false;
        };
        if !numbers.iter().all(|number| number.is_finite()) {
            return false;
        }
        self.count += 1;
        self.goodput += seen.goodput_nats;
        self.expected += seen.expected_nats;
        self.retransmitted += seen.retransmitted;
        self.inflation += seen.inflation_nats;
        let (count, sum) = &mut self.durations[class];
        *count += 1;
        *sum += seen.duration_nats;
        true
    }
}

/// Means of a block's connections.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Means {
    goodput: f64,
    predicted: f64,
    retransmitted: f64,
    inflation: f64,
    durations: [Option<f64>; CLASSES],
}

impl Sums {
    /// The means; `None` with fewer than `least` connections. A class of sizes needs as many.
    #[must_use]
    pub fn means(&self, least: u64) -> Option<Means> {
        let mean = |sum: f64| sum / self.count as f64;
        let is_enough = |count: u64| count >= least.max(1);
        let duration = |(count, sum): (u64, f64)| is_enough(count).then(|| sum / count as f64);
        is_enough(self.count).then(|| Means {
            goodput: mean(self.goodput),
            predicted: mean(self.expected),
            retransmitted: mean(self.retransmitted),
            inflation: mean(self.inflation),
            durations: self.durations.map(duration),
        })
    }
}

impl Means {
    /// The mean of blocks of several groups, each with equal weight; `None` without one.
    #[must_use]
    pub fn of_all(all: &[Means]) -> Option<Means> {
        let mean = |of: fn(&Means) -> f64| all.iter().map(of).sum::<f64>() / all.len() as f64;
        let duration = |class: usize| {
            let known: Vec<f64> = all.iter().filter_map(|m| m.durations[class]).collect();
            (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64)
        };
        (!all.is_empty()).then(|| Means {
            goodput: mean(|m| m.goodput),
            predicted: mean(|m| m.predicted),
            retransmitted: mean(|m| m.retransmitted),
            inflation: mean(|m| m.inflation),
            durations: std::array::from_fn(duration),
        })
    }

    /// How far goodput was from its prediction.
    #[must_use]
    pub fn surprise(&self) -> f64 {
        self.goodput - self.predicted
    }

    /// The same means, with a better expectation.
    #[must_use]
    pub fn with_past(self, surprise: f64) -> Means {
        Means {
            predicted: self.predicted + surprise,
            ..self
        }
    }
}

/// The figures of a trial, each as sums over pairs of blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Effects {
    /// Connections in the blocks.
    pub connections: u64,
    /// Goodput, in nats.
    pub goodput: Pairs,
    /// Time to complete by class of size, in nats.
    pub durations: [Pairs; CLASSES],
    /// Retransmitted share.
    pub retransmitted: Pairs,
    /// RTT inflation, in nats.
    pub inflation: Pairs,
}

impl Effects {
    /// Adds a pair of blocks. A class of sizes counts only if both blocks have its mean. Returns the pair of
    /// goodputs.
    pub fn add(&mut self, treated: &Means, control: &Means) -> Pair {
        let plain = |of: fn(&Means) -> f64| Pair {
            difference: of(treated) - of(control),
            covariate: 0.0,
        };
        let goodput = Pair {
            covariate: treated.predicted - control.predicted,
            ..plain(|side| side.goodput)
        };
        self.goodput.add(goodput);
        self.retransmitted.add(plain(|side| side.retransmitted));
        self.inflation.add(plain(|side| side.inflation));
        let classes = treated.durations.iter().zip(&control.durations);
        for (pairs, both) in self.durations.iter_mut().zip(classes) {
            if let (Some(treated), Some(control)) = both {
                pairs.add(Pair {
                    difference: treated - control,
                    // Larger connections take longer, and expect more goodput for it: nothing to take off.
                    covariate: 0.0,
                });
            }
        }
        goodput
    }

    /// Adds the effects of another group or host.
    pub fn merge(&mut self, other: &Effects) {
        self.connections += other.connections;
        self.goodput.merge(&other.goodput);
        self.retransmitted.merge(&other.retransmitted);
        self.inflation.merge(&other.inflation);
        for (own, others) in self.durations.iter_mut().zip(&other.durations) {
            own.merge(others);
        }
    }

    /// The verdict on goodput: 5 % is worth having.
    #[must_use]
    pub fn verdict(&self, sequence: &Sequence) -> Verdict {
        Verdict::of(&self.goodput, sequence, Aim::Up, 0.05)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(bytes: u64, goodput_nats: f64) -> Outcome {
        Outcome {
            bytes,
            goodput_nats,
            duration_nats: -goodput_nats,
            retransmitted: 0.01,
            inflation_nats: 0.1,
            expected_nats: 0.0,
        }
    }

    fn sums(outcomes: &[Outcome]) -> Sums {
        let mut sums = Sums::default();
        for seen in outcomes {
            let _ = sums.add(seen);
        }
        sums
    }

    #[test]
    fn sizes_have_their_class_and_the_smallest_none() {
        let classes = [16_383, 16_384, 262_143, 262_144, 1 << 20, u64::MAX].map(class);
        assert_eq!(classes, [None, Some(0), Some(0), Some(1), Some(2), Some(2)]);
    }

    #[test]
    fn expected_goodput_rises_with_size_then_saturates() {
        let all = [1 << 14, 1 << 18, 1 << 22, 1 << 30, 1 << 40].map(expected);
        assert!(all.is_sorted() && all[0] < -2.5, "{all:?}");
        assert!((all[1] + std::f64::consts::LN_2).abs() < 1e-12);
        assert!(all[3] > -0.001 && all[4] <= 0.0, "{all:?}");
        assert!(expected(0).is_finite());
    }

    #[test]
    fn small_connections_and_broken_measures_are_left_out() {
        let broken = outcome(1 << 20, f64::NEG_INFINITY);
        assert_eq!(sums(&[outcome(1000, 1.0), broken]).count, 0);
    }

    #[test]
    fn effects_are_mean_differences_within_shared_classes() {
        let treated = sums(&[
            outcome(1 << 20, 2.0),
            outcome(1 << 20, 3.0),
            outcome(20_000, 1.0),
        ]);
        let control = sums(&[outcome(1 << 20, 1.0), outcome(1 << 20, 2.0)]);
        let mut effects = Effects::default();
        let [treated, control] = [treated, control].map(|block| block.means(2).unwrap());
        effects.add(&treated, &control);
        effects.add(&treated, &control);
        assert_eq!(effects.goodput.moments().unwrap().0, 0.5);
        assert_eq!(effects.durations.map(|pairs| pairs.count), [0, 0, 2]);
        assert_eq!(effects.durations[2].moments().unwrap().0, -1.0);
        assert!(effects.retransmitted.moments().unwrap().0.abs() < 1e-12);
    }

    #[test]
    fn groups_count_alike_small_blocks_not() {
        let few = sums(&[outcome(20_000, 1.0)]);
        assert_eq!(few.means(2), None);
        let many = sums(&[outcome(1 << 20, 3.0); 9]);
        let means = [few, many].map(|block| block.means(1).unwrap());
        let both = Means::of_all(&means).unwrap();
        assert_eq!(both.surprise(), 2.0);
        assert_eq!(both.with_past(0.5).surprise(), 1.5);
        assert_eq!(both.durations, [Some(-1.0), None, Some(-3.0)]);
        assert_eq!(Means::of_all(&[]), None);
    }

    #[test]
    fn effect_of_size_is_no_effect() {
        // The treated blocks happened to have connections with a higher expected goodput.
        let mut effects = Effects::default();
        for i in 0..40 {
            let luck = if i % 2 == 0 { 0.4 } else { -0.4 };
            let lucky = Outcome {
                expected_nats: 1.0 + luck,
                ..outcome(1 << 20, 1.0 + luck)
            };
            let plain = Outcome {
                expected_nats: 1.0,
                ..outcome(1 << 20, 1.0)
            };
            let [lucky, plain] = [lucky, plain].map(|one| sums(&[one]).means(1).unwrap());
            effects.add(&lucky, &plain);
        }
        let (mean, sd) = effects.goodput.moments().unwrap();
        assert!(mean.abs() < 1e-9 && sd < 1e-6, "{mean} {sd}");
    }
}
