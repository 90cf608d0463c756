//! Functions that the tests share.
#![allow(dead_code, reason = "each test file uses some of it")]

use tcpilot_abi::{TP_LEARNER_EPSILON_GREEDY, tp_config, tp_learner, tp_learner_config};

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
    }
}

/// The memory of a path with enough instances; its first arms have these costs.
pub fn memory_with_costs(costs: &[u64]) -> tp_learner {
    let mut memory = tp_learner {
        instances: 10,
        ..Default::default()
    };
    for (arm, cost) in memory.arms.iter_mut().zip(costs) {
        arm.cost = *cost;
        arm.samples = 1;
    }
    memory
}

/// Uniform 32-bit numbers, the same in each run (SplitMix64, upper half).
pub fn randoms(n: usize) -> impl Iterator<Item = u32> {
    let mut state = 1u64;
    (0..n).map(move |_| {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ z >> 31) >> 32) as u32
    })
}
