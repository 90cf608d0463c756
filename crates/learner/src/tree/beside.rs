//! A client at the edge of an octave of round trips: one address with two paths.
//!
//! Classes divide round trips at octaves. A client with 16.0 ms in one handshake and 16.8 ms in the next is in
//! two classes, and neither path would know what the other one learned. So a sample of such a path also counts
//! on the address's path in the neighbouring octave, by a factor from 0 to 1, growing with the resemblance of
//! their round trips (a power prior: Ibrahim and Chen, *Power Prior Distributions for Regression Models*,
//! Statistical Science 15, 2000). The tree above does not change. A sample that counts on two paths counts once
//! for each group, site and class; only the global node hears it twice. The weight of a path in its group is
//! bounded as ever.

use super::store::PathFields;
use super::{PathId, Tree};
use crate::linalg::NotPositive;
use crate::lineage::{Class, Key};
use crate::path::Evidence;

/// Two paths are unrelated if their round trips differ by so many octaves. A factor of 1.4
/// in round trips separates a near client from a far one more often than it separates two handshakes of one.
const APART: f64 = 0.5;

/// Parts of an octave.
const PARTS: f64 = 254.0;

/// Weight of a path's next round trip in its mean.
const GAIN: f64 = 0.125;

/// The mean of a path's round trips on a logarithmic scale within their octave, in a byte; 0: unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct InOctave(pub u8);

impl InOctave {
    /// Takes in the round trip of a handshake in this octave.
    pub fn note(&mut self, rtt_us: f64, octave: u8) {
        let within = (rtt_us.max(1.0).log2() - f64::from(octave)).clamp(0.0, 1.0);
        let before = self.octaves().unwrap_or(within);
        self.0 = (1.0 + PARTS * (before + GAIN * (within - before))).round() as u8;
    }

    /// Octaves above the least round trip.
    fn octaves(self) -> Option<f64> {
        (self.0 > 0).then(|| f64::from(self.0 - 1) / PARTS)
    }
}

/// How far the samples of one of two paths count for the other: 1 if their round trips are the same.
fn resemblance(lower: InOctave, upper: InOctave) -> f64 {
    let (Some(lower), Some(upper)) = (lower.octaves(), upper.octaves()) else {
        return 0.0;
    };
    let apart = (1.0 + upper - lower) / APART;
    (1.0 - apart * apart).max(0.0)
}

impl<const C: usize> Tree<C> {
    /// Notes a round trip of a path's handshake.
    pub(crate) fn note_rtt(&mut self, id: PathId, rtt_us: f64) {
        let octave = Class::octave_of_bits(self.group(id).key.class);
        self.paths[id.0 as usize].rtt.note(rtt_us, octave);
    }

    /// Links a new path and those of its address in the neighbouring octaves to each other.
    pub(super) fn introduce(&mut self, id: PathId, key: &Key) {
        for (side, beside) in key.beside().into_iter().enumerate() {
            if let Some(other) = beside.and_then(|key| self.find(&key)) {
                self.paths[id.0 as usize].beside[side] = true;
                self.paths[other.0 as usize].beside[1 - side] = true;
            }
        }
    }

    /// The path of the same address in a neighbouring octave, and how far its samples count here. Only the
    /// nearer octave's comes into question.
    #[inline]
    pub(crate) fn relative(&self, id: PathId) -> Option<(PathId, f64)> {
        let path = &self.paths[id.0 as usize];
        if path.beside == [false; 2] {
            return None;
        }
        self.relative_of(id)
    }

    fn relative_of(&self, id: PathId) -> Option<(PathId, f64)> {
        let path = &self.paths[id.0 as usize];
        let side = usize::from(path.rtt.octaves()? >= 0.5);
        let key = self.path_key(id.0).beside()[side].filter(|_| path.beside[side])?;
        let other = self.find(&key)?;
        let rtt = self.paths[other.0 as usize].rtt;
        let share = match side {
            0 => resemblance(rtt, path.rtt),
            _ => resemblance(path.rtt, rtt),
        };
        (share > 0.0).then_some((other, share))
    }

    /// Gives a path without samples those of its relative.
    ///
    /// # Errors
    /// [`NotPositive`], as for [`Tree::update`].
    pub(crate) fn inherit(&mut self, id: PathId, now_s: f64) -> Result<(), NotPositive> {
        match self.relative(id).filter(|_| !self.has_samples(id)) {
            Some((other, share)) => {
                let known = self.evidence_at(other, now_s);
                self.paths[id.0 as usize].typical = self.paths[other.0 as usize].typical;
                self.update(id, now_s, |own| own.add_of(&known, share))
            }
            None => Ok(()),
        }
    }

    /// A client with two paths changes as one, and is one witness.
    pub(crate) fn agree(&mut self, id: PathId) {
        if let Some((other, _)) = self.relative(id) {
            let PathFields { sums, wild, .. } = self.paths[id.0 as usize];
            let other = &mut self.paths[other.0 as usize];
            (other.sums, other.wild) = (sums, wild);
        }
    }

