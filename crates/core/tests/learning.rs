//! epsilon-greedy's costs: what the end of a connection teaches.

mod common;

use common::{S, SCALE, end_of, path_with_costs, settings};
use proptest::prelude::*;
use tcpilot_abi::{TP_NO_ARM, tp_costs};
use tcpilot_core::{
    learner::{self, End, cost, update},
    window_max, window_min,
};

/// The bytes per second at which `tp_delivery_rate` saturates.
const RATE_MAX: u64 = u64::MAX / SCALE;

const NO_ARM: u8 = TP_NO_ARM as u8;

/// Says whether the arm was charged.
fn ends(path: &mut tp_costs, end: End) -> bool {
    learner::end(&settings(), path, &end)
}

fn failing(end: End) -> End {
    End { failed: 1, ..end }
}

fn excused(end: End) -> End {
    End { excused: 1, ..end }
}

fn small(end: End) -> End {
    End {
        is_judged: 0,
        ..end
    }
}

/// The formula of `bpf/core/learner/cost.h`, in floating point.
fn reference_cost(min_rtt: f64, path_min_rtt: f64, rate: f64, path_rate: f64) -> f64 {
    let slower = if path_min_rtt > 0.0 {
        (min_rtt - path_min_rtt) / path_min_rtt
    } else {
        0.0
    };
    let less = if path_rate > 0.0 {
        (path_rate - rate) / path_rate
    } else {
        0.0
    };
    (slower.max(0.0) + less.max(0.0)) * SCALE as f64
}

#[test]
fn the_optimum_costs_nothing() {
    assert_eq!(cost(10_000, 10_000, 125_000, 125_000), 0);
}

#[test]
fn twice_the_rtt_costs_a_whole_rate() {
    assert_eq!(cost(20_000, 10_000, 125_000, 125_000), SCALE);
    assert_eq!(cost(10_000, 10_000, 0, 125_000), SCALE);
}

#[test]
fn a_path_without_measures_costs_nothing() {
    assert_eq!(cost(20_000, 0, 1000, 0), 0);
}

#[test]
fn a_connection_better_than_its_path_costs_nothing() {
    assert_eq!(cost(5, 10, 2000, 1000), 0);
}

#[test]
fn the_first_sample_is_taken_whole() {
    assert_eq!(update(0, 700_000, 0, 2), 700_000);
    assert_eq!(update(123, 700_000, 0, 2), 700_000);
}

#[test]
fn later_samples_move_the_cost_by_a_quarter() {
    assert_eq!(update(1000, 2000, 1, 2), 1250);
    assert_eq!(update(2000, 1000, 7, 2), 1750);
}

#[test]
fn a_perfect_cost_is_not_unseen() {
    assert_eq!(update(0, 1000, 1, 2), 250);
}

#[test]
fn a_charge_counts_and_gives_hope_back() {
    let mut path = tp_costs::default();
    path.arms[2].unpaid = 5;
    assert!(ends(&mut path, end_of(2, 1000, 50, S)));
    let arm = &path.arms[2];
    assert_eq!((arm.samples, arm.chosen, arm.unpaid), (1, 1, 0));
    assert_eq!((path.arms[0].samples, path.instances), (0, 1));
    assert_eq!((path.updated_ns, path.eligible), (S, 0b1111));
}

#[test]
fn a_best_rate_excuses_slowness_but_no_failure() {
    let mut path = tp_costs::default();
    ends(&mut path, end_of(0, 1000, 50, S));
    ends(&mut path, end_of(0, 10, 50, 2 * S));
    assert_eq!(path.arms[0].cost, 0);
    ends(&mut path, failing(end_of(0, 10, 50, 3 * S)));
    assert_eq!(path.arms[0].cost, 990_000 / 4);
}

#[test]
fn an_application_limited_arm_is_not_charged() {
    let mut path = tp_costs::default();
    ends(&mut path, end_of(0, 1000, 50, S));
    path.arms[1].unpaid = 1;
    assert!(!ends(&mut path, end_of(1, 0, 50, 2 * S)));
    assert_eq!((path.arms[1].samples, path.arms[1].unpaid), (0, 2));
    assert_eq!(window_min(&path.arms[1].min_rtt_us), 50);
    // Once the arm has a rate, that counts for it.
    assert!(ends(&mut path, end_of(1, 500, 50, 3 * S)));
    assert!(ends(&mut path, end_of(1, 0, 50, 4 * S)));
    assert_eq!(path.arms[1].cost, SCALE / 2);
}

