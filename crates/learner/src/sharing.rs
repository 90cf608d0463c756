//! Whether others may share a path's bottleneck.
//!
//! A loss-based default loses packets for two reasons. A link may drop them at random; then the packets
//! around a lost one come back as fast as ever, the default leaves a part of the link unused, and another
//! algorithm that takes it harms nobody. Or a queue overflows. Then the flows of other hosts may stand in the same
//! queue, and the gain of a more aggressive algorithm is their loss (Ware et al., *Beyond Jain's Fairness
//! Index: Setting the Bar for the Deployment of Congestion Control Algorithms*, HotNets 2019). A host sees no
//! flows of others, but its losses show the queue: `bpf/core/rescue.h` counts them by bouts. Where they come
//! with a queue, an algorithm has to gain so much that the default must have been starved.

use crate::settings::Choice;

/// Bouts of loss (a bout is all losses of one window) of the default's connections: with a queue, and without.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Bouts {
    /// With a queue.
    pub queued: f32,
    /// Without.
    pub clear: f32,
}

/// Bouts remembered; older ones fade.
const MEMORY: f32 = 32.0;

/// Bouts for which the share of the level above counts.
const ABOVE: f64 = 2.0;

/// Maximum number of bouts of one connection that count for its path. If a queue never empties, a
/// connection takes it for a part of the path, and all its bouts seem to come without one.
pub(crate) const OF_PATH: f32 = 2.0;

/// Maximum number of bouts of one connection that count for the nodes above: one busy path is not many paths.
pub(crate) const OF_NODE: f32 = 1.0;

/// The share of bouts with a queue where nothing is known. It is cautious: an aggressive algorithm that has
/// pushed others away leaves the default no losses by which they could be seen.
pub(crate) const UNKNOWN: f64 = 0.8;

/// Up to this share a path counts as nobody else's: with 0.3 to 7 % of random loss 0.2 to 0.7 of the
/// bouts seem to come with a queue, and with strangers at the bottleneck all.
const OWN: f64 = 0.7;

/// From this share on a path counts as shared. One connection with bouts of one kind decides.
const SHARED: f64 = 0.9;

impl Bouts {
    /// A connection at random loss.
    pub const CLEAR: Self = Self {
        queued: 0.0,
        clear: 2.0,
    };

    /// Adds a connection's bouts, as if they were `most` if they are more.
    pub(crate) fn add(&mut self, seen: Bouts, most: f32) {
        let count = seen.queued + seen.clear;
        if count <= 0.0 || !count.is_finite() {
            return;
        }
        let factor = (most / count).min(1.0);
        self.queued += factor * seen.queued.max(0.0);
        self.clear += factor * seen.clear.max(0.0);
        self.scale((MEMORY / (self.queued + self.clear)).min(1.0));
    }

    /// Lets a part of the count remain.
    pub(crate) fn scale(&mut self, keep: f32) {
        self.queued *= keep;
        self.clear *= keep;
    }

    /// The share with a queue; `above` is that of the level above.
    pub(crate) fn queued_share(self, above: f64) -> f64 {
        let count = f64::from(self.queued + self.clear);
        (f64::from(self.queued) + ABOVE * above) / (count + ABOVE)
    }

    /// The share of a group of which other hosts say this; `above` is that of the level above. Others can say that nobody
    /// else is there only down to [`OWN`]: then the host's own first connection with a queue decides.
    pub(crate) fn heard_share(self, above: f64) -> f64 {
        self.queued_share(above).max(OWN.min(above))
    }

    /// Whether a saved count is possible.
    pub(crate) fn is_possible(self) -> bool {
        [self.queued, self.clear]
            .iter()
            .all(|x| (0.0..=MEMORY + 1.0).contains(x))
    }
}

/// How far a path counts as shared, from 0 to 1, by its share of bouts with a queue.
pub(crate) fn shared(queued_share: f64) -> f64 {
    ((queued_share - OWN) / (SHARED - OWN)).clamp(0.0, 1.0)
}

impl Choice {
    /// The terms of a choice on a path with this share of bouts with a queue.
    ///
    /// Where more has to be gained, an arm is tried by its whole uncertainty: a starved default shows only if
    /// another arm is tried.
    pub(crate) fn with_queued_share(&self, queued_share: f64) -> Choice {
        if self.shared_bonus <= self.bonus {
            return self.clone();
        }
        let shared = shared(queued_share);
        let towards = |from: f64, to: f64| from + shared * (to - from).max(0.0);
        Choice {
            bonus: towards(self.bonus, self.shared_bonus),
            width: towards(self.width, 1.0),
            ..self.clone()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(queued: f32, clear: f32) -> Bouts {
        Bouts { queued, clear }
    }

    #[test]
    fn one_connection_decides_whatever_its_neighbours_saw() {
        let after = |bouts, above: f64| {
            let mut path = Bouts::default();
            path.add(bouts, OF_PATH);
            shared(path.queued_share(above))
        };
        assert_eq!(after(seen(0.0, 10.0), 1.0), 0.0);
        assert!(after(seen(10.0, 0.0), UNKNOWN) > 0.99);
        let unknown = after(seen(0.0, 0.0), UNKNOWN);
        assert!((0.2..0.8).contains(&unknown), "{unknown}");
    }

    #[test]
    fn one_own_connection_overrules_the_fleet() {
        let mut liars = Bouts::default();
        (0..40).for_each(|_| liars.add(seen(0.0, 9.0), OF_PATH));
        let heard = liars.heard_share(UNKNOWN);
        assert_eq!(shared(heard), 0.0);
        let (mut group, mut path) = (Bouts::default(), Bouts::default());
        group.add(seen(10.0, 0.0), OF_NODE);
        path.add(seen(10.0, 0.0), OF_PATH);
        assert!(shared(path.queued_share(group.queued_share(heard))) > 0.99);
        let cautious = seen(4.0, 0.0).heard_share(UNKNOWN);
        let mut path = Bouts::default();
        path.add(seen(0.0, 10.0), OF_PATH);
        assert_eq!(
            (shared(cautious), shared(path.queued_share(cautious))),
            (1.0, 0.0)
        );
    }

    #[test]
    fn where_losses_come_with_a_queue_more_has_to_be_gained() {
        let default = Choice::default();
        let mut path = Bouts::default();
        path.add(seen(5.0, 0.0), OF_PATH);
        let there = default.with_queued_share(path.queued_share(UNKNOWN));
        assert!(there.bonus > 0.9 * default.shared_bonus && there.width > default.width);
        for _ in 0..20 {
            path.add(seen(0.0, 8.0), OF_PATH);
        }
        let share = path.queued_share(UNKNOWN);
        assert_eq!(default.with_queued_share(share), default, "old bouts fade");
    }

    #[test]
    fn a_smaller_shared_bonus_changes_nothing() {
        let choice = Choice {
            shared_bonus: 0.0,
            ..Choice::default()
        };
        assert_eq!(choice.with_queued_share(1.0), choice);
    }

    #[test]
    fn counts_stay_possible() {
        let mut path = Bouts::default();
        for bouts in [seen(1e9, 1e9), seen(f32::NAN, 1.0), seen(-4.0, 4.0)] {
            path.add(bouts, OF_PATH);
            assert!(path.is_possible(), "{path:?}");
        }
    }
}
