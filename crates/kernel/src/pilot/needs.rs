//! The programs that a configuration and a kernel need. The verifier takes its time for each program, so the others are
//! not loaded.

use tcpilot_abi::{TP_LEARNER_EPSILON_GREEDY, TP_TUNE_ACK_PRIORITY, tp_config};

use super::{netns_ends, skeleton::OpenSockopsProgs};
use crate::host;

pub(super) struct Needs {
    /// Some policy has a tuning, so there is a table of paths.
    pub tunes: bool,
    /// Acknowledgements go first.
    pub acks_first: bool,
    /// The program learns costs itself.
    pub learns: bool,
    /// The kernel's iterator over TCP sockets leaves some out.
    pub flows_of_files: bool,
    /// The ends of network namespaces can be seen.
    pub netns_ends: bool,
}

impl Needs {
    pub fn new(config: &tp_config) -> Needs {
        Needs {
            tunes: config.tunes != 0,
            acks_first: u32::from(config.tunes) >> TP_TUNE_ACK_PRIORITY & 1 == 1
                && config.dry_run == 0,
            learns: config.learner.kind == TP_LEARNER_EPSILON_GREEDY,
            flows_of_files: host::iterator_leaves_out(),
            netns_ends: netns_ends::are_seen(),
        }
    }

    /// The sockops program with tunings, and with a learner of its own.
    pub fn whole(&self) -> bool {
        self.tunes || self.learns
    }

    pub fn choose(&self, programs: &mut OpenSockopsProgs<'_>) {
        for (program, is_needed) in [
            (&mut programs.tcpilot, !self.whole()),
            (&mut programs.tcpilot_whole, self.whole()),
            (&mut programs.ack_priority, self.acks_first),
            (&mut programs.adopt, self.tunes),
            (&mut programs.put_path, self.tunes),
            (&mut programs.put_order, self.tunes),
            (&mut programs.put_costs, self.learns),
            (&mut programs.flows_of_files, self.flows_of_files),
            (&mut programs.netns_ended, self.netns_ends),
        ] {
            program.set_autoload(is_needed);
        }
    }
}
