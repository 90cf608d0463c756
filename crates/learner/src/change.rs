//! Detects changes of a path by two-sided cumulative sums of its standardised residuals.
//!
//! Page, *Continuous Inspection Schemes*, Biometrika 41 (1954). After a change the samples of a path's
//! favourite arm deviate for good. The sums find this within a few connections, long before the old
//! samples would have aged.

use crate::settings::Change;

/// Steps of a sum in a standard deviation. Sums go up to 64: far beyond any sensible alarm.
const STEPS: f64 = 1024.0;

/// The sums of one path: evidence of higher and of lower rewards. There may be a
/// million, so they are 16 bits each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    pub(crate) up: u16,
    pub(crate) down: u16,
}

impl Sums {
    /// Takes in a residual in standard deviations; says whether the path changed, and resets if so.
    pub fn observe(&mut self, z: f64, drift: f64, alarm: f64) -> bool {
        let step = |sum: u16, z: f64| {
            let sum = f64::from(sum) + STEPS * (z - drift);
            sum.round().clamp(0.0, f64::from(u16::MAX)) as u16
        };
        self.up = step(self.up, z);
        self.down = step(self.down, -z);
        let changed = f64::from(self.up.max(self.down)) >= STEPS * alarm;
        if changed {
            *self = Self::default();
        }
        changed
    }
}

/// The last alarms of a node's children.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Alarms {
    recent: Vec<(f64, u32)>,
}

impl Alarms {
    /// Notes a child's alarm at `now_s` (seconds). Says whether enough different children did for
    /// the node to count as changed, and resets if so.
    pub fn note(&mut self, child: u32, now_s: f64, settings: &Change) -> bool {
        self.recent
            .retain(|(at, other)| *at + settings.window_s >= now_s && *other != child);
        self.recent.push((now_s, child));
        let changed = self.recent.len() >= settings.group_paths;
        if changed {
            self.recent = Vec::new();
        }
        changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_deviations_alarm_within_four_samples() {
        for sign in [-1.0, 1.0] {
            let mut sums = Sums::default();
            let alarm = (1..10).find(|_| sums.observe(2.0 * sign, 0.5, 5.0));
            assert_eq!(alarm, Some(4));
            assert_eq!(sums, Sums::default());
        }
    }

    #[test]
    fn residuals_around_zero_do_not_alarm() {
        let mut sums = Sums::default();
        for i in 0..10_000 {
            let z = if i % 2 == 0 { 1.2 } else { -1.2 };
            assert!(!sums.observe(z, 0.5, 5.0));
        }
    }

    #[test]
    fn group_changes_after_three_paths_in_ten_minutes() {
        let settings = Change::default();
        let mut alarms = Alarms::default();
        assert!(!alarms.note(1, 0.0, &settings));
        assert!(!alarms.note(1, 1.0, &settings)); // the same path again
        assert!(!alarms.note(2, 500.0, &settings));
        assert!(!alarms.note(3, 1000.0, &settings)); // the alarm of path 1 is too old
        assert!(alarms.note(4, 1001.0, &settings));
    }
}
