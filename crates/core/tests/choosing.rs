//! The choice distribution of epsilon-greedy: the arms of new connections.

mod common;

use common::{assert_shares, end_of, greedy, path_of, settings, shares, shares_of};
use proptest::prelude::*;
use tcpilot_abi::{TP_NO_ARM, tp_arm, tp_costs, tp_learner_config};
use tcpilot_core::choice_dist::{Entries, even_shares};
use tcpilot_core::learner::{self, End, MAX_ARMS};

const NO_ARM: u8 = TP_NO_ARM as u8;

/// An arm with this count of tries in vain.
fn unpaid(unpaid: u32) -> tp_arm {
    tp_arm {
        unpaid,
        ..Default::default()
    }
}

/// Asserts equal shares for these arms, and none for others.
fn assert_only(cfg: &tp_learner_config, path: &tp_costs, arms: &[usize]) {
    let expected: [f64; MAX_ARMS] = std::array::from_fn(|arm| {
        f64::from(u8::from(arms.contains(&arm))) / arms.len().max(1) as f64
    });
    assert_shares(&shares(cfg, path), &expected);
}

#[test]
fn one_in_twenty_explores_evenly() {
    let shares = shares(&settings(), &path_of(&[5, 1, 9, 7]));
    let expected = [0.0125, 0.9625, 0.0125, 0.0125, 0.0, 0.0, 0.0, 0.0];
    assert_shares(&shares, &expected);
}

#[test]
fn epsilon_zero_never_explores() {
    assert_only(&greedy(), &path_of(&[5, 1, 9, 7]), &[1]);
}

#[test]
fn epsilon_one_always_explores() {
    let always = tp_learner_config {
        epsilon: 1,
        ..settings()
    };
    assert_only(&always, &path_of(&[5, 1, 9, 7]), &[0, 1, 2, 3]);
}

#[test]
fn ties_share_evenly() {
    assert_only(&greedy(), &path_of(&[1, 5, 1, 1]), &[0, 2, 3]);
}

#[test]
fn few_instances_leave_the_kernels_default() {
    let mut path = path_of(&[5, 1, 9, 7]);
    path.instances = 2;
    assert_eq!(learner::choice_dist(&settings(), &path), None);
    path.instances = 3;
    assert_ne!(learner::choice_dist(&settings(), &path), None);
}

#[test]
fn untried_arms_come_before_the_cheapest() {
    let mut path = path_of(&[0, 0, 0, 0]);
    path.arms[2].samples = 0;
    assert_only(&greedy(), &path, &[2]);
}

#[test]
fn an_arm_that_never_pays_stops_being_hopeful() {
    let mut path = path_of(&[3, 4, 0, 7]);
    path.arms[2] = unpaid(2);
    assert_only(&greedy(), &path, &[2]);
    path.arms[2] = unpaid(3);
    assert_only(&greedy(), &path, &[0]);
}

#[test]
fn a_perfect_cost_wins() {
    assert_only(&greedy(), &path_of(&[1, 0, 1, 1]), &[1]);
}

#[test]
fn the_dearest_possible_arm_can_be_the_cheapest() {
    assert_only(&greedy(), &path_of(&[u64::MAX]), &[0]);
    let mut path = path_of(&[u64::MAX, 0]);
    path.arms[1] = unpaid(3);
    assert_only(&greedy(), &path, &[0]);
}

#[test]
fn without_any_evidence_the_default_stays() {
    let mut path = tp_costs {
        instances: 50,
        eligible: 0b1111,
        ..Default::default()
    };
    path.arms.fill(unpaid(3));
    assert_eq!(learner::choice_dist(&settings(), &path), None);
}

#[test]
fn without_an_eligible_arm_the_default_stays() {
    let mut path = path_of(&[5, 1]);
    path.eligible = 0;
    assert_eq!(learner::choice_dist(&settings(), &path), None);
}

