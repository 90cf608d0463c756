//! The clocks: that of this host's boot, which nobody sets, and the engine's.
//!
//! No clock of a host is compared with another's, and a clock that jumps deletes nothing. Knowledge ages by this host's own
//! monotonic clock from the moment it was heard. Only its age at that moment comes from the engine's clock, and that counts as
//! at most 24 hours until the engine's clock has agreed with the monotonic one for an hour.

use std::time::{SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};
use tcpilot_fleet::age::{OLDEST_S, age_s};

/// Seconds since this host's boot, with sleep.
#[must_use]
pub fn boot_s() -> f64 {
    let now = clock_gettime(ClockId::Boottime);
    now.tv_sec as f64 + now.tv_nsec as f64 / 1e9
}

/// Seconds since 1970 by this host's wall clock. It is compared with the engine's for people, and used for ages across a
/// reboot only.
#[must_use]
pub fn unix_s() -> f64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap_or_default().as_secs_f64()
}

/// So long the engine's clock has to agree, in seconds.
const STEADY_S: f64 = 3600.0;

/// Smaller differences are those of a time server that corrects a drift, in seconds.
const DRIFT_S: f64 = 60.0;

/// The engine's clock as this host has seen it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct EngineClock {
    /// Engine's seconds since 1970 less this host's since its boot.
    offset_s: Option<f64>,
    steady_since_s: f64,
    /// Jumps seen.
    pub jumps: u64,
}

impl EngineClock {
    /// The engine's clock showed `engine_s` when this host's showed `boot_s`.
    pub fn see(&mut self, engine_s: f64, boot_s: f64) {
        let offset_s = engine_s - boot_s;
        match self.offset_s {
            None => self.steady_since_s = boot_s,
            Some(former) if (offset_s - former).abs() > DRIFT_S => {
                self.steady_since_s = boot_s;
                self.jumps += 1;
            }
            Some(_) => {}
        }
        self.offset_s = Some(offset_s);
    }

    /// Age of a state when it is read, in seconds: written by the engine's clock at `written_s`, and `stated_s` old then.
    #[must_use]
    pub fn age_s(&self, boot_s: f64, written_s: f64, stated_s: f64) -> f64 {
        let Some(offset_s) = self.offset_s else {
            return stated_s.clamp(0.0, OLDEST_S);
        };
        let age_s = age_s(boot_s + offset_s, written_s, stated_s);
        let is_steady = boot_s - self.steady_since_s >= STEADY_S;
        if is_steady {
            age_s
        } else {
            age_s.min(OLDEST_S)
        }
    }
}

/// The age of what was saved: by the boot's clock within one boot, else by the wall clock. A wall clock that was set adds
/// at most what leaves the knowledge in use.
#[must_use]
pub fn age_after_save_s(age_s: f64, boot_s_between: Option<f64>, unix_s_between: f64) -> f64 {
    match boot_s_between {
        Some(between) => age_s + between.max(0.0),
        None if age_s >= OLDEST_S => age_s,
        None => (age_s + unix_s_between.max(0.0)).min(OLDEST_S),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const YEAR: f64 = 365.0 * 86_400.0;

    #[test]
    fn ages_come_from_the_engine_once_steady() {
        let mut clock = EngineClock::default();
        clock.see(1e9, 100.0);
        clock.see(1e9 + 3600.0, 3700.0);
        assert_eq!(clock.age_s(3710.0, 1e9, 5.0), 3615.0);
        assert_eq!(
            clock.age_s(3700.0, 1e9 - 2.0 * OLDEST_S, 0.0),
            3600.0 + 2.0 * OLDEST_S
        );
    }

    #[test]
    fn jumps_of_the_engine_delete_nothing() {
        let mut clock = EngineClock::default();
        clock.see(1e9, 100.0);
        clock.see(1e9 + 3600.0, 3700.0);
        clock.see(1e9 + YEAR, 3760.0);
        assert_eq!(clock.jumps, 1);
        assert_eq!(clock.age_s(3760.0, 1e9 + 3600.0, 0.0), OLDEST_S);
        clock.see(1e9 - YEAR, 3820.0);
        assert_eq!(clock.age_s(3820.0, 1e9, 7.0), 7.0);
        // Right again for an hour.
        clock.see(1e9 - YEAR + 3600.0, 7420.0);
        assert!(clock.age_s(7420.0, 1e9 - 2.0 * YEAR, 0.0) > YEAR);
    }

    #[test]
    fn a_first_sight_deletes_nothing() {
        let mut clock = EngineClock::default();
        assert_eq!(clock.age_s(5.0, 1e9, 3.0), 3.0);
        clock.see(1e9, 10.0);
        assert_eq!(clock.age_s(10.0, 1e9 - YEAR, 0.0), OLDEST_S);
    }

    #[test]
    fn a_wrong_wall_clock_deletes_nothing_across_a_reboot() {
        assert_eq!(age_after_save_s(10.0, Some(50.0), YEAR), 60.0);
        assert_eq!(age_after_save_s(10.0, None, 50.0), 60.0);
        assert_eq!(age_after_save_s(10.0, None, YEAR), OLDEST_S);
        assert_eq!(age_after_save_s(10.0, None, -YEAR), 10.0);
    }
}
