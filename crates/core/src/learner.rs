//! `bpf/core/learner.h`: the learner's interface, and functions of its first implementation for the tests.

use tcpilot_abi::{TP_MAX_ARMS, TP_SHARE_SCALE, tp_learner, tp_learner_config};

/// Number of arms that a path has room for.
pub const MAX_ARMS: usize = TP_MAX_ARMS as usize;

#[repr(C)]
#[derive(Default)]
struct Choice {
    arm: u8,
    why: u8,
}

#[rustfmt::skip]
#[allow(missing_docs, reason = "described at their C originals")]
mod c {
    use super::*;

    unsafe extern "C" {
        pub safe fn native_learner_is_ready(cfg: &tp_learner_config, mem: &tp_learner) -> i32;
        pub safe fn native_learner_choose(cfg: &tp_learner_config, mem: &mut tp_learner, eligible: u32, random: u32, choice: &mut Choice);
        pub safe fn native_learner_chosen(cfg: &tp_learner_config, mem: &mut tp_learner, arm: u32, why: u32);
        pub safe fn native_learner_charge(cfg: &tp_learner_config, mem: &mut tp_learner, arm: u32, cost: u64, outcome: u32) -> i32;
        pub safe fn native_learner_shares(cfg: &tp_learner_config, mem: &tp_learner, eligible: u32, share: &mut [u32; MAX_ARMS]);
        pub safe fn native_update(cost: u64, sample: u64, samples: u32, shift: u32) -> u64;
        pub safe fn native_untried(mem: &tp_learner, eligible: u32, max_unpaid: u32) -> u32;
        pub safe fn native_cheapest(mem: &tp_learner, eligible: u32) -> u32;
        pub fn native_decrement(count: *mut u32);
    }
}

pub use c::{
    native_cheapest as cheapest, native_decrement as decrement, native_learner_chosen as chosen,
    native_untried as untried, native_update as update,
};

/// `learner_is_ready`.
pub fn is_ready(cfg: &tp_learner_config, mem: &tp_learner) -> bool {
    c::native_learner_is_ready(cfg, mem) != 0
}

/// `learner_choose`: the arm and the reason.
pub fn choose(
    cfg: &tp_learner_config,
    mem: &mut tp_learner,
    eligible: u32,
    random: u32,
) -> (u8, u8) {
    let mut choice = Choice::default();
    c::native_learner_choose(cfg, mem, eligible, random, &mut choice);
    (choice.arm, choice.why)
}

/// `learner_charge`: whether the arm was charged. `outcome` is of `enum tp_outcome`.
pub fn charge(
    cfg: &tp_learner_config,
    mem: &mut tp_learner,
    arm: u32,
    cost: u64,
    outcome: u32,
) -> bool {
    c::native_learner_charge(cfg, mem, arm, cost, outcome) != 0
}

/// `learner_shares`: the probability that the next connection gets each arm, 0 to 1.
///
/// `eligible` has bit i set if arm i may be chosen. Without ECN or under another policy fewer are
/// eligible, so this is the share among like connections. The sum is 1, or less if the kernel's
/// default stays: it is 0 while there were too few connections to learn from.
pub fn shares(cfg: &tp_learner_config, mem: &tp_learner, eligible: u8) -> [f64; MAX_ARMS] {
    let mut parts = [0; MAX_ARMS];
    c::native_learner_shares(cfg, mem, eligible.into(), &mut parts);
    parts.map(|part| f64::from(part) / f64::from(TP_SHARE_SCALE))
}