    /// Changes the evidence of a path, and its relative's, by `change`. This gets the factor by which the
    /// sample counts there.
    ///
    /// # Errors
    /// [`NotPositive`], as for [`Tree::update`].
    pub(crate) fn update_both(
        &mut self,
        id: PathId,
        now_s: f64,
        change: impl Fn(&mut Evidence<C>, f64),
    ) -> Result<(), NotPositive> {
        self.update(id, now_s, |own| change(own, 1.0))?;
        match self.relative(id) {
            Some((other, share)) => self.update(other, now_s, |its| change(its, share)),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lineage::Lineage;
    use crate::settings::Settings;

    fn in_octave(rtt_us: f64, octave: u8) -> InOctave {
        let mut mean = InOctave::default();
        mean.note(rtt_us, octave);
        mean
    }

    #[test]
    fn round_trips_that_are_alike_count_most() {
        let of = |lower, upper| resemblance(in_octave(lower, 13), in_octave(upper, 14));
        assert!(of(16_300.0, 16_500.0) > 0.99);
        assert!(of(15_900.0, 16_900.0) > 0.95);
        assert!((0.4..0.9).contains(&of(14_500.0, 17_500.0)));
        assert_eq!(of(10_000.0, 20_000.0), 0.0);
        assert_eq!(
            resemblance(InOctave::default(), in_octave(16_500.0, 14)),
            0.0
        );
    }

    #[test]
    fn a_place_follows_its_round_trips() {
        let mut mean = in_octave(8_192.0, 13);
        assert_eq!(mean.octaves(), Some(0.0));
        for _ in 0..100 {
            mean.note(16_383.0, 13);
        }
        assert!(mean.octaves().unwrap() > 0.97, "{mean:?}");
    }

    /// A tree of a client whose handshakes are now in one octave, now in the next, and its two paths.
    fn client(rtts_us: [f64; 2]) -> (Tree<2>, [PathId; 2]) {
        let mut tree = Tree::new(&Settings::default());
        let ids = rtts_us.map(|rtt_us| {
            let class = Class {
                rtt_octave: Class::octave(rtt_us as u32),
                ..Class::default()
            };
            let peer = "198.51.100.7".parse().unwrap();
            let id = tree.path(&Lineage::of(peer, class, 0), 0.0);
            tree.note_rtt(id, rtt_us);
            id
        });
        (tree, ids)
    }

    /// Arm and nats of some samples.
    const SAMPLES: [(usize, f64); 6] = [
        (0, 0.25),
        (1, 1.0),
        (2, -0.5),
        (1, 0.75),
        (0, -0.125),
        (2, 0.0),
    ];

    #[test]
    fn paths_of_equal_rtt_share_knowledge() {
        let (mut tree, ids) = client([16_383.9, 16_384.0]);
        let mut whole = Evidence::<2>::NONE;
        for (number, (arm, nats)) in SAMPLES.into_iter().enumerate() {
            whole.add(arm, nats, 1.0);
            let id = ids[number % 2];
            tree.inherit(id, 0.0).unwrap();
            let add = |e: &mut Evidence<2>, share: f64| e.add(arm, nats, share);
            tree.update_both(id, 0.0, add).unwrap();
        }
        for id in ids {
            assert_eq!(tree.evidence_at(id, 0.0), whole);
        }
    }

    #[test]
    fn a_new_path_begins_with_its_relatives_evidence() {
        let (mut tree, [known, other]) = client([16_300.0, 16_500.0]);
        tree.remove(&tree.path_key(other.0)).unwrap();
        for (arm, nats) in SAMPLES {
            tree.update(known, 0.0, |e| e.add(arm, nats, 1.0)).unwrap();
        }
        let class = Class {
            rtt_octave: 14,
            ..Class::default()
        };
        let new = tree.path(&Lineage::of("198.51.100.7".parse().unwrap(), class, 0), 0.0);
        tree.inherit(new, 0.0).unwrap();
        assert_eq!(
            tree.evidence_at(new, 0.0).weight,
            0.0,
            "its round trip is not known"
        );
        tree.note_rtt(new, 16_500.0);
        tree.inherit(new, 0.0).unwrap();
        let weight = tree.evidence_at(new, 0.0).weight;
        assert!((5.9..6.0).contains(&weight), "{weight}");
    }

    #[test]
    fn a_relative_weighs_no_more_in_its_group() {
        let in_group = |samples: u32| {
            let (mut tree, [id, other]) = client([16_383.9, 16_384.0]);
            for number in 0..samples {
                let arm = (number % 2) as usize;
                let add = |e: &mut Evidence<2>, share: f64| e.add(arm, arm as f64, share);
                tree.update_both(id, 0.0, add).unwrap();
            }
            let group = tree.group_of(other);
            tree.belief_below(group, 0.0).unwrap().mean[0]
        };
        let most = Settings::default().model.path_weight_max as u32;
        assert!(in_group(2) < in_group(most) - 0.01);
        assert!((in_group(most) - in_group(100 * most)).abs() < 1e-3);
    }

    #[test]
    fn far_round_trips_are_unrelated() {
        let (tree, ids) = client([10_000.0, 20_000.0]);
        assert!(ids.iter().all(|id| tree.relative(*id).is_none()));
        let (tree, [lower, upper]) = client([16_000.0, 16_800.0]);
        let of = |id| tree.relative(id).map(|(other, _)| other);
        assert_eq!([of(lower), of(upper)], [Some(upper), Some(lower)]);
    }

    #[test]
    fn each_octave_has_a_neighbour_but_the_unknown() {
        let beside = |class| {
            Key {
                class,
                ..Key::default()
            }
            .beside()
        };
        let classes = |class| beside(class).map(|key| key.map(|key| key.class));
        assert_eq!(classes(0), [None, None]);
        assert_eq!(classes(9), [None, Some(10)]);
        assert_eq!(
            classes(1 << 14 | 13),
            [Some(1 << 14 | 12), Some(1 << 14 | 14)]
        );
        assert_eq!(classes(31), [Some(30), None]);
    }
}
