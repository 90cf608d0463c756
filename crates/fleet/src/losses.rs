//! Bouts of loss in a state, and their merge. The learner asks by them whether others stand in a group's queue
//! (`tcpilot_learner::sharing`).
//!
//! The merge has its own bounds: they are counts and not beliefs, and a wrong word harms strangers, whom no host sees.
//! A host counts as one connection. Its share of bouts with a queue has one vote, whatever its number of bouts. Of two
//! middle votes the one with more queues counts, so of two hosts no single one brings aggression. The learner bounds the
//! result again.

use tcpilot_learner::sharing::Bouts;

/// A bout is so many units of a row.
const UNITS: f32 = 8.0;

/// A host with fewer bouts has no vote: one connection's bout counts for a half-life.
const VOTE_MIN: f32 = 0.5;

/// A host counts as at most so many bouts, as one connection does for its path.
pub const HOST_MOST: f32 = 2.0;

/// The fleet counts as at most so many bouts.
pub const FLEET_MOST: f32 = 4.0;

/// Bouts of the default's connections with and without a queue, in eighths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// With a queue.
    pub queued: u8,
    /// Without.
    pub clear: u8,
}

impl From<Bouts> for Losses {
    fn from(bouts: Bouts) -> Self {
        let units = |x: f32| (x * UNITS).round() as u8;
        Self {
            queued: units(bouts.queued),
            clear: units(bouts.clear),
        }
    }
}

impl Losses {
    /// As counts, `left` times as many.
    #[must_use]
    pub fn bouts(self, left: f64) -> Bouts {
        let count = |x: u8| f32::from(x) / UNITS * left as f32;
        Bouts {
            queued: count(self.queued),
            clear: count(self.clear),
        }
    }
}

/// The part of the bouts by which a share differs.
const PART: f32 = 0.2;

impl Losses {
    /// Whether another count says something else: readers see the share, and whether there is one.
    #[must_use]
    pub fn differ(self, other: Self) -> bool {
        let share = |losses: Self| {
            let all = f32::from(losses.queued) + f32::from(losses.clear);
            (all > 0.0).then(|| f32::from(losses.queued) / all)
        };
        match (share(self), share(other)) {
            (Some(a), Some(b)) => (a - b).abs() > PART,
            (a, b) => a != b,
        }
    }
}

/// What the hosts of a place say together, each aged.
#[must_use]
pub fn merged(hosts: &[Bouts]) -> Losses {
    let count = |bouts: &Bouts| bouts.queued + bouts.clear;
    let voting = || hosts.iter().filter(|bouts| count(bouts) >= VOTE_MIN);
    let mut shares: Vec<f32> = voting().map(|bouts| bouts.queued / count(bouts)).collect();
    shares.sort_by(f32::total_cmp);
    let Some(share) = shares.get(shares.len() / 2) else {
        return Losses::default();
    };
    let all: f32 = voting().map(|bouts| count(bouts).min(HOST_MOST)).sum();
    let all = all.min(FLEET_MOST);
    Losses::from(Bouts {
        queued: share * all,
        clear: (1.0 - share) * all,
    })
}

/// What a place has said together, aged, within the same bound.
#[must_use]
pub fn of_place(bouts: Bouts) -> Losses {
    let all = bouts.queued + bouts.clear;
    let part = if all > FLEET_MOST {
        FLEET_MOST / all
    } else {
        1.0
    };
    Losses::from(Bouts {
        queued: part * bouts.queued,
        clear: part * bouts.clear,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bouts(queued: f32, clear: f32) -> Bouts {
        Bouts { queued, clear }
    }

    #[test]
    fn one_liar_needs_a_majority() {
        let [honest, liar] = [bouts(9.0, 1.0), bouts(0.0, 31.0)];
        let share = |hosts: &[Bouts]| {
            let bouts = merged(hosts).bouts(1.0);
            bouts.queued / (bouts.queued + bouts.clear)
        };
        assert!(
            share(&[honest, liar]) > 0.85,
            "of two middle votes the cautious one"
        );
        assert!(share(&[honest, honest, liar]) > 0.85);
        assert_eq!(share(&[honest, liar, liar]), 0.0);
    }

    #[test]
    fn numbers_of_bouts_are_bounded() {
        assert_eq!(merged(&[bouts(0.0, 31.0)]), bouts(0.0, 2.0).into());
        assert_eq!(merged(&[bouts(0.0, 31.0); 9]), bouts(0.0, 4.0).into());
        assert_eq!(merged(&[bouts(0.2, 0.2); 9]), Losses::default(), "no votes");
        assert_eq!(merged(&[]), Losses::default());
        let aged = Losses::from(bouts(0.0, 1.0)).bouts(0.9);
        assert_eq!(merged(&[aged]), bouts(0.0, 0.9).into());
    }

    #[test]
    fn a_place_is_bounded_like_its_hosts() {
        assert_eq!(of_place(bouts(3.0, 1.0)), bouts(3.0, 1.0).into());
        assert_eq!(of_place(bouts(0.0, 31.0)), bouts(0.0, 4.0).into());
    }

    #[test]
    fn another_share_is_said_again() {
        let losses = |queued, clear| Losses { queued, clear };
        assert!(losses(0, 0).differ(losses(0, 8)));
        assert!(losses(8, 8).differ(losses(14, 2)));
        assert!(!losses(8, 8).differ(losses(80, 88)));
    }

    #[test]
    fn bouts_age() {
        let half = Losses::from(bouts(4.0, 2.0)).bouts(0.5);
        assert_eq!(half, bouts(2.0, 1.0));
        assert_eq!(
            Losses::from(bouts(1e9, f32::NAN)),
            Losses {
                queued: 255,
                clear: 0
            }
        );
    }
}