#[test]
fn an_ineligible_arm_has_no_share_however_cheap() {
    let mut path = path_of(&[5, 0, 9, 7]);
    path.eligible = 0b1101;
    let shares = shares(&settings(), &path);
    assert!(shares[1] == 0.0 && shares[0] > 0.9, "{shares:?}");
}

#[test]
fn the_last_connection_says_which_arms_are_eligible() {
    let mut path = path_of(&[5, 0, 9, 7]);
    let last = End {
        eligible: 0b1001,
        is_judged: 0,
        ..end_of(NO_ARM, 0, 50)
    };
    learner::end(&greedy(), &mut path, &last);
    assert_only(&greedy(), &path, &[0]);
}

#[test]
fn a_charge_changes_the_next_distribution() {
    let mut path = path_of(&[500_000, 400_000]);
    assert_only(&greedy(), &path, &[1]);
    let slow = End {
        eligible: 0b11,
        failed: 1,
        ..end_of(1, 0, 50)
    };
    assert!(learner::end(&greedy(), &mut path, &slow));
    assert_eq!(path.arms[1].cost, 550_000);
    assert_only(&greedy(), &path, &[0]);
}

/// A path with a rate, so connections without one are silent; its arm 1 was never charged.
fn path_with_rate() -> tp_costs {
    let mut path = path_of(&[5]);
    path.instances -= 1;
    learner::end(&greedy(), &mut path, &end_of(NO_ARM, 1000, 50));
    path
}

#[test]
fn only_its_own_silence_makes_an_arm_hopeless() {
    let mut path = path_with_rate();
    let silent = end_of(1, 0, 50);
    for times in 1..=3 {
        assert!(!learner::end(&greedy(), &mut path, &silent));
        assert_eq!(path.arms[1].unpaid, times);
    }
    let excused = End {
        excused: 1,
        ..silent
    };
    assert!(!learner::end(&greedy(), &mut path, &excused));
    assert_eq!(path.arms[1].unpaid, 3);
    assert_eq!((path.arms[1].samples, path.instances), (0, 14));
}

#[test]
fn small_connections_of_an_arm_are_unpaid() {
    let mut path = path_with_rate();
    let small = End {
        is_judged: 0,
        ..end_of(1, 0, 50)
    };
    learner::end(&greedy(), &mut path, &small);
    assert_eq!((path.arms[1].unpaid, path.instances), (1, 10));
    let many = End {
        weight: 16,
        ..small
    };
    learner::end(&greedy(), &mut path, &many);
    assert_eq!((path.arms[1].unpaid, path.arms[1].chosen), (17, 17));
}

#[test]
fn no_arm_is_unpaid_before_the_first_distribution() {
    let mut path = path_with_rate();
    path.instances = 0;
    for unpaid in [0, 0, 0, 1] {
        learner::end(&greedy(), &mut path, &end_of(1, 0, 50));
        assert_eq!(path.arms[1].unpaid, unpaid);
    }
    assert_eq!(path.arms[1].chosen, 4);
}

#[test]
fn connection_without_arm_updates_only_path_measures() {
    let mut path = path_of(&[5, 1]);
    path.arms[7] = unpaid(1); // the place of an index clamped to the bounds
    let arms = path.arms.map(|arm| (arm.samples, arm.unpaid, arm.chosen));
    assert!(!learner::end(
        &settings(),
        &mut path,
        &end_of(NO_ARM, 900, 50)
    ));
    assert_eq!(path.instances, 11);
    assert_eq!(path.max_delivery_rate.current, 900);
    assert_eq!(path.min_rtt_us.current, 50);
    assert_eq!(
        path.arms.map(|arm| (arm.samples, arm.unpaid, arm.chosen)),
        arms
    );
    assert!(
        path.arms
            .iter()
            .all(|arm| arm.max_delivery_rate.current == 0 && arm.min_rtt_us.current == 0)
    );
}

