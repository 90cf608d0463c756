//! Which arm a new connection gets.

mod common;

use common::{config, path_with_costs, randoms};
use proptest::prelude::*;
use tcpilot_abi::{
    TP_NO_ARM, TP_WHY_EXPLORE, TP_WHY_FEW, TP_WHY_GREEDY, TP_WHY_NO_ARM, TP_WHY_NO_EVIDENCE,
    TP_WHY_UNTRIED, tp_arm, tp_config, tp_path,
};
use tcpilot_core as native;
use tcpilot_core::shares;

const NO_ARM: u8 = TP_NO_ARM as u8;
const DRAWS: usize = 200_000;

/// How often each arm was drawn, and how often for this reason, of DRAWS.
fn draw(cfg: &tp_config, path: &tp_path, eligible: u32, why: u32) -> ([f64; 8], f64) {
    let (mut arms, mut reason) = ([0.0; 8], 0.0);
    for random in randoms(DRAWS) {
        let (arm, for_why) = native::choose(cfg, path, eligible, random);
        if let Some(count) = arms.get_mut(usize::from(arm)) {
            *count += 1.0 / DRAWS as f64;
        }
        if u32::from(for_why) == why {
            reason += 1.0 / DRAWS as f64;
        }
    }
    (arms, reason)
}

/// Whether every draw has this reason and an arm among these.
fn always(cfg: &tp_config, path: &tp_path, eligible: u32, why: u32, among: &[u8]) -> bool {
    randoms(2000).all(|random| {
        let (arm, for_why) = native::choose(cfg, path, eligible, random);
        u32::from(for_why) == why && among.contains(&arm)
    })
}

#[test]
fn one_in_twenty_explores_evenly() {
    let (arms, explored) = draw(
        &config(),
        &path_with_costs(&[5, 1, 9, 7]),
        0b1111,
        TP_WHY_EXPLORE,
    );
    assert!((explored - 0.05).abs() < 0.003, "{explored}");
    for other in [0, 2, 3] {
        assert!((arms[other] - 0.0125).abs() < 0.0015, "{arms:?}");
    }
    assert!((arms[1] - 0.9625).abs() < 0.004, "{arms:?}");
}

#[test]
fn epsilon_zero_never_explores() {
    let cfg = tp_config {
        epsilon: 0,
        ..config()
    };
    assert!(always(
        &cfg,
        &path_with_costs(&[5, 1, 9, 7]),
        0b1111,
        TP_WHY_GREEDY,
        &[1]
    ));
}

#[test]
fn ties_are_drawn_evenly() {
    let cfg = tp_config {
        epsilon: 0,
        ..config()
    };
    let (arms, greedy) = draw(&cfg, &path_with_costs(&[1, 5, 1, 1]), 0b1111, TP_WHY_GREEDY);
    assert!((greedy - 1.0).abs() < 1e-6);
    for tied in [0, 2, 3] {
        assert!((arms[tied] - 1.0 / 3.0).abs() < 0.01, "{arms:?}");
    }
}

#[test]
fn few_instances_leave_the_kernels_default() {
    let mut path = path_with_costs(&[5, 1, 9, 7]);
    path.instances = 2;
    assert!(always(&config(), &path, 0b1111, TP_WHY_FEW, &[NO_ARM]));
    path.instances = 3;
    assert!(!always(&config(), &path, 0b1111, TP_WHY_FEW, &[NO_ARM]));
}

#[test]
fn untried_arms_come_before_the_cheapest() {
    let cfg = tp_config {
        epsilon: 0,
        ..config()
    };
    let mut path = path_with_costs(&[0, 0, 0, 0]);
    path.arms[2].samples = 0;
    assert!(always(&cfg, &path, 0b1111, TP_WHY_UNTRIED, &[2]));
}

#[test]
fn an_arm_that_never_pays_stops_being_hopeful() {
    let cfg = tp_config {
        epsilon: 0,
        ..config()
    };
    let mut path = path_with_costs(&[3, 4, 0, 7]);
    path.arms[2] = tp_arm {
        unpaid: 2,
        ..Default::default()
    };
    assert!(always(&cfg, &path, 0b1111, TP_WHY_UNTRIED, &[2]));
    path.arms[2].unpaid = 3;
    assert!(always(&cfg, &path, 0b1111, TP_WHY_GREEDY, &[0]));
}

#[test]
fn a_perfect_cost_wins() {
    let cfg = tp_config {
        epsilon: 0,
        ..config()
    };
    assert!(always(
        &cfg,
        &path_with_costs(&[1, 0, 1, 1]),
        0b1111,
        TP_WHY_GREEDY,
        &[1]
    ));
}

#[test]
fn the_dearest_possible_arm_can_still_be_the_cheapest() {
    let cfg = tp_config {
        epsilon: 0,
        ..config()
    };
    assert!(always(
        &cfg,
        &path_with_costs(&[u64::MAX]),
        0b1,
        TP_WHY_GREEDY,
        &[0]
    ));
}

#[test]
fn without_any_evidence_the_default_stays() {
    let cfg = tp_config {
        epsilon: 0,
        ..config()
    };
    let mut path = tp_path {
        instances: 50,
        ..Default::default()
    };
    path.arms.iter_mut().for_each(|arm| arm.unpaid = 3);
    assert!(always(&cfg, &path, 0b1111, TP_WHY_NO_EVIDENCE, &[NO_ARM]));
}

#[test]
fn no_eligible_arm_is_no_arm() {
    assert!(always(
        &config(),
        &path_with_costs(&[5, 1]),
        0,
        TP_WHY_NO_ARM,
        &[NO_ARM]
    ));
}

#[test]
fn an_ineligible_arm_is_never_drawn_however_cheap() {
    let (arms, _) = draw(
        &config(),
        &path_with_costs(&[5, 0, 9, 7]),
        0b1101,
        TP_WHY_GREEDY,
    );
    assert!(arms[1] == 0.0 && arms[0] > 0.9, "{arms:?}");
}

fn any_arm() -> impl Strategy<Value = tp_arm> {
    (0u64..4, 0u32..3, 0u32..5).prop_map(|(cost, samples, unpaid)| tp_arm {
        cost,
        samples,
        unpaid,
        ..Default::default()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_shares_shown_are_those_of_the_kernels_choice(
        arms in prop::array::uniform8(any_arm()), instances in 0u32..8,
        eligible: u8, epsilon in prop_oneof![Just(0u32), 1u32..40],
    ) {
        let cfg = tp_config { epsilon, ..config() };
        let path = tp_path { instances, arms, ..Default::default() };
        let shown = shares::shares(&cfg, &path, eligible);
        let (drawn, _) = draw(&cfg, &path, eligible.into(), TP_WHY_EXPLORE);
        for (shown, drawn) in shown.iter().zip(drawn) {
            prop_assert!((shown - drawn).abs() < 0.008, "{shown} {drawn}");
        }
    }

    #[test]
    fn the_best_set_is_the_kernels(arms in prop::array::uniform8(any_arm()), eligible: u8) {
        let path = tp_path { arms, ..Default::default() };
        let untried = native::untried(&path, eligible.into(), 3);
        let best = if untried == 0 { native::cheapest(&path, eligible.into()) } else { untried };
        prop_assert_eq!(u32::from(shares::best(&config(), &path, eligible)), best);
    }
}
