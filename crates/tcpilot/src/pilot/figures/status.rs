//! The figures of the daemon.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::tuning::TuningsStatus;
use crate::show::figure::figures;

figures! {
    /// What is running.
    #[derive(Clone, Debug, Serialize, Deserialize)]
    pub Status {
        /// Of tcpilot.
        version: String;
        /// The daemon's process.
        pid: u32;
        /// The kernel's version.
        kernel: String;
        /// The cgroup whose sockets are steered.
        cgroup: String;
        /// Time since it started.
        uptime_s: u64, Seconds;
        /// It decides, and sets nothing.
        dry_run: bool;
        /// It is attached; false while the cgroup is gone.
        attached: bool;
        /// How it chooses.
        learner: String;
        /// With thompson: what the learner in the daemon does; `null` with epsilon-greedy.
        learning: Option<LearningStatus>;
        /// Whether steering helps, in a line; `null` if nobody can say.
        effect: Option<String>;
        /// The algorithms to choose from.
        algorithms: Vec<String>;
        /// Algorithms that were asked for and are not there, with the reason.
        algorithms_missing: Vec<String>;
        /// The algorithm that a heavy loss switches to; `null`: none.
        rescue: Option<String>;
        /// Paths that are remembered.
        paths: u32;
        /// The most that can be.
        paths_max: u32;
        /// Connections opened since the start, by `why`.
        connections: BTreeMap<String, u64>;
        /// Steered connections that ended.
        closed: u64;
        /// Those that an algorithm was judged by.
        charged: u64;
        /// Connections switched after heavy loss.
        rescues: u64;
        /// With thompson: what became of them, and why others were not; `null` with epsilon-greedy.
        rescued: Option<RescueStatus>;
        /// What does not work as it should, a sentence each.
        degraded: Vec<String>;
        /// What is tuned; `null`: nothing.
        tunings: Option<TuningsStatus>;
        /// Calls of the program in the kernel; 0 unless the sysctl `kernel.bpf_stats_enabled` is 1.
        bpf_events: u64;
        /// Time in it, likewise.
        bpf_ns: u64, Nanoseconds;
        /// The daemon's resident memory.
        resident_bytes: u64, Bytes;
        /// The file that keeps what was learned.
        state: String;
        /// How often another program took over, or the configuration was read anew.
        take_overs: TakeOvers;
    }
}

figures! {
    /// Rescues with the learner thompson.
    #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    pub RescueStatus {
        /// Connections that had more goodput after the switch.
        helped: u64;
        /// Connections that had not, and got their former algorithm back.
        undone: u64;
        /// Connections with heavy loss that came with a queue: it was congestion, so nothing was switched.
        own_losses: u64;
        /// Connections whose loss was not of their own making, and that were not switched, by the reason.
        withheld: BTreeMap<String, u64>;
    }
}

figures! {
    /// The learner in the daemon.
    #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
    pub LearningStatus {
        /// Paths that it knows, of all policies. Connections of one address whose handshakes differ are
        /// several.
        paths: u64;
        /// Groups, sites and classes above them.
        nodes: u64;
        /// Rows that the programs can choose by.
        rows: u64;
        /// The most that there is room for.
        rows_max: u64;
        /// Times that rows were published.
        publications: u64;
        /// Records that came from the programs.
        records: u64;
        /// Of these, those that taught something.
        taught: u64;
        /// Records that taught nothing, by the reason.
        silent: BTreeMap<String, u64>;
        /// Records for which there was no room.
        dropped: u64;
        /// What exploring was expected to cost so far: 1 is a connection's whole reward.
        explored: f64;
        /// Percent of the groups that are steered.
        steer_percent: u32;
        /// Of each policy.
        policies: Vec<TaughtPolicy>;
        /// The last changes that were found, the newest first.
        changes: Vec<ChangeView>;
    }
}

figures! {
    /// What a policy's connections were given.
    #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
    pub TaughtPolicy {
        /// The policy.
        policy: String;
        /// The algorithm that the others are compared with.
        default: String;
        /// Its algorithms.
        algorithms: Vec<DrawnAlgorithm>;
    }
}

figures! {
    /// How often an algorithm was in force.
    #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
    pub DrawnAlgorithm {
        /// The congestion control.
        name: String;
        /// Connections that ended and had it.
        connections: u64;
        /// The sum of the probabilities with which they got it.
        probability: f64;
    }
}

figures! {
    /// A path or a node above some was found to have changed.
    #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
    pub ChangeView {
        /// `path`, `group`, `site`, `class` or `global`.
        level: String;
        /// Its addresses.
        prefix: String;
        /// The policy.
        policy: String;
        /// How long ago.
        age_s: f64, Seconds;
    }
}

figures! {
    /// Take-overs by another program, or by the same one with its configuration read anew.
    #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    pub TakeOvers {
        /// Since the start.
        done: u64;
        /// Since the start; all went on as before.
        refused: u64;
        /// Why the last one was refused, a line each; none: it was done.
        problems: Vec<String>;
    }
}

figures! {
    /// What was learned, in short.
    #[derive(Debug, Serialize)]
    pub StateSummary {
        /// The running daemon, or the file.
        from: String;
        /// Paths that are kept.
        paths: usize;
        /// Their connections ever.
        connections: u64;
        /// When the path that was used least lately was used, in seconds since 1970.
        oldest_unix_s: Option<u64>, Seconds;
        /// When a path was used last, likewise.
        newest_unix_s: Option<u64>, Seconds;
    }
}
