//! `bpf/core/learner/`: epsilon-greedy, which charges costs and writes a path's choice row.

use tcpilot_abi::{tp_costs, tp_learner_config};

/// The end of a connection.
pub use crate::epsilon_greedy::tp_end as End;
use crate::{epsilon_greedy as c, rows::Entries};

/// `epsilon_greedy_end`: a connection has ended, or leaves its arm. Says whether its arm was charged.
pub fn end(cfg: &tp_learner_config, costs: &mut tp_costs, end: &End) -> bool {
    // SAFETY: all three point to whole structures, and nothing is kept.
    unsafe { c::epsilon_greedy_end(cfg, costs, end) != 0 }
}

/// `epsilon_greedy_measure`: the rate and the round-trip time alone, before the end.
pub fn measure(costs: &mut tp_costs, end: &End) {
    // SAFETY: both point to whole structures, and nothing is kept.
    unsafe { c::epsilon_greedy_measure(costs, end) }
}

/// `epsilon_greedy_row`: the entries of the path's row; `None` if the kernel's default stays.
pub fn row(cfg: &tp_learner_config, costs: &tp_costs) -> Option<Entries> {
    let mut entries = Entries::default();
    // SAFETY: all three point to whole structures, and nothing is kept.
    let has_row = unsafe { c::epsilon_greedy_row(cfg, costs, entries.as_mut_ptr()) != 0 };
    has_row.then_some(entries)
}

/// `tp_cost`, fixed point with [`tcpilot_abi::TP_COST_SCALE`]; 0 is the optimum. Round-trip times are in
/// microseconds, rates in bytes per second.
pub fn cost(min_rtt_us: u32, path_min_rtt_us: u32, rate: u64, path_rate: u64) -> u64 {
    // SAFETY: plain numbers.
    unsafe { c::tp_cost(min_rtt_us, path_min_rtt_us, rate, path_rate) }
}

/// `tp_update`: the mean cost after one more sample.
pub fn update(cost: u64, sample: u64, samples: u32, shift: u32) -> u64 {
    // SAFETY: plain numbers.
    unsafe { c::tp_update(cost, sample, samples, shift) }
}
