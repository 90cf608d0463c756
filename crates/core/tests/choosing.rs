//! The choice row that epsilon-greedy writes for a path.

mod common;

use common::{S, end_of, path_with_costs, settings};
use proptest::prelude::*;
use tcpilot_abi::{TP_NO_ARM, tp_arm, tp_costs, tp_learner_config};
use tcpilot_core::{
    learner::{self, End},
    rows::{Entries, probability},
};

/// An entry's unit: a row has no finer shares.
const UNIT: f64 = 1.0 / 65_535.0;

fn greedy() -> tp_learner_config {
    tp_learner_config {
        epsilon: 0,
        ..settings()
    }
}

fn shares_of(row: &Entries) -> [f64; 8] {
    std::array::from_fn(|arm| f64::from(probability(row, arm as u32)) * UNIT)
}

/// The share of each arm.
fn shares(cfg: &tp_learner_config, path: &tp_costs) -> [f64; 8] {
    shares_of(&learner::row(cfg, path).expect("the path has a row"))
}

fn has_row(cfg: &tp_learner_config, path: &tp_costs) -> bool {
    learner::row(cfg, path).is_some()
}

/// The one arm that connections get without exploration.
fn only_arm(path: &tp_costs) -> usize {
    let shares = shares(&greedy(), path);
    let arm = shares.iter().position(|share| *share > 0.0).unwrap();
    assert!((shares[arm] - 1.0).abs() < 1e-9, "{shares:?}");
    arm
}

#[test]
fn one_in_twenty_explores_evenly() {
    let shares = shares(&settings(), &path_with_costs(&[5, 1, 9, 7]));
    for other in [0, 2, 3] {
        assert!((shares[other] - 0.0125).abs() <= UNIT, "{shares:?}");
    }
    assert!((shares[1] - 0.9625).abs() <= UNIT, "{shares:?}");
    assert_eq!(shares[4..], [0.0; 4]);
}

#[test]
fn epsilon_zero_never_explores() {
    let row = learner::row(&greedy(), &path_with_costs(&[5, 1, 9, 7]));
    let all = 0xffff;
    assert_eq!(row, Some([0, all, all, all, all, all, all, all]));
}

#[test]
fn epsilon_one_always_explores() {
    let cfg = tp_learner_config {
        epsilon: 1,
        ..settings()
    };
    let shares = shares(&cfg, &path_with_costs(&[5, 1, 9, 7]));
    assert!(shares[..4].iter().all(|share| (share - 0.25).abs() <= UNIT));
}

#[test]
fn ties_share_evenly() {
    let shares = shares(&greedy(), &path_with_costs(&[1, 5, 1, 1]));
    for tied in [0, 2, 3] {
        assert!((shares[tied] - 1.0 / 3.0).abs() <= UNIT, "{shares:?}");
    }
    assert_eq!(shares[1], 0.0);
}

#[test]
fn few_instances_leave_no_row() {
    let mut path = path_with_costs(&[5, 1, 9, 7]);
    path.instances = 2;
    assert!(!has_row(&settings(), &path));
    path.instances = 3;
    assert!(has_row(&settings(), &path));
}

#[test]
fn untried_arms_come_before_the_cheapest() {
    let mut path = path_with_costs(&[0, 0, 0, 0]);
    path.arms[2].samples = 0;
    assert_eq!(only_arm(&path), 2);
}

#[test]
fn an_arm_that_never_pays_loses_hope() {
    let mut path = path_with_costs(&[3, 4, 0, 7]);
    path.arms[2] = tp_arm {
        unpaid: 2,
        ..Default::default()
    };
    assert_eq!(only_arm(&path), 2);
    path.arms[2].unpaid = 3;
    assert_eq!(only_arm(&path), 0);
}

#[test]
fn a_perfect_cost_wins() {
    assert_eq!(only_arm(&path_with_costs(&[1, 0, 1, 1])), 1);
}

#[test]
fn the_dearest_arm_can_be_the_cheapest() {
    let mut path = path_with_costs(&[u64::MAX]);
    path.eligible = 1;
    assert_eq!(only_arm(&path), 0);
}

#[test]
fn without_evidence_there_is_no_row() {
    let mut path = tp_costs {
        instances: 50,
        eligible: 0b1111,
        ..Default::default()
    };
    path.arms.iter_mut().for_each(|arm| arm.unpaid = 3);
    assert!(!has_row(&settings(), &path));
    path.arms[1].unpaid = 2;
    assert!(has_row(&settings(), &path));
}

#[test]
fn without_an_eligible_arm_there_is_no_row() {
    let mut path = path_with_costs(&[5, 1, 9, 7]);
    path.eligible = 0;
    assert!(!has_row(&settings(), &path) && !has_row(&greedy(), &path));
}

#[test]
fn an_ineligible_arm_is_never_drawn() {
    let mut path = path_with_costs(&[5, 0, 9, 7]);
    path.eligible = 0b1101;
    let shares = shares(&settings(), &path);
    assert!(shares[1] == 0.0 && shares[0] > 0.96, "{shares:?}");
}

