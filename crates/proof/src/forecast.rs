//! When a comparison will show something: how fast pairs come.
//!
//! Before the first pair the rate follows from the schedule and from the connections of each group. Later the pairs so far
//! count more and more: a gamma prior for the rate of a Poisson process (Gelman et al., *Bayesian Data Analysis*, 2.6).

use crate::schedule::Schedule;

/// The expectation before the first pair counts as so many pairs.
const PRIOR_PAIRS: f64 = 2.0;

/// The rate of pairs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pace {
    /// Pairs per second.
    per_s: f64,
    /// Seconds until the first pair can be counted.
    late_s: f64,
}

impl Pace {
    /// The pace after `pairs` in `elapsed_s` seconds of comparison. `connections_per_s` has the rate of counted
    /// connections of each group, and a block needs `least` of them. `None` if there is no connection and no pair.
    #[must_use]
    pub fn of(
        schedule: &Schedule,
        least: u64,
        connections_per_s: impl IntoIterator<Item = f64>,
        pairs: u64,
        elapsed_s: u64,
    ) -> Option<Pace> {
        let expected = expected_per_s(schedule, least, connections_per_s);
        let first_s = first_s(schedule);
        let observed_s = (elapsed_s as f64 - first_s).max(0.0);
        // A rate of 0 would need an infinite time to be learned from.
        let (prior_pairs, prior_s) = match expected > 0.0 {
            true => (PRIOR_PAIRS, PRIOR_PAIRS / expected),
            false => (0.0, 0.0),
        };
        let per_s = (prior_pairs + pairs as f64) / (prior_s + observed_s);
        (per_s > 0.0 && per_s.is_finite()).then_some(Pace {
            per_s,
            late_s: (first_s - elapsed_s as f64).max(0.0),
        })
    }

    /// The pace of a measure that only this share of the pairs has.
    #[must_use]
    pub fn times(self, share: f64) -> Pace {
        Pace {
            per_s: self.per_s * share,
            ..self
        }
    }

    /// Seconds until so many more pairs are there.
    #[must_use]
    pub fn seconds_for(&self, pairs: u64) -> Option<u64> {
        let seconds = self.late_s + pairs as f64 / self.per_s;
        (seconds.is_finite() && seconds < 1e9).then_some(seconds.ceil() as u64)
    }
}

/// Mean time from the start of a comparison to the end of the first blocks: half of the running pair is lost, and a pair
/// is closed one block after its end, see [`Schedule::over`].
fn first_s(schedule: &Schedule) -> f64 {
    match schedule.is_by_prefix() {
        true => schedule.period_s as f64 / 2.0 + schedule.block_s as f64,
        false => 2.0 * schedule.block_s as f64,
    }
}

/// The expected rate of pairs.
fn expected_per_s(
    schedule: &Schedule,
    least: u64,
    connections_per_s: impl IntoIterator<Item = f64>,
) -> f64 {
    let (length_s, pairs_each) = match schedule.is_by_prefix() {
        // A held-out prefix makes a pair with steered ones.
        true => (schedule.period_s, schedule.held_out),
        false => (schedule.block_s, schedule.paired / 2.0),
    };
    let counted_s = length_s.saturating_sub(2 * schedule.settle_s) as f64;
    let full = |per_s: f64| {
        let full = is_full(per_s * counted_s, least);
        match schedule.is_by_prefix() {
            true => full,
            false => full * full, // both blocks
        }
    };
    let groups: f64 = connections_per_s.into_iter().map(full).sum();
    pairs_each * groups / length_s.max(1) as f64
}

/// The probability of at least `least` connections if `mean` are expected, with Poisson's distribution.
fn is_full(mean: f64, least: u64) -> f64 {
    let (mut term, mut fewer) = ((-mean).exp(), 0.0);
    for count in 0..least {
        fewer += term;
        term *= mean / (count + 1) as f64;
    }
    (1.0 - fewer).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schedule(paired: f64) -> Schedule {
        Schedule {
            block_s: 300,
            settle_s: 30,
            ..Schedule::by_time(paired, [1, 2])
        }
    }

    #[test]
    fn before_any_pair_schedule_and_traffic_give_the_rate() {
        // Three busy groups in a trial: three pairs each ten minutes.
        let pace = Pace::of(&schedule(1.0), 5, [1.0; 3], 0, 0).unwrap();
        let seconds = pace.seconds_for(18).unwrap();
        assert!((3600 + 600..=3600 + 601).contains(&seconds), "{seconds}");
        // At 5 % of the time it takes ten times as long, and a group without enough connections adds nothing.
        let usual = Pace::of(&schedule(0.1), 5, [1.0, 1.0, 1.0, 1e-4], 0, 0).unwrap();
        let seconds = usual.seconds_for(18).unwrap();
        assert!((36_600..=36_700).contains(&seconds), "{seconds}");
    }

    #[test]
    fn pairs_so_far_outweigh_the_expectation() {
        let of = |pairs| Pace::of(&schedule(0.1), 5, [1.0], pairs, 600_600).unwrap();
        // Expected are 100 pairs in this time.
        let few = of(10).seconds_for(10).unwrap();
        assert!((490_000..620_000).contains(&few), "{few}");
        let many = of(200).seconds_for(10).unwrap();
        assert!((29_000..33_000).contains(&many), "{many}");
    }

    #[test]
    fn without_traffic_nothing_is_forecast() {
        assert_eq!(Pace::of(&schedule(0.1), 5, [], 0, 3600), None);
        assert!(Pace::of(&schedule(0.1), 5, [], 3, 3600).is_some());
    }

    #[test]
    fn held_out_prefixes_give_a_pair_each_a_week() {
        let schedule = Schedule::by_prefix(0.05, [1, 2]);
        let pace = Pace::of(&schedule, 5, [1.0; 100], 0, 0).unwrap();
        // Half a week until the first period begins and one until its end, since it gives five pairs.
        let seconds = pace.seconds_for(5).unwrap();
        assert!((900_000..920_000).contains(&seconds), "{seconds}");
    }
}
