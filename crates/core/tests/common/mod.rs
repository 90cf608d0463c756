//! Functions that the tests share.
#![allow(dead_code, reason = "each test file uses some of it")]

use tcpilot_abi::{TP_LEARNER_EPSILON_GREEDY, tp_config, tp_costs, tp_learner_config};
use tcpilot_core::choice_dist::{Entries, probability};
use tcpilot_core::learner::{self, End, MAX_ARMS};

/// Seconds as nanoseconds.
pub const S: u64 = 1_000_000_000;

/// The cost of one whole path minimum RTT, or of a rate of nothing.
pub const SCALE: u64 = tcpilot_abi::TP_COST_SCALE as u64;

/// The sum of all shares of a choice distribution.
pub const WHOLE: f64 = 65_535.0;

/// The default configuration, windows of 300 s.
pub fn config() -> tp_config {
    tp_config {
        abi_version: tcpilot_abi::TP_ABI_VERSION,
        learner: settings(),
        loss_shift: 6,
        loss_min_segments: 64,
        window_ns: 300 * S,
        ssthresh_window_ns: 30 * S,
        ssthresh_floor_packets: 10,
        ..Default::default()
    }
}

/// The default settings of the learner.
pub fn settings() -> tp_learner_config {
    tp_learner_config {
        kind: TP_LEARNER_EPSILON_GREEDY,
        epsilon: 20,
        min_instances: 3,
        learning_shift: 2,
        max_unpaid: 3,
        arms: MAX_ARMS as u32,
        min_flow_bytes: 65_536,
    }
}

/// The same without exploration.
pub fn greedy() -> tp_learner_config {
    tp_learner_config {
        epsilon: 0,
        ..settings()
    }
}

/// A path with enough instances. Its arms have these costs, and all are eligible.
pub fn path_of(costs: &[u64]) -> tp_costs {
    let mut path = tp_costs {
        instances: 10,
        eligible: (1 << costs.len()) - 1,
        ..Default::default()
    };
    for (arm, cost) in path.arms.iter_mut().zip(costs) {
        arm.cost = *cost;
        arm.samples = 1;
    }
    path
}

/// The end of a large connection of this arm, at 1 s; four arms are eligible.
pub fn end_of(arm: u8, rate: u64, min_rtt_us: u32) -> End {
    End {
        rate,
        window_ns: 300 * S,
        now_ns: S,
        min_rtt_us,
        eligible: 0b1111,
        arm,
        is_judged: 1,
        weight: 1,
        ..Default::default()
    }
}

/// The shares of a path's choice distribution; all are 0 if it has none.
pub fn shares(cfg: &tp_learner_config, path: &tp_costs) -> [f64; MAX_ARMS] {
    learner::choice_dist(cfg, path).map_or([0.0; MAX_ARMS], |dist| shares_of(&dist))
}

/// The shares of these entries.
pub fn shares_of(dist: &Entries) -> [f64; MAX_ARMS] {
    std::array::from_fn(|arm| f64::from(probability(dist, arm as u32)) / WHOLE)
}

/// Asserts that no share differs from these by more than one part of a choice distribution.
pub fn assert_shares(found: &[f64], expected: &[f64]) {
    for (arm, (found, expected)) in found.iter().zip(expected).enumerate() {
        let apart = (found - expected).abs() * WHOLE;
        assert!(apart <= 1.001, "arm {arm}: {found} is not {expected}");
    }
}
