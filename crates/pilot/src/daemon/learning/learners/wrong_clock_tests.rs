//! Starts of a daemon whose wall clock is wrong.

use std::path::Path;

use tcpilot_kernel::wall_clock::Now;

use super::{
    Learners,
    tests::{ChoiceDists, settings, update},
};
use crate::{
    daemon::{learning::Restored, state_file::StateFile},
    state::StoredPath,
};

const RIGHT_S: u64 = 1_800_000_000;
const YEAR_S: i64 = 365 * 86_400;
const WEEK_S: u64 = 7 * 86_400;

fn at(years: i64, boot_s: u64) -> Now {
    Now {
        unix_s: RIGHT_S.saturating_add_signed(years * YEAR_S) + boot_s,
        boot_s,
    }
}

fn path_of_tunings(number: u8, updated_unix_s: u64) -> StoredPath {
    StoredPath {
        netns: "host".to_owned(),
        prefix: format!("10.9.{number}.0/24").parse().unwrap(),
        policy: "web".to_owned(),
        updated_unix_s,
        ..StoredPath::default()
    }
}

/// A daemon's life of some minutes: paths of the learner, the weight of their samples, and paths of the tunings as it
/// found them.
fn live(file: &Path, years: i64, more: &[&str]) -> (usize, f64, usize) {
    let mut state_file = StateFile::open(file, at(years, 60)).unwrap();
    let clock = state_file.clock().clone();
    let store = state_file.store().unwrap();
    let tuned = store.load().unwrap().len();
    let restored = Restored::read(vec![settings(100)], Some(&*store), [7; 7], clock.clone());
    let restored = restored.unwrap();
    let mut learners = Learners::new(restored.policies, Box::new(ChoiceDists::default()), clock);
    learners.ticks_per_s = 250;
    let now_s = learners.clock.now_s();
    let learner = &mut learners.policies[0].learner;
    let keys: Vec<_> = learner.paths().collect();
    let views = keys.iter().filter_map(|key| learner.view(key, now_s));
    let samples = views.map(|view| view.own_weight).sum();
    update(&mut learners, more, 20);
    for (number, boot_s) in [(0, 120), (1, 180)] {
        let knowledge = learners.unsaved(false);
        let paths = [path_of_tunings(
            more.len() as u8 + number,
            learners.clock.now_s() as u64,
        )];
        state_file
            .save(&paths, Some(&knowledge), at(years, boot_s), WEEK_S)
            .unwrap();
        assert!(!state_file.ages_count());
    }
    (keys.len(), samples, tuned)
}

#[test]
fn a_wrong_clock_at_start_keeps_all_paths() {
    for years in [-50, -3, 2, 60] {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("state.db");
        live(&file, 0, &["192.0.2.1", "192.0.2.2", "198.51.100.1"]);
        let before = live(&file, 0, &[]);
        assert_eq!((before.0, before.2), (3, 2));
        let wrong = live(&file, years, &["203.0.113.1"]);
        assert_eq!((wrong.0, wrong.2), (3, 4), "{years} years");
        let after = live(&file, 0, &[]);
        assert_eq!((after.0, after.2), (4, 5), "{years} years");
        // An hour counts at most, until the clock has been right for an hour.
        assert!(
            after.1 > 0.8 * before.1,
            "{years} years: {before:?} {after:?}"
        );
    }
}

#[test]
fn old_paths_go_once_the_clock_agrees() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("state.db");
    live(&file, 0, &["192.0.2.1"]);
    let mut state_file = StateFile::open(&file, at(1, 60)).unwrap();
    let clock = state_file.clock().clone();
    let store = state_file.store().unwrap();
    let restored = Restored::read(vec![settings(100)], Some(&*store), [7; 7], clock.clone());
    let mut learners = Learners::new(
        restored.unwrap().policies,
        Box::new(ChoiceDists::default()),
        clock,
    );
    state_file
        .save(&[], Some(&[]), at(1, 3659), WEEK_S)
        .unwrap();
    learners.forget_old();
    assert_eq!(learners.policies[0].learner.path_count(), 1);
    state_file
        .save(&[], Some(&[]), at(1, 3661), WEEK_S)
        .unwrap();
    assert!(state_file.ages_count());
    learners.forget_old();
    assert_eq!(learners.policies[0].learner.path_count(), 0);
    state_file
        .save(&[], Some(&learners.unsaved(false)), at(1, 3700), WEEK_S)
        .unwrap();
    let store = state_file.store().unwrap();
    assert!(store.load().unwrap().is_empty());
    assert_eq!(live(&file, 1, &[]).0, 0);
}
