//! The arithmetic of `bpf/core` and `bpf/cc`, compiled for the host: the daemon and the tests run the same
//! text as the kernel.
//!
//! The functions have the names of their C originals without `tp_`, and are described there. The tests
//! are in `tests/`. Pure: no I/O and no clock; a function's arguments are all it knows of the world.
//! [`coupled`] alone keeps state, a connection's.

pub mod cc;
pub mod coupled;
pub mod learner;
pub mod prefix;
pub mod rescue;
pub mod rows;
pub mod tune;
pub mod watch;
pub mod windows;

pub use prefix::{Prefix, PrefixError};
/// What one connection has shown.
pub use tcpilot_abi::tp_sample as Sample;

use tcpilot_abi::{
    TP_OUTCOME_COST, tp_arm, tp_bucket, tp_config, tp_path, tp_path_key, tp_policy_config, tp_slot,
    tp_window32, tp_window64,
};

#[rustfmt::skip]
#[allow(missing_docs, reason = "described at their C originals")]
mod c {
    use super::*;

    unsafe extern "C" {
        pub safe fn native_victim(bucket: &tp_bucket, now_ns: u64) -> u32;
        pub safe fn native_begin_slot(slot: &mut tp_slot, key: &tp_path_key, now_ns: u64);
        pub safe fn native_delivery_rate(packets: u32, interval_us: u32, mss: u32) -> u64;
        pub safe fn native_busy_rate(bytes_acked: u64, busy_ticks: u32, ticks_per_s: u32) -> u64;
        pub safe fn native_valid_rtt_us(rtt_us: u32) -> u32;
        pub safe fn native_cost(min_rtt_us: u32, path_min_rtt_us: u32, rate: u64, path_rate: u64) -> u64;
        pub safe fn native_loss_is_heavy(retransmitted: u32, sent: u32, min_sent: u32, shift: u32) -> i32;
        pub safe fn native_learn_path(cfg: &tp_config, path: &mut tp_path, sample: &Sample, now_ns: u64);
        pub safe fn native_learn_arm(cfg: &tp_config, arm: &mut tp_arm, rate: u64, min_rtt_us: u32, now_ns: u64);
        pub safe fn native_cost_of(path: &tp_path, arm: u32, sample: &Sample, failed: i32, cost: &mut u64) -> u32;
        pub safe fn native_window_max(window: &tp_window64) -> u64;
        pub safe fn native_window_min(window: &tp_window32) -> u32;
        pub safe fn native_path_prefix(policy: &tp_policy_config, addr: &[u32; 4], key: &mut tp_path_key);
        pub safe fn native_is_loopback(addr: &[u32; 4]) -> i32;
        pub safe fn native_hash(secrets: &[u64; 9], words: &[u32; 8]) -> u32;
        pub safe fn native_mask_word(bits: u32, word: u32) -> u32;
    }
}

pub use c::{
    native_begin_slot as begin_slot, native_busy_rate as busy_rate, native_cost as cost,
    native_delivery_rate as delivery_rate, native_hash as hash, native_learn_path as learn_path,
    native_mask_word as mask_word, native_valid_rtt_us as valid_rtt_us, native_victim as victim,
    native_window_max as window_max, native_window_min as window_min,
};

/// `tp_path_prefix`: the words of the prefix and its length.
pub fn path_prefix(policy: &tp_policy_config, addr: &[u32; 4]) -> ([u32; 4], u8) {
    let mut key = tp_path_key::default();
    c::native_path_prefix(policy, addr, &mut key);
    (key.prefix, key.prefix_len)
}

/// `tp_loss_is_heavy`.
pub fn loss_is_heavy(retransmitted: u32, sent: u32, min_sent: u32, shift: u32) -> bool {
    c::native_loss_is_heavy(retransmitted, sent, min_sent, shift) != 0
}

/// `tp_is_loopback`.
pub fn is_loopback(addr: &[u32; 4]) -> bool {
    c::native_is_loopback(addr) != 0
}

/// What the pilot does with a told connection's sample once the path has it (`charge` in
/// `bpf/pilot/end.h`): the arm's own measures, the cost, and the learner. Whether the arm was charged.
///
/// # Panics
/// If there is no arm with this index.
pub fn charge(
    cfg: &tp_config,
    path: &mut tp_path,
    index: usize,
    sample: &Sample,
    failed: bool,
    now_ns: u64,
) -> bool {
    let arm = &mut path.arms[index];
    c::native_learn_arm(cfg, arm, sample.delivery_rate, sample.min_rtt_us, now_ns);
    let mut cost = 0;
    let number = index as u32;
    let outcome = c::native_cost_of(path, number, sample, failed.into(), &mut cost);
    let charged = learner::charge(&cfg.learner, &mut path.learner, number, cost, outcome);
    assert_eq!(charged, outcome == TP_OUTCOME_COST);
    charged
}
