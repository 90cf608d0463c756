//! Stops steering when it does harm, and tries again later.
//!
//! Harm counts as shown when the whole interval lies beyond the bound: steering a group, or the host, is then
//! worse than the kernel's default by more than the bound, at any look. Earlier measurements do not predict
//! the next try, so its sums restart.
//!
//! An algorithm may help for months and then turn harmful; months of gain would hide the harm for as long
//! again. So the guard also looks at the latest pairs alone. Their sums restart after each [`RECENT`] pairs.
//! It keeps the sums before the restart too, so it always knows between one and two times as many.

use serde::{Deserialize, Serialize};

use crate::{pairs::Pair, pairs::Pairs, sequence::Sequence, verdict::Aim};

/// When a guard stops, and for how long.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Least harm to stop for, in the unit of the pairs: 0.02 is 2 %.
    pub harm: f64,
    /// Whether a higher or a lower outcome is better.
    pub aim: Aim,
    /// Seconds of the first stop; each further one is twice as long.
    pub pause_s: u64,
    /// The longest stop.
    pub pause_max_s: u64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            harm: 0.02,
            aim: Aim::Up,
            pause_s: 6 * 3600,
            pause_max_s: 7 * 24 * 3600,
        }
    }
}

/// The guard of one group, or of the host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Guard {
    /// The pairs of the whole try.
    pairs: Pairs,
    /// The latest pairs: those since the last but one beginning, and since the last.
    recent: [Pairs; 2],
    /// So many times it stopped without a calm try in between.
    stops: u32,
    /// Steering is stopped until then.
    until_s: u64,
}

/// A guard's reaction to a pair.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Step {
    /// Nothing changed.
    Goes,
    /// Steering must stop.
    Stops {
        /// Least harm within the interval.
        harm: f64,
        /// Until then.
        until_s: u64,
        /// Whether it is the first stop since a calm try.
        is_first: bool,
    },
}

impl Guard {
    /// Whether steering is allowed now.
    #[must_use]
    pub fn allows(&self, now_s: u64) -> bool {
        now_s >= self.until_s
    }

    /// Until when it is stopped; `None` if it is not.
    #[must_use]
    pub fn stopped_until(&self, now_s: u64) -> Option<u64> {
        (!self.allows(now_s)).then_some(self.until_s)
    }

    /// Takes in a pair. While steering is stopped there are no pairs, and late ones are ignored.
    pub fn add(&mut self, pair: Pair, now_s: u64, limits: &Limits, sequence: &Sequence) -> Step {
        if !self.allows(now_s) {
            return Step::Goes;
        }
        let [older, newer] = &mut self.recent;
        if newer.count >= RECENT {
            (*older, *newer) = (*newer, Pairs::default());
        }
        for sums in [&mut self.pairs, older, newer] {
            sums.add(pair);
        }
        let harm = [&self.pairs, older].into_iter().filter_map(|sums| {
            let found = sums.interval(sequence)?;
            Some(match limits.aim {
                Aim::Up => -found.high,
                Aim::Down => found.low,
            })
        });
        let Some(harm) = harm.reduce(f64::max) else {
            return Step::Goes;
        };
        if harm > limits.harm {
            return self.stop(harm, now_s, limits);
        }
        let calm = sequence.samples_for(limits.harm, CALM_SD);
        if self.pairs.count >= calm {
            self.stops = 0;
        }
        Step::Goes
    }

    /// Steers again at once, because something else may have done the harm. Another stop is no first one.
    pub fn go_on(&mut self) {
        self.until_s = 0;
    }

    /// After a restart: no stop ends later than the longest one beginning now, whatever the clock was before.
    pub fn resume(&mut self, now_s: u64, limits: &Limits) {
        self.until_s = self.until_s.min(now_s.saturating_add(limits.pause_max_s));
    }

    fn stop(&mut self, harm: f64, now_s: u64, limits: &Limits) -> Step {
        let pause_s = limits
            .pause_s
            .saturating_mul(1 << self.stops.min(30))
            .min(limits.pause_max_s);
        *self = Guard {
            stops: self.stops.saturating_add(1),
            until_s: now_s.saturating_add(pause_s),
            ..Guard::default()
        };
        Step::Stops {
            harm,
            until_s: self.until_s,
            is_first: self.stops == 1,
        }
    }
}

/// A try was calm after as many pairs as would show twice the bound at this deviation.
const CALM_SD: f64 = 0.1;

/// Pairs after which the recent sums restart. Fewer would find a change sooner, but each restart is another
/// chance to be wrong.
pub const RECENT: u64 = 100;

#[cfg(test)]
mod tests {
    use super::*;

    fn feed(guard: &mut Guard, from_s: u64, count: u64, mean: f64) -> Option<(u64, u64)> {
        for i in 0..count {
            let difference = if i % 2 == 0 { mean + 0.1 } else { mean - 0.1 };
            let pair = Pair {
                difference,
                covariate: 0.0,
            };
            let now_s = from_s + 60 * i;
            if let Step::Stops { until_s, .. } =
                guard.add(pair, now_s, &Limits::default(), &Sequence::default())
            {
                return Some((i, until_s - now_s));
            }
        }
        None
    }

    #[test]
    fn harm_stops_with_doubling_retries() {
        let mut guard = Guard::default();
        let (mut now_s, mut pauses) = (1_000_000, Vec::new());
        for _ in 0..7 {
            let (pairs, pause_s) = feed(&mut guard, now_s, 200, -0.3).unwrap();
            assert!((19..60).contains(&pairs), "{pairs}");
            assert!(!guard.allows(now_s + 60 * pairs + pause_s - 1));
            now_s += 60 * pairs + pause_s;
            assert!(guard.allows(now_s));
            pauses.push(pause_s / 3600);
        }
        assert_eq!(pauses, [6, 12, 24, 48, 96, 168, 168]);
    }

    #[test]
    fn small_harm_or_gain_does_not_stop() {
        assert_eq!(feed(&mut Guard::default(), 0, 5000, -0.015), None);
        assert_eq!(feed(&mut Guard::default(), 0, 5000, 0.2), None);
    }

    #[test]
    fn late_harm_is_stopped_nearly_as_soon() {
        let mut guard = Guard::default();
        assert_eq!(feed(&mut guard, 0, 5000, 0.2), None);
        let (pairs, _) = feed(&mut guard, 300_000, 1000, -0.3).unwrap();
        assert!(pairs < 2 * RECENT, "{pairs}");
    }

    #[test]
    fn stop_is_short_after_a_calm_try() {
        let mut guard = Guard::default();
        feed(&mut guard, 1_000_000, 200, -0.3).unwrap();
        let (_, second) = feed(&mut guard, 2_000_000, 200, -0.3).unwrap();
        assert_eq!(second, 12 * 3600);
        assert_eq!(feed(&mut guard, 10_000_000, 3000, 0.0), None);
        let mut fresh = Guard {
            pairs: Pairs::default(),
            recent: <[Pairs; 2]>::default(),
            ..guard
        };
        let (_, third) = feed(&mut fresh, 90_000_000, 200, -0.3).unwrap();
        assert_eq!(third, 6 * 3600);
    }
}