#[test]
fn without_any_rate_arms_compare_by_rtt() {
    let mut path = tp_costs::default();
    ends(&mut path, end_of(0, 0, 50, S));
    ends(&mut path, end_of(1, 0, 75, S));
    assert_eq!((path.arms[0].cost, path.arms[1].cost), (0, SCALE / 2));
}

#[test]
fn a_failure_is_never_perfect() {
    let mut path = tp_costs::default();
    assert!(ends(&mut path, failing(end_of(0, 0, 50, S))));
    assert_eq!(path.arms[0].cost, SCALE);
}

#[test]
fn only_its_own_silence_costs_an_arm_hope() {
    let mut path = path_with_costs(&[5, 1]);
    path.max_delivery_rate.current = 1000;
    let unpaid = |path: &tp_costs| path.arms[1].unpaid;
    assert!(!ends(&mut path, end_of(1, 0, 50, S)), "silent");
    assert_eq!(unpaid(&path), 1);
    assert!(!ends(&mut path, small(end_of(1, 0, 50, S))), "small");
    assert_eq!(unpaid(&path), 2);
    assert!(!ends(&mut path, excused(end_of(1, 900, 50, S))));
    assert_eq!(unpaid(&path), 2);
    let arm = &path.arms[1];
    assert_eq!((arm.samples, arm.chosen, path.instances), (1, 3, 12));
}

#[test]
fn an_excused_rate_measures_neither_path_nor_arm() {
    let mut path = tp_costs::default();
    ends(&mut path, excused(end_of(1, 9000, 50, S)));
    assert_eq!(window_max(&path.max_delivery_rate), 0);
    assert_eq!(window_max(&path.arms[1].max_delivery_rate), 0);
    assert_eq!(window_min(&path.min_rtt_us), 50);
}

#[test]
fn without_an_arm_only_the_path_counts() {
    let mut path = path_with_costs(&[5, 1]);
    let before = path.arms;
    assert!(!ends(&mut path, failing(end_of(NO_ARM, 700, 50, S))));
    assert_eq!((path.instances, path.arms), (11, before));
    assert_eq!(window_max(&path.max_delivery_rate), 700);
}

#[test]
fn a_small_connection_is_not_judged() {
    let mut path = tp_costs::default();
    assert!(!ends(&mut path, small(end_of(1, 700, 50, S))));
    assert_eq!((path.instances, path.arms[1].chosen), (0, 1));
    assert_eq!(window_max(&path.max_delivery_rate), 0);
    assert_eq!(window_min(&path.min_rtt_us), 50);
}

#[test]
fn a_connection_without_round_trip_is_not_judged() {
    let mut path = tp_costs::default();
    ends(&mut path, end_of(0, 1000, 50, S));
    assert!(!ends(&mut path, failing(end_of(0, 0, 0, 2 * S))));
    assert_eq!((path.instances, path.arms[0].samples), (1, 1));
    assert_eq!(window_min(&path.min_rtt_us), 50);
}

#[test]
fn connections_of_the_favourite_are_counted() {
    let mut path = tp_costs::default();
    for favourite in [1, 0, 1] {
        let end = End {
            favourite,
            ..end_of(2, 1000, 50, S)
        };
        ends(&mut path, end);
    }
    assert_eq!((path.arms[2].greedy, path.arms[2].chosen), (2, 3));
}

#[test]
fn a_measure_before_the_end_counts_once() {
    let mut path = tp_costs::default();
    learner::measure(&mut path, &end_of(0, 1000, 50, S));
    assert_eq!((path.instances, path.arms[0].chosen), (0, 0));
    ends(&mut path, end_of(0, 0, 60, S));
    assert_eq!((path.instances, path.arms[0].cost), (1, SCALE / 5));
    assert_eq!(window_max(&path.max_delivery_rate), 1000);
}

#[test]
fn a_best_rate_is_forgotten_after_two_windows() {
    let mut path = tp_costs::default();
    ends(&mut path, end_of(0, 1_000_000, 50, 10 * S));
    for (now_s, rate, rtt) in [(310, 1_000_000, 50), (610, 1000, 70)] {
        ends(&mut path, end_of(0, 1000, 70, now_s * S));
        let arm = &path.arms[0];
        assert_eq!(window_max(&path.max_delivery_rate), rate);
        assert_eq!(window_max(&arm.max_delivery_rate), rate);
        assert_eq!(window_min(&path.min_rtt_us), rtt);
        assert_eq!(window_min(&arm.min_rtt_us), rtt);
    }
}

