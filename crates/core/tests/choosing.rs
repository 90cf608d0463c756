//! Which arm a new connection gets.

mod common;

use std::sync::atomic::{AtomicU32, Ordering};

use common::{memory_with_costs, randoms, settings};
use proptest::prelude::*;
use tcpilot_abi::{
    TP_LEARNER_NONE, TP_NO_ARM, TP_OUTCOME_COST, TP_OUTCOME_EXCUSED, TP_OUTCOME_SILENT,
    TP_WHY_EXPLORE, TP_WHY_FEW, TP_WHY_GREEDY, TP_WHY_NO_ARM, TP_WHY_NO_EVIDENCE, TP_WHY_UNTRIED,
    tp_learner, tp_learner_arm, tp_learner_config,
};
use tcpilot_core::learner;

const NO_ARM: u8 = TP_NO_ARM as u8;
const DRAWS: usize = 200_000;

/// The share of each arm in DRAWS draws, and the share of this reason.
fn draw(cfg: &tp_learner_config, memory: &tp_learner, eligible: u32, why: u32) -> ([f64; 8], f64) {
    let mut memory = *memory;
    let (mut arms, mut reason) = ([0.0; 8], 0.0);
    for random in randoms(DRAWS) {
        let (arm, for_why) = learner::choose(cfg, &mut memory, eligible, random);
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
fn always(
    cfg: &tp_learner_config,
    memory: &tp_learner,
    eligible: u32,
    why: u32,
    among: &[u8],
) -> bool {
    let mut memory = *memory;
    randoms(2000).all(|random| {
        let (arm, for_why) = learner::choose(cfg, &mut memory, eligible, random);
        u32::from(for_why) == why && among.contains(&arm)
    })
}

#[test]
fn one_in_twenty_explores_evenly() {
    let (arms, explored) = draw(
        &settings(),
        &memory_with_costs(&[5, 1, 9, 7]),
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
    let cfg = tp_learner_config {
        epsilon: 0,
        ..settings()
    };
    assert!(always(
        &cfg,
        &memory_with_costs(&[5, 1, 9, 7]),
        0b1111,
        TP_WHY_GREEDY,
        &[1]
    ));
}

#[test]
fn ties_are_drawn_evenly() {
    let cfg = tp_learner_config {
        epsilon: 0,
        ..settings()
    };
    let (arms, greedy) = draw(
        &cfg,
        &memory_with_costs(&[1, 5, 1, 1]),
        0b1111,
        TP_WHY_GREEDY,
    );
    assert!((greedy - 1.0).abs() < 1e-6);
    for tied in [0, 2, 3] {
        assert!((arms[tied] - 1.0 / 3.0).abs() < 0.01, "{arms:?}");
    }
}

#[test]
fn few_instances_leave_the_kernels_default() {
    let mut memory = memory_with_costs(&[5, 1, 9, 7]);
    memory.instances = 2;
    assert!(always(&settings(), &memory, 0b1111, TP_WHY_FEW, &[NO_ARM]));
    memory.instances = 3;
    assert!(!always(&settings(), &memory, 0b1111, TP_WHY_FEW, &[NO_ARM]));
}

#[test]
fn untried_arms_come_before_the_cheapest() {
    let cfg = tp_learner_config {
        epsilon: 0,
        ..settings()
    };
    let mut memory = memory_with_costs(&[0, 0, 0, 0]);
    memory.arms[2].samples = 0;
    assert!(always(&cfg, &memory, 0b1111, TP_WHY_UNTRIED, &[2]));
}

#[test]
fn an_arm_that_never_pays_stops_being_hopeful() {
    let cfg = tp_learner_config {
        epsilon: 0,
        ..settings()
    };
    let mut memory = memory_with_costs(&[3, 4, 0, 7]);
    memory.arms[2] = tp_learner_arm {
        unpaid: 2,
        ..Default::default()
    };
    assert!(always(&cfg, &memory, 0b1111, TP_WHY_UNTRIED, &[2]));
    memory.arms[2].unpaid = 3;
    assert!(always(&cfg, &memory, 0b1111, TP_WHY_GREEDY, &[0]));
}

#[test]
fn a_perfect_cost_wins() {
    let cfg = tp_learner_config {
        epsilon: 0,
        ..settings()
    };
    assert!(always(
        &cfg,
        &memory_with_costs(&[1, 0, 1, 1]),
        0b1111,
        TP_WHY_GREEDY,
        &[1]
    ));
}

#[test]
fn the_dearest_possible_arm_can_still_be_the_cheapest() {
    let cfg = tp_learner_config {
        epsilon: 0,
        ..settings()
    };
    assert!(always(
        &cfg,
        &memory_with_costs(&[u64::MAX]),
        0b1,
        TP_WHY_GREEDY,
        &[0]
    ));
}

#[test]
fn without_any_evidence_the_default_stays() {
    let cfg = tp_learner_config {
        epsilon: 0,
        ..settings()
    };
    let mut memory = tp_learner {
        instances: 50,
        ..Default::default()
    };
    memory.arms.iter_mut().for_each(|arm| arm.unpaid = 3);
    assert!(always(&cfg, &memory, 0b1111, TP_WHY_NO_EVIDENCE, &[NO_ARM]));
}

#[test]
fn no_eligible_arm_is_no_arm() {
    assert!(always(
        &settings(),
        &memory_with_costs(&[5, 1]),
        0,
        TP_WHY_NO_ARM,
        &[NO_ARM]
    ));
}

#[test]
fn an_ineligible_arm_is_never_drawn_however_cheap() {
    let (arms, _) = draw(
        &settings(),
        &memory_with_costs(&[5, 0, 9, 7]),
        0b1101,
        TP_WHY_GREEDY,
    );
    assert!(arms[1] == 0.0 && arms[0] > 0.9, "{arms:?}");
}

#[test]
fn an_unknown_kind_chooses_nothing_and_is_never_ready() {
    for kind in [TP_LEARNER_NONE, 99] {
        let cfg = tp_learner_config { kind, ..settings() };
        let mut memory = memory_with_costs(&[5, 1]);
        assert!(!learner::is_ready(&cfg, &memory));
        assert!(always(&cfg, &memory, 0b11, TP_WHY_NO_ARM, &[NO_ARM]));
        learner::chosen(&cfg, &mut memory, 0, TP_WHY_GREEDY);
        assert_eq!(memory.arms[0].chosen, 0);
        assert!(!learner::charge(&cfg, &mut memory, 0, 7, TP_OUTCOME_COST));
        assert_eq!(memory.arms[0].cost, 5);
        assert!(
            learner::shares(&cfg, &memory, 0b11)
                .iter()
                .all(|share| *share == 0.0)
        );
    }
}

#[test]
fn a_choice_remembered_for_other_eligible_arms_is_not_used() {
    let cfg = tp_learner_config {
        epsilon: 0,
        ..settings()
    };
    let mut memory = memory_with_costs(&[5, 1, 9, 7]);
    assert_eq!(learner::choose(&cfg, &mut memory, 0b1111, 1).0, 1);
    assert_eq!(learner::choose(&cfg, &mut memory, 0b1101, 1).0, 0);
    assert_eq!(learner::choose(&cfg, &mut memory, 0b1111, 1).0, 1);
}

#[test]
fn a_charge_is_noticed_by_the_next_choice() {
    let cfg = tp_learner_config {
        epsilon: 0,
        ..settings()
    };
    let mut memory = memory_with_costs(&[5, 1]);
    assert_eq!(learner::choose(&cfg, &mut memory, 0b11, 1).0, 1);
    assert!(learner::charge(&cfg, &mut memory, 1, 1000, TP_OUTCOME_COST));
    assert_eq!(learner::choose(&cfg, &mut memory, 0b11, 1).0, 0);
}

#[test]
fn only_silence_that_is_its_own_makes_an_arm_less_hopeful() {
    let mut memory = memory_with_costs(&[5, 1]);
    for _ in 0..2 {
        learner::chosen(&settings(), &mut memory, 1, TP_WHY_UNTRIED);
    }
    let unpaid = |memory: &tp_learner| memory.arms[1].unpaid;
    assert_eq!(unpaid(&memory), 2);
    assert!(!learner::charge(
        &settings(),
        &mut memory,
        1,
        0,
        TP_OUTCOME_SILENT
    ));
    assert_eq!(unpaid(&memory), 2);
    for expected in [1, 0, 0] {
        assert!(!learner::charge(
            &settings(),
            &mut memory,
            1,
            0,
            TP_OUTCOME_EXCUSED
        ));
        assert_eq!(unpaid(&memory), expected);
    }
    assert_eq!((memory.arms[1].samples, memory.instances), (1, 14));
}

#[test]
fn an_arm_that_was_excused_is_tried_again() {
    let cfg = tp_learner_config {
        epsilon: 0,
        ..settings()
    };
    let mut memory = memory_with_costs(&[5]);
    memory.arms[1].unpaid = 3;
    assert_eq!(learner::choose(&cfg, &mut memory, 0b11, 1).0, 0);
    assert!(!learner::charge(
        &cfg,
        &mut memory,
        1,
        0,
        TP_OUTCOME_EXCUSED
    ));
    let untried = (1, TP_WHY_UNTRIED as u8);
    assert_eq!(learner::choose(&cfg, &mut memory, 0b11, 1), untried);
}

#[test]
fn a_connection_without_an_arm_of_ours_counts_for_the_path_only() {
    let mut memory = memory_with_costs(&[5, 1]);
    assert!(!learner::charge(
        &settings(),
        &mut memory,
        TP_NO_ARM,
        0,
        TP_OUTCOME_EXCUSED
    ));
    learner::chosen(&settings(), &mut memory, TP_NO_ARM, TP_WHY_GREEDY);
    let expected = tp_learner {
        instances: 11,
        ..memory_with_costs(&[5, 1])
    };
    assert_eq!(memory, expected);
}

fn any_arm() -> impl Strategy<Value = tp_learner_arm> {
    (0u64..4, 0u32..3, 0u32..5).prop_map(|(cost, samples, unpaid)| tp_learner_arm {
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
        let cfg = tp_learner_config { epsilon, ..settings() };
        let memory = tp_learner { instances, arms, ..Default::default() };
        let shown = learner::shares(&cfg, &memory, eligible);
        let (drawn, _) = draw(&cfg, &memory, eligible.into(), TP_WHY_EXPLORE);
        for (shown, drawn) in shown.iter().zip(drawn) {
            prop_assert!((shown - drawn).abs() < 0.008, "{shown} {drawn}");
        }
    }
}

/// Two CPUs count the same last one down, again and again: that must not make the count wrap.
#[test]
fn counting_down_never_goes_below_nothing() {
    let count = AtomicU32::new(0);
    std::thread::scope(|scope| {
        let take = || {
            for _ in 0..100_000_000 {
                // SAFETY: the C side uses the word by atomic operations only.
                unsafe { learner::decrement(count.as_ptr()) };
            }
        };
        let takers = [scope.spawn(take), scope.spawn(take)];
        while takers.iter().any(|taker| !taker.is_finished()) {
            let _ = count.compare_exchange(0, 1, Ordering::Relaxed, Ordering::Relaxed);
        }
    });
    assert!(count.load(Ordering::Relaxed) <= 1, "{count:?}");
}
