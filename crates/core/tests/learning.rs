//! Learning from a finished connection: measures, cost, update, windows, the loss rule.

mod common;

use common::{S, SCALE, config, end_of, settings};
use proptest::prelude::*;
use tcpilot_abi::{TP_NO_ARM, tp_arm, tp_costs, tp_path, tp_window32, tp_window64};
use tcpilot_core::learner::{self, End};
use tcpilot_core::{self as native, Sample};

/// `tp_delivery_rate` saturates at so many bytes per second.
const RATE_MAX: u64 = u64::MAX / SCALE;

/// A connection of the arm ends at this time; says whether the arm was charged.
fn close(path: &mut tp_costs, end: End, now_s: u64) -> bool {
    let end = End {
        now_ns: now_s * S,
        ..end
    };
    learner::end(&settings(), path, &end)
}

fn sample(delivery_rate: u64, min_rtt_us: u32) -> Sample {
    Sample {
        delivery_rate,
        min_rtt_us,
        srtt_us: min_rtt_us,
        ..Default::default()
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
    assert_eq!(learner::cost(10_000, 10_000, 125_000, 125_000), 0);
}

#[test]
fn double_rtt_costs_as_much_as_zero_rate() {
    assert_eq!(learner::cost(20_000, 10_000, 125_000, 125_000), SCALE);
    assert_eq!(learner::cost(10_000, 10_000, 0, 125_000), SCALE);
}

#[test]
fn a_path_without_measures_costs_nothing() {
    assert_eq!(learner::cost(20_000, 0, 1000, 0), 0);
}

#[test]
fn a_connection_better_than_its_path_costs_nothing() {
    assert_eq!(learner::cost(5, 10, 2000, 1000), 0);
}

#[test]
fn the_first_sample_is_taken_whole() {
    assert_eq!(learner::update(0, 700_000, 0, 2), 700_000);
    assert_eq!(learner::update(123, 700_000, 0, 2), 700_000);
}

#[test]
fn later_samples_move_the_cost_by_a_quarter() {
    assert_eq!(learner::update(1000, 2000, 1, 2), 1250);
    assert_eq!(learner::update(2000, 1000, 7, 2), 1750);
}

#[test]
fn a_perfect_cost_is_not_unseen() {
    assert_eq!(learner::update(0, 1000, 1, 2), 250);
}

#[test]
fn slow_links_keep_their_rate() {
    // 1 Mbit/s: 10 packets of 1250 bytes in 100 ms.
    assert_eq!(native::delivery_rate(10, 100_000, 1250), 125_000);
    // One packet of 500 bytes in a minute.
    assert_eq!(native::delivery_rate(1, 60_000_000, 500), 8);
}

#[test]
fn an_interval_of_nothing_is_no_rate() {
    assert_eq!(native::delivery_rate(10, 0, 1250), 0);
}

#[test]
fn connection_rate_is_mean_over_busy_time() {
    // 1 MB in 99 ticks of 4 ms, counted as 100: 2.5 MB/s.
    assert_eq!(native::busy_rate(1_000_000, 99, 250), 2_500_000);
    assert_eq!(native::busy_rate(1_000_000, 99, 1000), 10_000_000);
}

#[test]
fn connection_under_five_ticks_has_no_mean_rate() {
    assert_eq!(native::busy_rate(1_000_000, 4, 250), 0);
    assert_ne!(native::busy_rate(1_000_000, 5, 250), 0);
    assert_eq!(native::busy_rate(1_000_000, 99, 0), 0, "tick not known");
}

#[test]
fn an_unset_rtt_is_no_sample() {
    assert_eq!(native::valid_rtt_us(u32::MAX), 0);
    assert_eq!(native::valid_rtt_us(u32::MAX - 1), u32::MAX - 1);
    assert_eq!(native::valid_rtt_us(0), 0);
}

#[test]
fn a_connection_without_rtt_leaves_the_paths_rtt() {
    let (cfg, mut path, mut costs) = (config(), tp_path::default(), tp_costs::default());
    for (rtt, now_s) in [(50, 1), (0, 2)] {
        native::learn_path(&cfg, &mut path, &sample(1000, rtt), now_s * S);
        close(&mut costs, end_of(0, 1000, rtt), now_s);
    }
    assert_eq!(native::window_min(&path.min_rtt_us), 50);
    assert_eq!(path.srtt_us, 50);
    assert_eq!(native::window_min(&costs.min_rtt_us), 50);
}

/// The three places with a rate and an RTT: a path of the tunings, epsilon-greedy's, and an arm of it.
#[derive(Default)]
struct Measures {
    path: tp_path,
    costs: tp_costs,
}

impl Measures {
    fn take(&mut self, rate: u64, rtt: u32, now_s: u64) {
        let sample = Sample {
            ssthresh_packets: 40,
            sent_packets: 100,
            ..sample(rate, rtt)
        };
        native::learn_path(&config(), &mut self.path, &sample, now_s * S);
        close(&mut self.costs, end_of(0, rate, rtt), now_s);
    }

    fn windows(&self) -> [(tp_window64, tp_window32); 3] {
        let (path, costs, arm) = (&self.path, &self.costs, &self.costs.arms[0]);
        [
            (path.max_delivery_rate, path.min_rtt_us),
            (costs.max_delivery_rate, costs.min_rtt_us),
            (arm.max_delivery_rate, arm.min_rtt_us),
        ]
    }

    fn extremes(&self) -> [(u64, u32); 3] {
        self.windows()
            .map(|(rate, rtt)| (native::window_max(&rate), native::window_min(&rtt)))
    }
}

#[test]
fn a_best_rate_is_forgotten_after_two_windows() {
    let mut measures = Measures::default();
    measures.take(1_000_000, 50, 10);
    measures.take(1000, 70, 310);
    assert_eq!(measures.extremes(), [(1_000_000, 50); 3]);
    measures.take(1000, 70, 610);
    assert_eq!(measures.extremes(), [(1000, 70); 3]);
}

#[test]
fn a_silent_window_forgets_both_halves() {
    let mut measures = Measures::default();
    measures.take(1_000_000, 50, 10);
    measures.take(1000, 70, 610);
    assert_eq!(measures.extremes(), [(1000, 70); 3]);
}

#[test]
fn ssthresh_has_a_shorter_window_and_a_floor() {
    let (cfg, mut path) = (config(), tp_path::default());
    let mut with = |ssthresh_packets, now_s| {
        let s = Sample {
            ssthresh_packets,
            ..sample(1000, 50)
        };
        native::learn_path(&cfg, &mut path, &s, now_s * S);
        native::window_min(&path.ssthresh_packets).max(path.ssthresh_packets.current)
    };
    assert_eq!(with(9, 1), 0);
    assert_eq!(with(10, 2), 10);
    assert_eq!(with(80, 3), 80);
    assert_eq!(with(20, 100), 20);
}

#[test]
fn losses_are_summed_over_the_window() {
    let (cfg, mut path) = (config(), tp_path::default());
    let s = Sample {
        sent_packets: 100,
        lost_packets: 3,
        ..sample(1000, 50)
    };
    native::learn_path(&cfg, &mut path, &s, S);
    native::learn_path(&cfg, &mut path, &s, 2 * S);
    assert_eq!(
        (path.sent_packets.current, path.lost_packets.current),
        (200, 6)
    );
}

#[test]
fn a_charged_arm_is_counted_and_hopeful_again() {
    let mut path = tp_costs::default();
    path.arms[2].unpaid = 5;
    assert!(close(&mut path, end_of(2, 1000, 50), 1));
    assert_eq!((path.arms[2].samples, path.arms[2].unpaid), (1, 0));
    assert_eq!(path.arms[0], tp_arm::default());
    assert_eq!((path.instances, path.updated_ns), (1, S));
}

#[test]
fn a_best_rate_excuses_slowness_but_no_failure() {
    let mut path = tp_costs::default();
    close(&mut path, end_of(0, 1000, 50), 1);
    close(&mut path, end_of(0, 10, 50), 2);
    assert_eq!(path.arms[0].cost, 0);
    let failed = End {
        failed: 1,
        ..end_of(0, 10, 50)
    };
    assert!(close(&mut path, failed, 3));
    assert_eq!(path.arms[0].cost, 990_000 / 4);
}

#[test]
fn an_application_limited_arm_is_not_charged() {
    let mut path = tp_costs::default();
    close(&mut path, end_of(0, 1000, 50), 1);
    assert!(!close(&mut path, end_of(1, 0, 50), 2));
    assert_eq!(path.arms[1].samples, 0);
    assert_eq!(native::window_min(&path.arms[1].min_rtt_us), 50);
    // Once the arm has a rate of its own, it counts.
    assert!(close(&mut path, end_of(1, 500, 50), 3));
    assert!(close(&mut path, end_of(1, 0, 50), 4));
    assert_eq!(path.arms[1].cost, SCALE / 2);
}

#[test]
fn without_any_rate_arms_are_compared_by_rtt() {
    let mut path = tp_costs::default();
    close(&mut path, end_of(0, 0, 50), 1);
    close(&mut path, end_of(1, 0, 75), 1);
    assert_eq!((path.arms[0].cost, path.arms[1].cost), (0, SCALE / 2));
}

#[test]
fn a_failure_is_never_perfect() {
    let mut path = tp_costs::default();
    let failed = End {
        failed: 1,
        ..end_of(0, 0, 50)
    };
    assert!(close(&mut path, failed, 1));
    assert_eq!(path.arms[0].cost, SCALE);
}

#[test]
fn an_excused_rate_counts_for_nobody() {
    let mut path = tp_costs::default();
    let excused = End {
        excused: 1,
        ..end_of(0, 1000, 50)
    };
    assert!(!close(&mut path, excused, 1));
    assert_eq!(native::window_max(&path.max_delivery_rate), 0);
    assert_eq!(native::window_max(&path.arms[0].max_delivery_rate), 0);
    assert_eq!(native::window_min(&path.arms[0].min_rtt_us), 0);
    assert_eq!(native::window_min(&path.min_rtt_us), 50);
}

#[test]
fn a_small_connection_shows_the_paths_rtt_alone() {
    let mut path = tp_costs::default();
    let small = End {
        is_judged: 0,
        ..end_of(0, 1000, 50)
    };
    assert!(!close(&mut path, small, 1));
    assert_eq!(native::window_min(&path.min_rtt_us), 50);
    assert_eq!(native::window_max(&path.max_delivery_rate), 0);
    assert_eq!(native::window_min(&path.arms[0].min_rtt_us), 0);
    assert_eq!((path.instances, path.arms[0].chosen), (0, 1));
}

#[test]
fn an_unanswered_connection_is_no_instance() {
    let mut path = tp_costs::default();
    let unanswered = End {
        failed: 1,
        ..end_of(0, 0, 0)
    };
    assert!(!close(&mut path, unanswered, 1));
    assert_eq!((path.instances, path.arms[0].samples), (0, 0));
}

/// A CPU reads the clock, and others move the windows on before it gets the path.
#[test]
fn late_sample_keeps_both_window_halves() {
    let mut measures = Measures::default();
    measures.take(9000, 50, 599);
    measures.take(5000, 70, 600);
    measures.take(100, 90, 599);
    for (rate, rtt) in measures.windows() {
        assert_eq!((rate.current, rate.previous), (5000, 9000));
        assert_eq!((rtt.current, rtt.previous), (70, 50));
    }
    let sent = &measures.path.sent_packets;
    assert_eq!((sent.current, sent.previous), (200, 100));
    assert_eq!(measures.path.ssthresh_packets.previous, 40);
    // The measures start again if the clock is far behind.
    measures.take(7, 80, 1);
    assert_eq!(measures.extremes(), [(7, 80); 3]);
}

#[test]
fn the_loss_rule_never_fires_under_64_segments() {
    for sent in 0..64 {
        assert!(!native::loss_is_heavy(sent, sent, 64, 6));
    }
}

#[test]
fn the_loss_rule_fires_above_one_in_64() {
    assert!(!native::loss_is_heavy(1, 64, 64, 6));
    assert!(native::loss_is_heavy(2, 64, 64, 6));
    assert!(!native::loss_is_heavy(100, 6400, 64, 6));
    assert!(native::loss_is_heavy(101, 6400, 64, 6));
    assert!(native::loss_is_heavy(u32::MAX, u32::MAX, 64, 6));
}

/// A connection of any arm or of none, and whether it ends or is only measured.
fn any_end() -> impl Strategy<Value = End> {
    let arm = prop_oneof![0u8..4, Just(TP_NO_ARM as u8)];
    let measures = (0u64..1 << 44, 0u32..10_000_000, 0u64..4000);
    let kind = (any::<bool>(), any::<bool>(), any::<bool>());
    (arm, measures, kind).prop_map(|(arm, (rate, rtt, at_s), (judged, failed, excused))| End {
        now_ns: at_s * S,
        is_judged: judged.into(),
        failed: failed.into(),
        excused: excused.into(),
        weight: if judged { 1 } else { 16 },
        ..end_of(arm, rate, rtt)
    })
}

proptest! {
    #[test]
    fn cost_is_the_formula(
        path_rtt in 1u32..10_000_000, more_rtt in 0u32..10_000_000,
        path_rate in 1u64..1_000_000_000_000, share in 0.0f64..=1.0,
    ) {
        let rate = (path_rate as f64 * share) as u64;
        let cost = learner::cost(path_rtt + more_rtt, path_rtt, rate, path_rate);
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
        let cost = |rtt| learner::cost(rtt, path_rtt, rate.into(), path_rate.into());
        prop_assert!(cost(rtt) <= cost(rtt + more));
        // A whole path RTT more must show.
        prop_assert!(rtt < path_rtt || cost(rtt + path_rtt) >= cost(rtt) + SCALE);
    }

    #[test]
    fn cost_falls_when_the_rate_rises(path_rate in 1u64..1 << 40, a: u64, b: u64) {
        let (low, high) = (a.min(b) % path_rate, a.max(b));
        prop_assert!(learner::cost(9, 9, high, path_rate) <= learner::cost(9, 9, low, path_rate));
    }

    #[test]
    fn rates_are_packets_times_mss_over_time(packets in 1u32..=1 << 20, us in 1u32..60_000_000, mss in 1u32..=65535) {
        let reference = u128::from(packets) * u128::from(mss) * 1_000_000 / u128::from(us);
        prop_assert_eq!(u128::from(native::delivery_rate(packets, us, mss)), reference);
    }

    #[test]
    fn impossible_rate_samples_saturate(packets: u32, us in 1u32..1000, mss: u32) {
        let reference = u128::from(packets) * u128::from(mss) * 1_000_000 / u128::from(us);
        let rate = u128::from(native::delivery_rate(packets, us, mss));
        let bytes = u128::from(packets) * u128::from(mss);
        if bytes <= u128::from(RATE_MAX) {
            prop_assert_eq!(rate, reference.min(u128::from(RATE_MAX)));
        } else {
            prop_assert_eq!(rate, u128::from(RATE_MAX));
        }
    }

    #[test]
    fn the_highest_rates_have_an_exact_cost(path_rate in RATE_MAX / 2..=RATE_MAX, rate in 0..=RATE_MAX) {
        let less = u128::from(path_rate.saturating_sub(rate));
        let reference = less * u128::from(SCALE) / u128::from(path_rate);
        prop_assert_eq!(u128::from(learner::cost(1, 1, rate, path_rate)), reference);
    }

    #[test]
    fn update_lies_between_old_cost_and_sample(cost: u64, sample: u64, samples in 1u32.., shift in 0u32..64) {
        let new = learner::update(cost, sample, samples, shift);
        prop_assert!(new >= cost.min(sample) && new <= cost.max(sample));
    }

    #[test]
    fn the_loss_rule_is_the_ratio(retransmitted: u32, sent in 64u32.., shift in 1u32..16) {
        let reference = f64::from(retransmitted) * f64::from(1u32 << shift) > f64::from(sent);
        prop_assert_eq!(native::loss_is_heavy(retransmitted, sent, 64, shift), reference);
    }

    /// Ends of any kind and size, in any order of arms and times, the clock going back too: no cost and no
    /// count may come out of an underflow.
    #[test]
    fn no_interleaving_makes_a_cost_underflow(steps in prop::collection::vec(any_end(), 1..80)) {
        let mut path = tp_costs::default();
        for end in steps {
            learner::end(&settings(), &mut path, &end);
            for arm in &path.arms {
                // An RTT of 10 s where 1 us was the least, and no rate.
                prop_assert!(arm.cost <= 10_000_000 * SCALE + SCALE);
                prop_assert!(arm.samples <= arm.chosen && arm.unpaid <= arm.chosen);
            }
        }
    }

    /// The smoothed round-trip time stays within its samples.
    #[test]
    fn the_smoothed_rtt_never_underflows(
        steps in prop::collection::vec((0u64..1 << 44, 1u32..10_000_000, 0u64..4000), 1..80),
    ) {
        let (cfg, mut path) = (config(), tp_path::default());
        for (rate, rtt, at_s) in steps {
            native::learn_path(&cfg, &mut path, &sample(rate, rtt), at_s * S);
            prop_assert!(path.srtt_us <= 10_000_000);
        }
    }
}
