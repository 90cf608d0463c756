//! `bpf/core/learner`: epsilon-greedy's arithmetic over the costs of a path.

use tcpilot_abi::{TP_MAX_ARMS, tp_costs, tp_learner_config};

use crate::{choice_dist::Entries, epsilon_greedy as c};

/// The end of a connection: rate in bytes per second, times in ns and µs.
pub use crate::epsilon_greedy::tp_end as End;

/// The most arms of a path.
pub const MAX_ARMS: usize = TP_MAX_ARMS as usize;

/// `epsilon_greedy_choice_dist`: the entries of the path's choice distribution; `None` while the default stays.
pub fn choice_dist(cfg: &tp_learner_config, costs: &tp_costs) -> Option<Entries> {
    let mut upto = Entries::default();
    // SAFETY: all point to whole structures, and the choice distribution has an entry for each arm.
    let has_dist = unsafe { c::epsilon_greedy_choice_dist(cfg, costs, upto.as_mut_ptr()) != 0 };
    has_dist.then_some(upto)
}

/// `epsilon_greedy_end`: a connection has ended, or leaves its arm. Returns whether its arm was charged.
pub fn end(cfg: &tp_learner_config, costs: &mut tp_costs, end: &End) -> bool {
    // SAFETY: all point to whole structures, and nothing is kept.
    unsafe { c::epsilon_greedy_end(cfg, costs, end) != 0 }
}

/// `tp_untried`: the arms of this mask that have no sample, but may still give one.
pub fn untried(cfg: &tp_learner_config, costs: &tp_costs, eligible: u32) -> u32 {
    // SAFETY: as above.
    unsafe { c::tp_untried(cfg, costs, eligible) }
}

/// `tp_cheapest`: the arms of this mask that have the least cost.
pub fn cheapest(cfg: &tp_learner_config, costs: &tp_costs, eligible: u32) -> u32 {
    // SAFETY: as above.
    unsafe { c::tp_cheapest(cfg, costs, eligible) }
}

/// `tp_cost`, in parts of `TP_COST_SCALE`. Rates are bytes per second.
pub fn cost(min_rtt_us: u32, path_min_rtt_us: u32, rate: u64, path_rate: u64) -> u64 {
    // SAFETY: plain numbers.
    unsafe { c::tp_cost(min_rtt_us, path_min_rtt_us, rate, path_rate) }
}

/// `tp_update`: the cost of an arm after a further sample.
pub fn update(cost: u64, sample: u64, samples: u32, shift: u32) -> u64 {
    // SAFETY: plain numbers.
    unsafe { c::tp_update(cost, sample, samples, shift) }
}
