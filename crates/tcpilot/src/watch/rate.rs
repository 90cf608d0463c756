//! The rate of the link: the highest between two looks, over the last ten to twenty seconds, and the mean over about a second.

use std::time::{Duration, Instant};

/// The shortest time to measure over: in less time one packet more or less counts too much.
const LEAST: Duration = Duration::from_millis(50);
const EPOCH: Duration = Duration::from_secs(10);
/// What the link did so long before counts by 1/e in the mean.
const MEMORY: Duration = Duration::from_secs(1);

/// Measures the rate from the count of bytes that have left.
#[derive(Debug)]
pub struct LinkRate {
    at: Instant,
    bytes: u64,
    epoch: Instant,
    current: u64,
    previous: u64,
    mean: f64,
}

impl LinkRate {
    /// Starts to measure at a time when `bytes` have left.
    pub fn new(at: Instant, bytes: u64) -> LinkRate {
        LinkRate {
            at,
            bytes,
            epoch: at,
            current: 0,
            previous: 0,
            mean: 0.0,
        }
    }

    /// Takes the count of bytes that have left by now.
    pub fn look(&mut self, now: Instant, bytes: u64) {
        let passed = now.duration_since(self.at);
        if passed < LEAST {
            return;
        }
        let rate = bytes.saturating_sub(self.bytes) as f64 / passed.as_secs_f64();
        (self.at, self.bytes) = (now, bytes);
        let epochs = now.duration_since(self.epoch).as_secs() / EPOCH.as_secs();
        if epochs > 0 {
            self.previous = if epochs == 1 { self.current } else { 0 };
            (self.current, self.epoch) = (0, now);
        }
        self.current = self.current.max(rate as u64);
        let kept = (-passed.as_secs_f64() / MEMORY.as_secs_f64()).exp();
        self.mean = rate + (self.mean - rate) * kept;
    }

    /// The highest rate lately, bytes per second.
    pub fn most(&self) -> u64 {
        self.current.max(self.previous)
    }

    /// The mean rate over about a second, bytes per second.
    pub fn mean(&self) -> u64 {
        self.mean as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_is_remembered_for_ten_to_twenty_seconds() {
        let start = Instant::now();
        let mut rate = LinkRate::new(start, 1000);
        let mut at = |ms: u64, bytes| {
            rate.look(start + Duration::from_millis(ms), bytes);
            rate.most()
        };
        assert_eq!(at(10, 5000), 0, "too soon");
        assert_eq!(at(100, 101_000), 1_000_000);
        assert_eq!(at(200, 101_000), 1_000_000);
        assert_eq!(at(11_000, 101_000), 1_000_000);
        assert_eq!(at(22_000, 101_000), 0);
    }

    #[test]
    fn the_mean_is_over_a_second_however_often_one_looks() {
        for step in [60, 100, 400] {
            let start = Instant::now();
            let mut rate = LinkRate::new(start, 0);
            // 2 MB/s in one half of each 0.4 s, and none in the other.
            for ms in (step..=20_000).step_by(step) {
                let bytes = (ms / 400 * 200 + (ms % 400).min(200)) as u64 * 2000;
                rate.look(start + Duration::from_millis(ms as u64), bytes);
            }
            let mean = rate.mean();
            assert!((800_000..1_200_000).contains(&mean), "{step} ms: {mean}");
        }
    }
}
