//! The epsilon-greedy learner, run by the kernel side's own C. Only this file knows where that C is compiled.

use std::collections::HashMap;

use tcpilot_abi::{TP_LEARNER_EPSILON_GREEDY, tp_config, tp_learner_config, tp_path};
use tcpilot_core::{self as c, learner};

use super::{Contender, Who};
use crate::scene::Transfer;

/// Nanoseconds per second.
const NS: u64 = 1_000_000_000;

/// `learner.kind = "epsilon-greedy"` with its default constants.
pub struct EpsilonGreedy {
    config: tp_config,
    eligible: u32,
    by_group: bool,
    paths: HashMap<usize, tp_path>,
}

impl EpsilonGreedy {
    /// `by_group`: a /24 is one path, as by default for public addresses; otherwise each host is one.
    pub fn new(arms: usize, by_group: bool) -> Self {
        let config = tp_config {
            abi_version: tcpilot_abi::TP_ABI_VERSION,
            learner: tp_learner_config {
                kind: TP_LEARNER_EPSILON_GREEDY,
                epsilon: 20,
                min_instances: 3,
                learning_shift: 2,
                max_unpaid: 3,
                ..Default::default()
            },
            window_ns: 300 * NS,
            ssthresh_window_ns: 30 * NS,
            ssthresh_floor_packets: 10,
            min_flow_bytes: 65_536,
            arms: arms as u8,
            ..Default::default()
        };
        Self {
            config,
            eligible: (1 << arms) - 1,
            by_group,
            paths: HashMap::new(),
        }
    }

    fn path(&mut self, who: &Who) -> &mut tp_path {
        let key = if self.by_group { who.group } else { who.path };
        self.paths.entry(key).or_default()
    }
}

impl Contender for EpsilonGreedy {
    fn choose(&mut self, who: &Who, _: f64, random: u32) -> usize {
        let (config, eligible) = (self.config.learner, self.eligible);
        let mem = &mut self.path(who).learner;
        let (arm, why) = learner::choose(&config, mem, eligible, random);
        if usize::from(arm) >= mem.arms.len() {
            return 0; // no arm: the kernel's default stays
        }
        learner::chosen(&config, mem, arm.into(), why.into());
        arm.into()
    }

    fn end(&mut self, who: &Who, arm: usize, transfer: &Transfer, at_s: f64) {
        let config = self.config;
        let told = transfer.vanished || transfer.bytes >= config.min_flow_bytes as f64;
        let rate = if transfer.vanished {
            0.0
        } else {
            transfer.rate
        };
        let sample = c::Sample {
            delivery_rate: rate as u64,
            min_rtt_us: transfer.min_rtt_us as u32,
            srtt_us: (transfer.min_rtt_us * transfer.inflation) as u32,
            ..Default::default()
        };
        let path = self.path(who);
        if told {
            let now_ns = (at_s * NS as f64) as u64;
            c::learn_path(&config, path, &sample, now_ns);
            c::charge(&config, path, arm, &sample, transfer.vanished, now_ns);
        }
    }
}
