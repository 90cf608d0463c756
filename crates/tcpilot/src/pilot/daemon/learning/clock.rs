//! The learner's clock: seconds since 1970 as they were when the daemon started, and from then on as the
//! kernel's monotonic clock counts. So knowledge that was saved has the right age after a restart, and
//! nothing grows younger if somebody sets the wall clock.

use crate::clock::monotonic_ns;

/// From the kernel's clock to seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Clock {
    /// Seconds at the monotonic clock's zero.
    zero_s: f64,
}

impl Clock {
    /// `unix_s` is now.
    pub fn new(unix_s: f64) -> Clock {
        Clock::at(unix_s, monotonic_ns())
    }

    fn at(now_s: f64, now_ns: u64) -> Clock {
        Clock {
            zero_s: now_s - now_ns as f64 / 1e9,
        }
    }

    /// The time of a record.
    pub fn seconds(&self, monotonic_ns: u64) -> f64 {
        self.zero_s + monotonic_ns as f64 / 1e9
    }

    /// Now.
    pub fn now_s(&self) -> f64 {
        self.seconds(monotonic_ns())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_has_the_wall_clocks_time_of_the_start() {
        let clock = Clock::at(1e9, 5_000_000_000);
        assert_eq!(clock.seconds(5_000_000_000), 1e9);
        assert_eq!(clock.seconds(6_500_000_000), 1e9 + 1.5);
    }
}
