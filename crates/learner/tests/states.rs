//! Loss that comes and goes, connections side by side, and connections that change their arm.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod common;

use std::collections::BTreeMap;

use common::{lineage, noise, seen};
use tcpilot_learner::draw::{ChoiceDist, uniform};
use tcpilot_learner::sharing::Bouts;
use tcpilot_learner::{Learner as _, Lineage, Observation, Settings, Thompson};

fn learner() -> Thompson {
    Thompson::new(2, Settings::default()).unwrap()
}

/// Segments of each connection.
const SEGMENTS: u64 = 264;

/// A path that loses a hundredth of all packets at random for some time, and none for some time. Its second arm is
/// better in the one state, and worse in the other.
struct Busy {
    learner: Thompson,
    path: Lineage,
    now_s: f64,
    drawn: u64,
}

impl Busy {
    fn new() -> Self {
        Self {
            learner: learner(),
            path: lineage(100, 1, 80_000),
            now_s: 0.0,
            drawn: 0,
        }
    }

    fn share(&mut self) -> f64 {
        self.learner.plan(&self.path, self.now_s).shares[1]
    }

    /// One connection, with the arm drawn from its shares; says whether it had the better one.
    fn connect(&mut self, is_lossy: bool, has_bouts: bool) -> bool {
        self.drawn += 1;
        self.now_s += 1.0;
        let plan = self.learner.plan(&self.path, self.now_s);
        let arm = ChoiceDist::new(&plan.shares).arm(uniform(9, 1, self.drawn));
        let nats = match (is_lossy, arm) {
            (false, 0) => 14.0,
            (false, _) => 13.7,
            (true, 0) => 13.2,
            (true, _) => 13.8,
        };
        // Two or three bouts of 2.6 losses are counted, and one in four seems to come with a queue.
        let clear = if is_lossy && has_bouts { 2.0 } else { 0.0 };
        let sample = Observation {
            bouts: Bouts {
                queued: f32::from(u8::from(self.drawn % 2 == 0)),
                clear: if self.drawn % 4 == 0 { 0.0 } else { clear },
            },
            segments: SEGMENTS,
            ..seen(self.path, arm, nats + 0.3 * noise(self.drawn), self.now_s)
        };
        self.learner.observe(&sample).unwrap();
        (arm == 1) == is_lossy
    }

    /// The share of connections with the better arm, from the 20th on.
    fn phase(&mut self, is_lossy: bool, has_bouts: bool) -> f64 {
        let right = (0..150).filter(|i| self.connect(is_lossy, has_bouts) && *i >= 20);
        right.count() as f64 / 130.0
    }
}

#[test]
fn each_state_of_loss_has_evidence_of_its_own() {
    let mut path = Busy::new();
    let right: Vec<f64> = (0..6).map(|i| path.phase(i % 2 == 1, true)).collect();
    // The first time each state has to be learned.
    assert!(right[2..].iter().all(|share| *share > 0.9), "{right:?}");
    let mut blind = Busy::new();
    let right: Vec<f64> = (0..6).map(|i| blind.phase(i % 2 == 1, false)).collect();
    assert!(right[2..].iter().any(|share| *share < 0.7), "{right:?}");
}

#[test]
fn states_are_kept_across_a_restart() {
    let mut path = Busy::new();
    for i in 0..4 {
        path.phase(i % 2 == 1, true);
    }
    let lossy = path.share();
    let mut rows = BTreeMap::new();
    path.learner.save(true, |key, row| {
        rows.insert(key.to_vec(), row.unwrap().to_vec());
    });
    let (restored, taken) = Thompson::restore(2, Settings::default(), &rows, path.now_s).unwrap();
    assert_eq!(taken.damaged, 0);
    path.learner = restored;
    assert!((path.share() - lossy).abs() < 0.02);
    assert!(
        path.phase(false, true) > 0.9,
        "the calm state is remembered"
    );
}

#[test]
fn queues_turn_no_path() {
    let mut path = Busy::new();
    for _ in 0..100 {
        path.connect(false, false);
    }
    let before = path.share();
    for i in 0..50u64 {
        path.now_s += 1.0;
        let sample = Observation {
            bouts: Bouts {
                queued: 5.0,
                clear: f32::from(u8::from(i % 20 == 0)),
            },
            segments: 700,
            ..seen(path.path, 0, 14.0 + 0.3 * noise(i), path.now_s)
        };
        path.learner.observe(&sample).unwrap();
    }
    assert!(path.share() <= before + 0.01);
}

/// The share of the second arm after six samples of the first, and these of the second.
fn share_after(samples: impl Iterator<Item = Observation>) -> f64 {
    let (mut learner, path) = (learner(), lineage(100, 1, 80_000));
    for i in 0..6 {
        learner.observe(&seen(path, 0, 14.0, i as f64)).unwrap();
    }
    for sample in samples {
        learner.observe(&sample).unwrap();
    }
    learner.plan(&path, 20.0).shares[1]
}

#[test]
fn connections_side_by_side_are_one_sample() {
    let of = |count: u32, beside: u32| {
        share_after((0..count).map(|_| Observation {
            beside,
            ..seen(lineage(100, 1, 80_000), 1, 13.8, 10.0)
        }))
    };
    let (one, six, apart) = (of(1, 1), of(6, 6), of(6, 1));
    assert!((one - six).abs() < 0.05, "{one} {six}");
    assert!(one > apart + 0.05, "{one} {apart}");
}

#[test]
fn the_first_sample_after_a_switch_counts_fully() {
    let of = |is_switched: bool| {
        share_after(std::iter::once(Observation {
            since_last_s: Some(1.0),
            is_switched,
            ..seen(lineage(100, 1, 80_000), 1, 15.5, 10.0)
        }))
    };
    let (switched, interval) = (of(true), of(false));
    assert!(switched > interval + 0.2, "{switched} {interval}");
}