#[test]
fn the_next_row_notices_a_charge() {
    let mut path = path_with_costs(&[5, 1, 9, 7]);
    assert_eq!(only_arm(&path), 1);
    let failed = End {
        failed: 1,
        ..end_of(1, 0, 50, S)
    };
    assert!(learner::end(&settings(), &mut path, &failed));
    assert_eq!(only_arm(&path), 0);
}

#[test]
fn the_row_covers_the_last_connections_arms() {
    let mut path = path_with_costs(&[5, 1, 9, 7]);
    let without_ecn = End {
        eligible: 0b1101,
        ..end_of(TP_NO_ARM as u8, 0, 50, S)
    };
    learner::end(&settings(), &mut path, &without_ecn);
    assert_eq!(only_arm(&path), 0);
}

#[test]
fn excuses_cost_an_arm_no_hope() {
    let mut path = path_with_costs(&[5, 6, 7]);
    path.arms[3].unpaid = 3;
    assert_eq!(only_arm(&path), 0);
    let excused = End {
        excused: 1,
        ..end_of(3, 1000, 50, S)
    };
    for unpaid in [3, 2] {
        path.arms[3].unpaid = unpaid;
        assert!(!learner::end(&settings(), &mut path, &excused));
        assert_eq!(path.arms[3].unpaid, unpaid, "it neither gains nor loses");
    }
    assert_eq!(only_arm(&path), 3);
}

fn any_arm() -> impl Strategy<Value = tp_arm> {
    let cost = prop_oneof![0u64..4, Just(u64::MAX)];
    (cost, 0u32..3, 0u32..5).prop_map(|(cost, samples, unpaid)| tp_arm {
        cost,
        samples,
        unpaid,
        ..Default::default()
    })
}

fn any_path() -> impl Strategy<Value = tp_costs> {
    let arms = prop::array::uniform8(any_arm());
    (arms, 0u32..8, any::<u8>()).prop_map(|(arms, instances, eligible)| tp_costs {
        instances,
        eligible: eligible.into(),
        arms,
        ..Default::default()
    })
}

fn any_epsilon() -> impl Strategy<Value = u32> {
    prop_oneof![0u32..40, any::<u32>(), Just(u32::MAX)]
}

/// The arms that exploitation shares: untried ones, else the cheapest.
fn best(cfg: &tp_learner_config, path: &tp_costs) -> Vec<usize> {
    let eligible = (0..8).filter(|arm| path.eligible >> arm & 1 == 1);
    let untried = |arm: &usize| {
        let arm = &path.arms[*arm];
        arm.samples == 0 && arm.unpaid < cfg.max_unpaid
    };
    let hopeful: Vec<usize> = eligible.clone().filter(untried).collect();
    if !hopeful.is_empty() {
        return hopeful;
    }
    let known: Vec<usize> = eligible.filter(|arm| path.arms[*arm].samples > 0).collect();
    let least = known.iter().map(|arm| path.arms[*arm].cost).min();
    let is_least = |arm: &usize| Some(path.arms[*arm].cost) == least;
    known.into_iter().filter(is_least).collect()
}

/// The share of an arm as a fraction, without rounding.
fn fraction(cfg: &tp_learner_config, path: &tp_costs, best: &[usize], arm: usize) -> (u128, u128) {
    let epsilon = u128::from(cfg.epsilon);
    let (all, among) = (u128::from(path.eligible.count_ones()), best.len() as u128);
    let explored = u128::from(path.eligible >> arm & 1);
    let exploited = u128::from(best.contains(&arm));
    if epsilon == 0 {
        return (exploited, among);
    }
    let of = explored * among + exploited * (epsilon - 1) * all;
    (of, epsilon * all * among)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn a_row_has_the_exact_shares(path in any_path(), epsilon in any_epsilon()) {
        let cfg = tp_learner_config { epsilon, ..settings() };
        let best = best(&cfg, &path);
        let row = learner::row(&cfg, &path);
        prop_assert_eq!(row.is_some(), !best.is_empty() && path.instances >= cfg.min_instances);
        for (arm, entry) in row.iter().flat_map(|row| (0..8).map(|arm| (arm, probability(row, arm as u32)))) {
            let (of, whole) = fraction(&cfg, &path, &best, arm);
            // |entry / 0xffff - of / whole| <= 1 / 0xffff
            prop_assert!((u128::from(entry) * whole).abs_diff(of * 0xffff) <= whole, "{} {}", arm, entry);
            prop_assert!(of > 0 || entry == 0, "{} has no share", arm);
        }
    }

    #[test]
    fn entries_rise_to_the_whole(path in any_path(), epsilon in any_epsilon()) {
        let cfg = tp_learner_config { epsilon, ..settings() };
        let best = best(&cfg, &path);
        if let Some(row) = learner::row(&cfg, &path) {
            prop_assert!(row.is_sorted(), "{:?}", row);
            let has_share = |arm: &usize| fraction(&cfg, &path, &best, *arm).0 > 0;
            let last = (0..8).rfind(has_share).unwrap();
            prop_assert!(row[last..].iter().all(|entry| *entry == 0xffff), "{:?}", row);
        }
    }
}
