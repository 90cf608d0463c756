//! The arithmetic of `bpf/core` and `bpf/cc`, compiled for the host: the daemon and the tests run the same
//! text as the kernel.
//!
//! The functions have the names of their C originals without `tp_`, and are described there. The tests
//! are in `tests/`. Pure: no I/O and no clock; a function's arguments are all it knows of the world.

pub mod cc;
pub mod prefix;
pub mod shares;
pub mod tune;
pub mod watch;
pub mod windows;

pub use prefix::{Prefix, PrefixError};

use tcpilot_abi::{
    tp_arm, tp_config, tp_path, tp_path_key, tp_policy_config, tp_window32, tp_window64,
};

/// What one connection has shown: `struct tp_sample`.
#[derive(Clone, Copy, Debug, Default)]
#[allow(missing_docs, reason = "bpf/core/learn.h describes the fields")]
pub struct Sample {
    pub delivery_rate: u64,
    pub min_rtt_us: u32,
    pub srtt_us: u32,
    pub ssthresh_packets: u32,
    pub sent_packets: u32,
    pub lost_packets: u32,
}

#[rustfmt::skip]
#[allow(missing_docs, reason = "described at their C originals")]
mod c {
    use super::*;

    unsafe extern "C" {
        pub safe fn native_delivery_rate(packets: u32, interval_us: u32, mss: u32) -> u64;
        pub safe fn native_busy_rate(bytes_acked: u64, busy_ticks: u32, ticks_per_s: u32) -> u64;
        pub safe fn native_valid_rtt_us(rtt_us: u32) -> u32;
        pub safe fn native_cost(min_rtt_us: u32, path_min_rtt_us: u32, rate: u64, path_rate: u64) -> u64;
        pub safe fn native_update(cost: u64, sample: u64, samples: u32, shift: u32) -> u64;
        pub safe fn native_loss_is_heavy(retransmitted: u32, sent: u32, min_sent: u32, shift: u32) -> i32;
        pub safe fn native_untried(path: &tp_path, eligible: u32, max_unpaid: u32) -> u32;
        pub safe fn native_cheapest(path: &tp_path, eligible: u32) -> u32;
        pub safe fn native_choose(cfg: &tp_config, path: &tp_path, eligible: u32, random: u32, arm: &mut u8, why: &mut u8);
        pub safe fn native_learn_path(cfg: &tp_config, path: &mut tp_path, delivery_rate: u64, min_rtt_us: u32, srtt_us: u32,
            ssthresh_packets: u32, sent_packets: u32, lost_packets: u32, now_ns: u64);
        pub fn native_learn_arm(cfg: &tp_config, path: *mut tp_path, arm: *mut tp_arm, rate: u64, min_rtt_us: u32, failed: i32, now_ns: u64) -> i32;
        pub safe fn native_window_max(window: &tp_window64) -> u64;
        pub safe fn native_window_min(window: &tp_window32) -> u32;
        pub safe fn native_path_prefix(policy: &tp_policy_config, addr: &[u32; 4], key: &mut tp_path_key);
        pub safe fn native_is_loopback(addr: &[u32; 4]) -> i32;
        pub safe fn native_hash(secrets: &[u64; 9], words: &[u32; 8]) -> u32;
        pub safe fn native_mask_word(bits: u32, word: u32) -> u32;
    }
}

pub use c::{
    native_busy_rate as busy_rate, native_cheapest as cheapest, native_cost as cost,
    native_delivery_rate as delivery_rate, native_hash as hash, native_mask_word as mask_word,
    native_untried as untried, native_update as update, native_valid_rtt_us as valid_rtt_us,
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

/// `tp_choose`: the arm and the reason.
pub fn choose(cfg: &tp_config, path: &tp_path, eligible: u32, random: u32) -> (u8, u8) {
    let (mut arm, mut why) = (0, 0);
    c::native_choose(cfg, path, eligible, random, &mut arm, &mut why);
    (arm, why)
}

/// `tp_learn_path`.
pub fn learn_path(cfg: &tp_config, path: &mut tp_path, sample: &Sample, now_ns: u64) {
    c::native_learn_path(
        cfg,
        path,
        sample.delivery_rate,
        sample.min_rtt_us,
        sample.srtt_us,
        sample.ssthresh_packets,
        sample.sent_packets,
        sample.lost_packets,
        now_ns,
    );
}

/// `tp_learn_arm` for the arm with this index: whether it was charged.
///
/// # Panics
/// Where there is no such arm.
pub fn learn_arm(
    cfg: &tp_config,
    path: &mut tp_path,
    index: usize,
    sample: &Sample,
    failed: bool,
    now_ns: u64,
) -> bool {
    let path: *mut tp_path = path;
    // SAFETY: path is valid and exclusively ours; the index is checked; both pointers come from it,
    // and the C side reads and writes through them as one thread.
    unsafe {
        let arm = std::ptr::from_mut(&mut (&mut (*path).arms)[index]);
        c::native_learn_arm(
            cfg,
            path,
            arm,
            sample.delivery_rate,
            sample.min_rtt_us,
            i32::from(failed),
            now_ns,
        ) != 0
    }
}
