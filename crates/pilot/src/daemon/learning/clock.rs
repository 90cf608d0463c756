//! The learner's clock, in seconds since 1970. It takes the wall clock's time when the daemon starts, and
//! follows the kernel's monotonic clock from then on. So saved knowledge has the right age after a restart,
//! and nothing grows younger if somebody sets the wall clock.

use tcpilot_kernel::clock::monotonic_ns;

/// Converts the kernel's clock to seconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Clock {
    /// Seconds at the monotonic clock's zero.
    zero_s: f64,
}

impl Clock {
    /// A clock with the present time `unix_s`.
    pub fn new(unix_s: f64) -> Clock {
        Clock::at(unix_s, monotonic_ns())
    }

    fn at(now_s: f64, now_ns: u64) -> Clock {
        Clock {
            zero_s: now_s - now_ns as f64 / 1e9,
        }
    }

    /// The time of a record, from CLOCK_MONOTONIC in nanoseconds.
    pub fn seconds(&self, monotonic_ns: u64) -> f64 {
        self.zero_s + monotonic_ns as f64 / 1e9
    }

    /// The present time.
    pub fn now_s(&self) -> f64 {
        self.seconds(monotonic_ns())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn record_time_follows_the_wall_clock_at_start() {
        let clock = Clock::at(1e9, 5_000_000_000);
        assert_eq!(clock.seconds(5_000_000_000), 1e9);
        assert_eq!(clock.seconds(6_500_000_000), 1e9 + 1.5);
    }
}