/// A CPU reads the clock, and others move the windows on before it gets the path.
#[test]
fn a_late_sample_forgets_nothing() {
    let mut path = tp_costs::default();
    ends(&mut path, end_of(0, 9000, 50, 599 * S));
    ends(&mut path, end_of(0, 5000, 70, 600 * S));
    ends(&mut path, end_of(0, 100, 90, 599 * S));
    let arm = &path.arms[0];
    for (rate, rtt) in [
        (&path.max_delivery_rate, &path.min_rtt_us),
        (&arm.max_delivery_rate, &arm.min_rtt_us),
    ] {
        assert_eq!((rate.current, rate.previous), (5000, 9000));
        assert_eq!((rtt.current, rtt.previous), (70, 50));
    }
}

proptest! {
    #[test]
    fn cost_is_the_formula(
        path_rtt in 1u32..10_000_000, more_rtt in 0u32..10_000_000,
        path_rate in 1u64..1_000_000_000_000, share in 0.0f64..=1.0,
    ) {
        let rate = (path_rate as f64 * share) as u64;
        let cost = cost(path_rtt + more_rtt, path_rtt, rate, path_rate);
        let reference = reference_cost(
            f64::from(path_rtt + more_rtt), f64::from(path_rtt), rate as f64, path_rate as f64,
        );
        // Two integer divisions round down.
        prop_assert!((cost as f64 - reference).abs() <= 2.0 + reference * 1e-9);
    }

    #[test]
    fn cost_rises_when_min_rtt_rises(
        path_rtt in 1u32..1_000_000, rtt in 0u32..10_000_000, more in 1u32..1_000_000,
        rate: u32, path_rate: u32,
    ) {
        let of = |rtt| cost(rtt, path_rtt, rate.into(), path_rate.into());
        prop_assert!(of(rtt) <= of(rtt + more));
        // A whole path RTT more must show.
        prop_assert!(rtt < path_rtt || of(rtt + path_rtt) >= of(rtt) + SCALE);
    }

    #[test]
    fn cost_falls_when_the_rate_rises(path_rate in 1u64..1 << 40, a: u64, b: u64) {
        let (low, high) = (a.min(b) % path_rate, a.max(b));
        prop_assert!(cost(9, 9, high, path_rate) <= cost(9, 9, low, path_rate));
    }

    #[test]
    fn the_highest_rates_have_an_exact_cost(path_rate in RATE_MAX / 2..=RATE_MAX, rate in 0..=RATE_MAX) {
        let less = u128::from(path_rate.saturating_sub(rate));
        let reference = less * u128::from(SCALE) / u128::from(path_rate);
        prop_assert_eq!(u128::from(cost(1, 1, rate, path_rate)), reference);
    }

    #[test]
    fn an_update_stays_between_cost_and_sample(cost: u64, sample: u64, samples in 1u32.., shift in 0u32..64) {
        let new = update(cost, sample, samples, shift);
        prop_assert!(new >= cost.min(sample) && new <= cost.max(sample));
    }

    /// Samples of any size, arms and times in any order, the clock going back too: no cost may come out
    /// of an underflow.
    #[test]
    fn no_interleaving_makes_a_cost_underflow(
        steps in prop::collection::vec(
            (0u8..5, 0u64..1 << 44, 1u32..10_000_000, 0u64..4000, any::<[bool; 4]>()), 1..80,
        ),
    ) {
        let mut path = tp_costs::default();
        for (arm, rate, rtt, at_s, [failed, excused, is_judged, before]) in steps {
            let end = End {
                arm: if arm < 4 { arm } else { NO_ARM },
                failed: failed.into(),
                excused: excused.into(),
                is_judged: is_judged.into(),
                ..end_of(0, rate, rtt, at_s * S)
            };
            if before {
                learner::measure(&mut path, &end);
            }
            let was = path;
            let charged = ends(&mut path, end);
            prop_assert_eq!(path.instances, was.instances + u32::from(is_judged));
            for (number, (arm, was)) in (0..).zip(path.arms.iter().zip(&was.arms)) {
                // An RTT of 10 s where 1 us was the least, and no rate.
                prop_assert!(arm.cost <= 10_000_000 * SCALE + SCALE);
                prop_assert_eq!(arm.samples, was.samples + u32::from(charged && number == end.arm));
                prop_assert!(arm.unpaid <= arm.chosen);
            }
        }
    }
}
