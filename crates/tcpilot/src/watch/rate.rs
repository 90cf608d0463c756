//! The rate of the link: the highest between two looks, over the last ten to twenty seconds.

use std::time::{Duration, Instant};

/// The shortest time to measure over: in less time one packet more or less counts too much.
const LEAST: Duration = Duration::from_millis(50);
const EPOCH: Duration = Duration::from_secs(10);

/// Measures the rate from the count of bytes that have left.
#[derive(Debug)]
pub struct LinkRate {
    at: Instant,
    bytes: u64,
    epoch: Instant,
    current: u64,
    previous: u64,
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
        }
    }

    /// Takes the count of bytes that have left by now, and returns the rate in bytes per second.
    pub fn look(&mut self, now: Instant, bytes: u64) -> u64 {
        let passed = now.duration_since(self.at);
        if passed >= LEAST {
            let rate = bytes.saturating_sub(self.bytes) as f64 / passed.as_secs_f64();
            (self.at, self.bytes) = (now, bytes);
            let epochs = now.duration_since(self.epoch).as_secs() / EPOCH.as_secs();
            if epochs > 0 {
                self.previous = if epochs == 1 { self.current } else { 0 };
                (self.current, self.epoch) = (0, now);
            }
            self.current = self.current.max(rate as u64);
        }
        self.current.max(self.previous)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_is_remembered_for_ten_to_twenty_seconds() {
        let start = Instant::now();
        let mut rate = LinkRate::new(start, 1000);
        let mut at = |ms: u64, bytes| rate.look(start + Duration::from_millis(ms), bytes);
        assert_eq!(at(10, 5000), 0, "too soon");
        assert_eq!(at(100, 101_000), 1_000_000);
        assert_eq!(at(200, 101_000), 1_000_000);
        assert_eq!(at(11_000, 101_000), 1_000_000);
        assert_eq!(at(22_000, 101_000), 0);
    }
}
