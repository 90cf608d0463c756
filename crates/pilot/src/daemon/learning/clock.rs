//! The clock of all knowledge, in seconds since 1970. It follows the kernel's monotonic clock while the daemon
//! runs, and goes on from the last save when the daemon starts. So it never goes back, and nobody can make
//! knowledge old by setting the wall clock. The time since the last save comes from the clock of the boot, if that is still
//! the same. The time that the host was off is added in two parts: at most [`AWAY_MAX_S`] at the first start, and the
//! rest when the wall clock has been right for an hour ([`tcpilot_kernel::wall_clock`]).

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use tcpilot_kernel::wall_clock::Now;

use crate::{clocks::monotonic_ns, state::SavedAt};

/// The most that a start adds by a wall clock that nobody has checked yet.
const AWAY_MAX_S: f64 = 3600.0;
/// A host that was off for longer is unusual enough to say so.
const LONG_S: f64 = 7.0 * 86_400.0;
/// The most that is added later: all that was learned has faded by then.
const CATCH_UP_MAX_S: f64 = 365.0 * 86_400.0;
/// No knowledge is older than this version (2025-06-15), so a wall clock before it is wrong.
const EPOCH_S: f64 = 1_750_000_000.0;

/// Converts the kernel's clock to seconds since 1970. Clones are the same clock.
#[derive(Clone, Debug)]
pub struct Clock {
    /// Seconds at the monotonic clock's zero: the bits of an `f64`.
    zero_s: Arc<AtomicU64>,
}

impl Clock {
    /// A clock with the present time `unix_s`.
    pub fn new(unix_s: f64) -> Clock {
        Clock::at(unix_s, monotonic_ns())
    }

    /// The clock of a daemon that starts, `now` in the boot `boot`. Within one boot the time since the last save is
    /// known; otherwise it is the wall clock's, and one that contradicts the last save is logged.
    pub fn resume(saved: Option<SavedAt>, boot: &str, now: Now) -> Clock {
        let unix_s = now.unix_s as f64;
        let Some(saved) = saved else {
            return Clock::new(unix_s.max(EPOCH_S));
        };
        let since_boot = saved.boot.filter(|(of, _)| of == boot && !of.is_empty());
        if let Some((_, boot_s)) = since_boot {
            return Clock::new(saved.clock_s + now.boot_s.saturating_sub(boot_s) as f64);
        }
        let away_s = unix_s - saved.clock_s;
        if !(-60.0..=LONG_S).contains(&away_s) {
            let (days, side) = (
                (away_s / 86_400.0).abs(),
                if away_s < 0.0 { "before" } else { "after" },
            );
            tracing::warn!(
                "the wall clock is {days:.1} days {side} the last save: nothing is forgotten for its age until it has been \
                 right for an hour"
            );
        }
        Clock::new(saved.clock_s + away_s.clamp(0.0, AWAY_MAX_S))
    }

    fn at(now_s: f64, now_ns: u64) -> Clock {
        let zero_s = now_s - now_ns as f64 / 1e9;
        Clock {
            zero_s: Arc::new(AtomicU64::new(zero_s.to_bits())),
        }
    }

    /// Goes forward to this time of a wall clock that has been right for an hour.
    pub fn catch_up(&self, unix_s: f64) {
        let more_s = (unix_s - self.now_s()).clamp(0.0, CATCH_UP_MAX_S);
        let zero_s = f64::from_bits(self.zero_s.load(Ordering::Relaxed)) + more_s;
        self.zero_s.store(zero_s.to_bits(), Ordering::Relaxed);
    }

    /// The time of a record, from CLOCK_MONOTONIC in nanoseconds.
    pub fn seconds(&self, monotonic_ns: u64) -> f64 {
        f64::from_bits(self.zero_s.load(Ordering::Relaxed)) + monotonic_ns as f64 / 1e9
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

    #[test]
    fn a_clock_never_goes_back() {
        let (saved_s, day) = (1.8e9, 86_400.0);
        let begins = |boot: Option<(&str, u64)>, unix_s: f64| {
            let saved = SavedAt {
                clock_s: saved_s,
                boot: boot.map(|(boot, boot_s)| (boot.to_owned(), boot_s)),
            };
            let now = Now {
                unix_s: unix_s as u64,
                boot_s: 500,
            };
            Clock::resume(Some(saved), "this", now).now_s() - saved_s
        };
        let far_s = saved_s + 700.0 * day;
        for (boot, unix_s, expected_s) in [
            (None, 0.0, 0.0),
            (None, saved_s - 7.0, 0.0),
            (None, saved_s + 7.0, 7.0),
            (None, far_s, 3600.0),
            (Some(("another", 0)), far_s, 3600.0),
            // A daemon that is started again and again under a wrong wall clock ages nothing.
            (Some(("this", 480)), far_s, 20.0),
            (Some(("this", 480)), 0.0, 20.0),
            (Some(("this", 510)), far_s, 0.0),
        ] {
            let after_s = begins(boot, unix_s) - expected_s;
            assert!(
                (0.0..5.0).contains(&after_s),
                "{boot:?} {unix_s}: {after_s}"
            );
        }
        let clock = Clock::new(saved_s);
        clock.catch_up(saved_s - day);
        assert!(clock.now_s() >= saved_s);
        clock.catch_up(saved_s + 9.0 * day);
        assert!(clock.now_s() >= saved_s + 9.0 * day);
    }
}
