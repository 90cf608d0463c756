//! The epsilon-greedy learner, run by the kernel side's own C. Only this file knows where that C is compiled.

use std::collections::HashMap;

use tcpilot_abi::{TP_LEARNER_EPSILON_GREEDY, tp_costs, tp_learner_config};
use tcpilot_core::{
    choice_dist,
    learner::{self, End},
};

use super::{Contender, Who};
use crate::scene::Transfer;

/// Nanoseconds per second.
const NS: u64 = 1_000_000_000;

/// `learner.kind = "epsilon-greedy"` with its default constants.
pub struct EpsilonGreedy {
    config: tp_learner_config,
    eligible: u32,
    by_group: bool,
    paths: HashMap<usize, tp_costs>,
}

impl EpsilonGreedy {
    /// `by_group`: a /24 is one path, as by default for public addresses; otherwise each host is one.
    pub fn new(arms: usize, by_group: bool) -> Self {
        let config = tp_learner_config {
            kind: TP_LEARNER_EPSILON_GREEDY,
            epsilon: 20,
            min_instances: 3,
            learning_shift: 2,
            max_unpaid: 3,
            arms: arms as u32,
            min_flow_bytes: 65_536,
        };
        Self {
            config,
            eligible: (1 << arms) - 1,
            by_group,
            paths: HashMap::new(),
        }
    }

    fn path(&mut self, who: &Who) -> &mut tp_costs {
        let key = if self.by_group { who.group } else { who.path };
        self.paths.entry(key).or_default()
    }

    fn dist(&mut self, who: &Who) -> Option<choice_dist::Entries> {
        let config = self.config;
        learner::choice_dist(&config, self.path(who))
    }
}

impl Contender for EpsilonGreedy {
    fn choose(&mut self, who: &Who, _: f64, random: u32) -> usize {
        // Without a choice distribution the kernel's default stays.
        self.dist(who).map_or(0, |dist| {
            choice_dist::arm_at(&dist, choice_dist::draw_of(random)) as usize
        })
    }

    fn end(&mut self, who: &Who, arm: usize, transfer: &Transfer, at_s: f64) {
        let config = self.config;
        let is_large = transfer.bytes >= config.min_flow_bytes as f64;
        let has_rate = is_large && !transfer.vanished;
        let end = End {
            rate: if has_rate { transfer.rate as u64 } else { 0 },
            window_ns: 300 * NS,
            now_ns: (at_s * NS as f64) as u64,
            min_rtt_us: transfer.min_rtt_us as u32,
            eligible: self.eligible,
            arm: arm as u8,
            weight: 1,
            is_judged: (is_large || transfer.vanished).into(),
            failed: transfer.vanished.into(),
            ..Default::default()
        };
        learner::end(&config, self.path(who), &end);
    }
}
