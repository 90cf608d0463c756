//! Functions that the tests share.
#![allow(dead_code, reason = "each test file uses some of it")]

use tcpilot_abi::{TP_LEARNER_EPSILON_GREEDY, tp_config, tp_costs, tp_learner_config};
use tcpilot_core::learner::End;

/// Seconds as nanoseconds.
pub const S: u64 = 1_000_000_000;

/// The cost of one whole path minimum RTT, or of a rate of nothing.
pub const SCALE: u64 = tcpilot_abi::TP_COST_SCALE as u64;

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
        pad: 0,
        min_flow_bytes: 65_536,
    }
}

/// A path with enough instances and four eligible arms; its first arms have these costs.
pub fn path_with_costs(costs: &[u64]) -> tp_costs {
    let mut path = tp_costs {
        instances: 10,
        eligible: 0b1111,
        ..Default::default()
    };
    for (arm, cost) in path.arms.iter_mut().zip(costs) {
        arm.cost = *cost;
        arm.samples = 1;
    }
    path
}

/// The end of a connection that is large enough to be judged, on a path with four eligible arms.
pub fn end_of(arm: u8, rate: u64, min_rtt_us: u32, now_ns: u64) -> End {
    End {
        rate,
        window_ns: 300 * S,
        now_ns,
        min_rtt_us,
        eligible: 0b1111,
        arm,
        is_judged: 1,
        ..Default::default()
    }
}