#[test]
fn favourites_are_counted_among_the_chosen() {
    let mut path = path_of(&[5, 1]);
    for favourite in [1, 0, 1] {
        let end = End {
            favourite,
            ..end_of(1, 1000, 50)
        };
        learner::end(&settings(), &mut path, &end);
    }
    assert_eq!((path.arms[1].chosen, path.arms[1].greedy), (3, 2));
    assert_eq!(path.arms[0].chosen, 0);
}

/// What the documentation says, in floating point.
fn reference(cfg: &tp_learner_config, path: &tp_costs) -> Option<[f64; MAX_ARMS]> {
    let eligible: Vec<usize> = (0..MAX_ARMS)
        .filter(|arm| path.eligible >> arm & 1 == 1)
        .collect();
    let of = |wanted: &dyn Fn(&tp_arm) -> bool| -> Vec<usize> {
        let is_wanted = |arm: &&usize| wanted(&path.arms[**arm]);
        eligible.iter().filter(is_wanted).copied().collect()
    };
    let cost = |arm: &tp_arm| arm.cost.min(u64::MAX >> 1);
    let mut best = of(&|arm| arm.samples == 0 && arm.unpaid < cfg.max_unpaid);
    if best.is_empty() {
        let tried = of(&|arm| arm.samples > 0);
        let least = tried.iter().map(|arm| cost(&path.arms[*arm])).min()?;
        best = of(&|arm| arm.samples > 0 && cost(arm) == least);
    }
    if path.instances < cfg.min_instances {
        return None;
    }
    let explore = f64::from(cfg.epsilon).recip();
    let explore = if explore.is_finite() { explore } else { 0.0 };
    let part = |among: &[usize], arm, of: f64| {
        let is_among = among.contains(&arm);
        f64::from(u8::from(is_among)) * of / among.len() as f64
    };
    Some(std::array::from_fn(|arm| {
        part(&eligible, arm, explore) + part(&best, arm, 1.0 - explore)
    }))
}

/// Entries never fall, and are 0xffff from the last arm with a share on.
fn assert_is_dist(dist: &Entries, arms: u32) {
    assert!(dist.is_sorted(), "{dist:?}");
    let last = 31 - arms.leading_zeros();
    assert!(
        dist[last as usize..].iter().all(|upto| *upto == 0xffff),
        "{dist:?}"
    );
    let none_before = dist.iter().take(arms.trailing_zeros() as usize);
    assert!(none_before.into_iter().all(|upto| *upto == 0), "{dist:?}");
}

fn any_arm() -> impl Strategy<Value = tp_arm> {
    let cost = prop_oneof![0u64..4, u64::MAX - 2..];
    (cost, 0u32..3, 0u32..5).prop_map(|(cost, samples, unpaid)| tp_arm {
        cost,
        samples,
        unpaid,
        ..Default::default()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn a_distribution_has_the_exact_shares(
        arms in prop::array::uniform8(any_arm()), instances in 0u32..8,
        eligible: u8, epsilon in prop_oneof![0u32..40, any::<u32>()],
    ) {
        let cfg = tp_learner_config { epsilon, ..settings() };
        let path = tp_costs { instances, arms, eligible: eligible.into(), ..Default::default() };
        let (dist, expected) = (learner::choice_dist(&cfg, &path), reference(&cfg, &path));
        prop_assert_eq!(dist.is_some(), expected.is_some());
        if let (Some(dist), Some(expected)) = (dist, expected) {
            let shares = expected.map(|share| (share > 0.0).into());
            let with_share = (0..).zip(shares).fold(0, |mask, (arm, is): (u32, u32)| mask | is << arm);
            assert_is_dist(&dist, with_share);
            assert_shares(&shares_of(&dist), &expected);
        }
    }

    #[test]
    fn even_shares_are_even(arms in 1u32..256) {
        let dist = even_shares(arms);
        assert_is_dist(&dist, arms);
        let share = 1.0 / f64::from(arms.count_ones());
        let expected: [f64; MAX_ARMS] = std::array::from_fn(|arm| f64::from(arms >> arm & 1) * share);
        assert_shares(&shares_of(&dist), &expected);
    }
}
