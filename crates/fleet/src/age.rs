//! Ageing: how much of a state still counts.
//!
//! Ages come from the engine's clock alone: its time now, less its time of the state, plus the age stated by
//! the sender's own monotonic clock. Hosts' clocks are never compared.
//!
//! Age first, then pass through a spread: the two do not commute ([`Information::through`]).

use tcpilot_learner::gaussian::Information;

/// Half-life of a group's knowledge in seconds, equal to the learner's for groups (`Memory::group_s`).
pub const HALF_LIFE_S: f64 = 21_600.0;

/// An older state is dropped. The engine deletes it after the same time.
pub const OLDEST_S: f64 = 86_400.0;

/// Age of a state in seconds. A clock of the engine set back makes nothing younger than 0.
#[must_use]
pub fn age_s(engine_now_s: f64, engine_written_s: f64, stated_s: f64) -> f64 {
    (engine_now_s - engine_written_s).max(0.0) + stated_s.max(0.0)
}

/// The part of knowledge left at an age; `None` if it is too old to count.
#[must_use]
pub fn left(age_s: f64) -> Option<f64> {
    let age_s = age_s.max(0.0);
    (age_s <= OLDEST_S).then(|| (-age_s / HALF_LIFE_S).exp2())
}

/// Knowledge at an age; `None` if it is too old to count.
#[must_use]
pub fn aged<const C: usize>(known: &Information<C>, age_s: f64) -> Option<Information<C>> {
    let mut known = *known;
    known.scale(left(age_s)?);
    Some(known)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use tcpilot_learner::Settings;

    #[test]
    fn half_life_is_the_learners() {
        assert_eq!(HALF_LIFE_S, Settings::default().memory.group_s);
        assert_eq!(left(HALF_LIFE_S), Some(0.5));
    }

    #[test]
    fn old_and_future_states_are_bounded() {
        assert_eq!(left(OLDEST_S + 1.0), None);
        assert_eq!(left(f64::NAN), Some(1.0));
        assert_eq!(age_s(100.0, 500.0, 7.0), 7.0);
        assert_eq!(age_s(500.0, 100.0, -9.0), 400.0);
    }

    #[test]
    fn ageing_before_the_spread_says_more() {
        let known = Information::<1>::isotropic(0.5, 0.01);
        let first = aged(&known, HALF_LIFE_S).unwrap().through(0.1).unwrap();
        let mut last = known.through(0.1).unwrap();
        last.scale(0.5);
        assert!(first.trace() > 1.9 * last.trace());
    }

    proptest! {
        #[test]
        fn ageing_in_steps_equals_ageing_once(a in 0.0f64..4e4, b in 0.0f64..4e4) {
            let known = Information::<2>::isotropic(0.3, 0.2);
            let steps = aged(&aged(&known, a).unwrap(), b).unwrap();
            let once = aged(&known, a + b).unwrap();
            prop_assert!((steps.trace() - once.trace()).abs() < 1e-9);
            prop_assert!((steps.shift[0] - once.shift[0]).abs() < 1e-9);
        }
    }
}
