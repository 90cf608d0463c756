//! When the wall clock may decide about deletion: the one rule of every store (paths, the learner's rows, the
//! report, the census). A wrong wall clock at a start, or one that is set, must cost no knowledge. So nothing is
//! dropped for its age until the wall clock has agreed with the monotonic one for an hour.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};

/// The time of two clocks, in seconds.
#[derive(Clone, Copy, Debug)]
pub struct Now {
    /// Time since 1970, which people and time servers set.
    pub unix_s: u64,
    /// Time since the boot, including sleep, which nobody sets.
    pub boot_s: u64,
}

impl Now {
    /// Reads both clocks.
    pub fn read() -> Now {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        Now {
            unix_s: since.unwrap_or(Duration::ZERO).as_secs(),
            boot_s: clock_gettime(ClockId::Boottime).tv_sec as u64,
        }
    }
}

/// Compares the wall clock with the monotonic one, see the module's comment.
#[derive(Debug, Default)]
pub struct WallClock {
    /// The time of the boot by the wall clock, and since when that has been so, in seconds since the boot.
    seen: Option<(u64, u64)>,
}

impl WallClock {
    /// So long the clocks have to agree.
    pub const STEADY_S: u64 = 3600;
    /// Smaller changes are those of a time server that corrects a drift.
    pub const DRIFT_S: u64 = 60;

    /// Looks at both clocks; call it once a minute or so. True if the age of what is stored counts. Logs a jump
    /// once.
    pub fn may_judge_age(&mut self, now: Now) -> bool {
        let boot_unix_s = now.unix_s.saturating_sub(now.boot_s);
        let (boot, since) = *self.seen.get_or_insert((boot_unix_s, now.boot_s));
        let jump_s = boot_unix_s as i64 - boot as i64;
        if jump_s.unsigned_abs() > WallClock::DRIFT_S {
            self.seen = Some((boot_unix_s, now.boot_s));
            tracing::warn!(
                "the wall clock jumped by {jump_s} s: nothing is forgotten for its age until it has been right for an hour"
            );
            return false;
        }
        now.boot_s.saturating_sub(since) >= WallClock::STEADY_S
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const YEAR: u64 = 365 * 86400;

    #[test]
    fn no_age_counts_under_a_doubtful_clock() {
        let mut clock = WallClock::default();
        let mut judge = |unix_s, boot_s| clock.may_judge_age(Now { unix_s, boot_s });
        assert!(!judge(YEAR, 100));
        assert!(judge(YEAR + 3600, 3700));
        assert!(!judge(2 * YEAR + 3660, 3760));
        assert!(!judge(YEAR + 3720, 3820));
        assert!(judge(YEAR + 7320, 7420));
    }
}
