//! The rate of the link: the highest recent one between two looks, and the mean over about a second.

use std::time::{Duration, Instant};

/// The shortest time to measure over: in less time one packet more or less counts too much.
const LEAST: Duration = Duration::from_millis(50);
/// The highest rate is remembered for so long, or up to twice as long.
const REMEMBERED: Duration = Duration::from_secs(10);
/// What the link did so long before counts by 1/e in the mean.
const MEMORY: Duration = Duration::from_millis(500);
/// The highest mean is remembered for so long, or up to twice as long. Flows end, and others take seconds to use the room.
const MEAN_REMEMBERED: Duration = Duration::from_secs(3);

/// Measures the rate from the count of sent bytes.
#[derive(Debug)]
pub struct LinkRate {
    at: Instant,
    bytes: u64,
    mean: f64,
    most: Highest,
    recent: Highest,
}

impl LinkRate {
    /// Starts to measure at a time when `bytes` have left.
    pub fn new(at: Instant, bytes: u64) -> LinkRate {
        LinkRate {
            at,
            bytes,
            mean: 0.0,
            most: Highest::new(at, REMEMBERED),
            recent: Highest::new(at, MEAN_REMEMBERED),
        }
    }

    /// Takes the count of bytes sent by now.
    pub fn look(&mut self, now: Instant, bytes: u64) {
        let passed = now.duration_since(self.at);
        if passed < LEAST {
            return;
        }
        let rate = bytes.saturating_sub(self.bytes) as f64 / passed.as_secs_f64();
        (self.at, self.bytes) = (now, bytes);
        let kept = (-passed.as_secs_f64() / MEMORY.as_secs_f64()).exp();
        self.mean = rate + (self.mean - rate) * kept;
        self.most.take(now, rate as u64);
        self.recent.take(now, self.mean as u64);
    }

    /// The highest recent rate, bytes per second.
    pub fn most(&self) -> u64 {
        self.most.value()
    }

    /// The mean rate over about a second, bytes per second.
    pub fn mean(&self) -> u64 {
        self.mean as u64
    }

    /// The highest mean rate of the last seconds, bytes per second.
    pub fn recent(&self) -> u64 {
        self.recent.value()
    }
}

/// The highest value of one to two epochs.
#[derive(Debug)]
struct Highest {
    epoch: Duration,
    began: Instant,
    current: u64,
    previous: u64,
}

impl Highest {
    fn new(began: Instant, epoch: Duration) -> Highest {
        Highest {
            epoch,
            began,
            current: 0,
            previous: 0,
        }
    }

    fn take(&mut self, now: Instant, value: u64) {
        let since = now.duration_since(self.began);
        if since >= self.epoch {
            self.previous = if since < self.epoch * 2 {
                self.current
            } else {
                0
            };
            (self.current, self.began) = (0, now);
        }
        self.current = self.current.max(value);
    }

    fn value(&self) -> u64 {
        self.current.max(self.previous)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peaks_are_kept_ten_to_twenty_seconds() {
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

    /// Looks every 100 ms at the counter `bytes`.
    fn looked(to_ms: u64, bytes: impl Fn(u64) -> u64) -> LinkRate {
        let start = Instant::now();
        let mut rate = LinkRate::new(start, 0);
        for ms in (100..=to_ms).step_by(100) {
            rate.look(start + Duration::from_millis(ms), bytes(ms));
        }
        rate
    }

    #[test]
    fn mean_rates_follow_sooner_than_recent_rates() {
        // 1 MB/s, from 10 s on 0.2 MB/s.
        let bytes = |ms: u64| ms.min(10_000) * 1000 + ms.saturating_sub(10_000) * 200;
        let begun = looked(1000, bytes);
        assert!((800_000..900_000).contains(&begun.mean()));
        let later = looked(12_000, bytes);
        assert!((200_000..220_000).contains(&later.mean()));
        assert!(later.recent() > 990_000, "{later:?}");
        assert!(looked(17_000, bytes).recent() < 220_000);
    }
}
