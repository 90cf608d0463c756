//! The figures of the daemon.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tcpilot_show::figure::figures;

use super::{address::AddressView, fleet::FleetStatus, tuning::TuningsStatus};

figures! {
    /// The daemon.
    #[derive(Clone, Debug, Serialize, Deserialize)]
    pub Status {
        /// Version of tcpilot.
        version: String;
        /// Process id of the daemon.
        pid: u32;
        /// Version of the kernel.
        kernel: String;
        /// The cgroup whose sockets are steered.
        cgroup: String;
        /// Time since the daemon started.
        uptime_s: u64, Seconds;
        /// Whether the daemon decides, but sets nothing.
        dry_run: bool;
        /// Whether the programs are attached; false while the cgroup is missing.
        attached: bool;
        /// The learner in force: `epsilon-greedy` or `thompson`.
        learner: String;
        /// Counts of the learner; `null` while it does not answer.
        learning: Option<LearningStatus>;
        /// Whether steering helps, in a line; `null` if the daemon cannot know.
        effect: Option<String>;
        /// The addresses with the greatest gain in bytes per second, at most five, the surest first; among those with the most
        /// connections.
        #[serde(default)]
        gains: Vec<AddressView>;
        /// The algorithms to choose from.
        algorithms: Vec<String>;
        /// Configured algorithms missing on this host, with the reason.
        algorithms_missing: Vec<String>;
        /// The rescue's algorithm, after lasting loss; `null` if there is none.
        rescue: Option<String>;
        /// Remembered paths.
        paths: u32;
        /// Maximum number of remembered paths.
        paths_max: u32;
        /// Connections opened since the start, by `why`.
        connections: BTreeMap<String, u64>;
        /// Open connections among them.
        live_flows: u64;
        /// Steered connections after their end.
        closed: u64;
        /// Ended connections with a sample.
        charged: u64;
        /// Connections switched after lasting loss.
        rescues: u64;
        /// How these switches ended, and why others were not made.
        rescued: RescueStatus;
        /// How often long connections were moved to a better algorithm.
        moves: u64;
        /// Faults, a sentence each.
        degraded: Vec<String>;
        /// How much of the host's traffic tcpilot can steer; `null` for the first seconds.
        traffic: Option<TrafficView>;
        /// Whether choice distributions are valid. They are stale while the learner has given no heartbeat for ten
        /// seconds: new connections then get the kernel's default.
        choice_dists_valid: bool;
        /// How often choice distributions became stale since the start.
        choice_dists_expired: u64;
        /// The tunings; `null` if all are off.
        tunings: Option<TuningsStatus>;
        /// The part in a fleet; `null` without `[fleet]`.
        #[serde(default)]
        fleet: Option<FleetStatus>;
        /// Calls of the BPF programs; 0 unless the sysctl `kernel.bpf_stats_enabled` is 1.
        bpf_events: u64;
        /// Time spent in the BPF programs; 0 unless the sysctl `kernel.bpf_stats_enabled` is 1.
        bpf_ns: u64, Nanoseconds;
        /// Resident memory of the daemon.
        resident_bytes: u64, Bytes;
        /// The state file: it keeps the knowledge over restarts.
        state: String;
        /// Counts of upgrades in place: to another program, or to the same one with a new configuration.
        take_overs: Upgrades;
    }
}

figures! {
    /// The host's traffic since the daemon attached, and its steerable part. Counted about every ten seconds.
    #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
    pub TrafficView {
        /// Steered bytes over all bytes of the devices, sent and received; at most 1. Held-out connections,
        /// and the first few of a path, count as steered. `null` if nothing was sent or received, or if more
        /// was steered than sent: some steered bytes then stay on this host, or leave by other devices.
        share: Option<f64>, Share;
        /// Acknowledged data of steered connections. If the daemon may not enter a namespace, connections there
        /// count when they end.
        steered_bytes: u64, Bytes;
        /// Bytes sent by the devices, with all headers and retransmissions.
        sent_bytes: u64, Bytes;
        /// Bytes received by the devices.
        received_bytes: u64, Bytes;
        /// The counted devices: those of hardware, or if there are none, all but the loopback.
        devices: Vec<String>;
    }
}

figures! {
    /// Rescues.
    #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    pub RescueStatus {
        /// Connections with more goodput after the switch.
        helped: u64;
        /// Connections without more goodput, with their former algorithm again.
        undone: u64;
        /// Connections with heavy loss and a queue. This is congestion, so tcpilot did not switch them.
        own_losses: u64;
        /// Connections with loss but without a queue, and still not switched, by the reason.
        withheld: BTreeMap<String, u64>;
    }
}

figures! {
    /// The learner in the daemon.
    #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
    pub LearningStatus {
        /// Known paths of all policies. Connections of one address count as several paths if their handshakes
        /// differ.
        paths: u64;
        /// Groups, sites and classes above the paths.
        nodes: u64;
        /// Choice distributions usable by the programs.
        choice_dists: u64;
        /// Maximum number of choice distributions.
        choice_dists_max: u64;
        /// How often choice distributions were published.
        publications: u64;
        /// Records from the programs.
        records: u64;
        /// Records used to update the learner.
        #[serde(alias = "taught")]
        updates: u64;
        /// Rejected records, by the reason.
        #[serde(alias = "silent")]
        rejected: BTreeMap<String, u64>;
        /// Records lost for lack of space in the ring.
        dropped: u64;
        /// Time of each turn of the learner's thread, in seconds: twenty times a second it takes in records
        /// and sweeps through choice distributions.
        turns: HistogramView;
        /// Expected cost of exploration so far. 1 is the whole reward of a connection.
        explored: f64;
        /// Percent of the groups under steering.
        steer_percent: u32;
        /// Counts of each policy.
        policies: Vec<PolicyStatus>;
        /// The last detected changes of paths, the newest first.
        changes: Vec<ChangeView>;
    }
}

figures! {
    /// The choices of a policy.
    #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
    pub PolicyStatus {
        /// Name of the policy.
        policy: String;
        /// The default, for comparison with the others.
        default: String;
        /// Its algorithms, with their connections.
        algorithms: Vec<DrawnAlgorithm>;
    }
}

figures! {
    /// How often an algorithm was in force.
    #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
    pub DrawnAlgorithm {
        /// Name of the congestion control.
        name: String;
        /// Ended connections with this algorithm.
        connections: u64;
        /// Sum of their probabilities of getting it.
        probability: f64;
        /// Their measures by group, if there are any.
        shown: Vec<ShownView>;
    }
}

figures! {
    /// The measures of an algorithm's connections, without rejected records.
    #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
    pub ShownView {
        /// `treated`, or `control` for held-out connections.
        group: String;
        /// Goodput of connections, or of parts of long ones, while data was under way, in bytes per second.
        goodput: HistogramView;
        /// Least RTT of these connections, in seconds.
        min_rtt: HistogramView;
        /// Smoothed RTT at their end, or at their last sample, in seconds.
        srtt: HistogramView;
        /// Segments with data, sent.
        segments: u64;
        /// Segments with data, retransmitted.
        retransmitted: u64;
    }
}

figures! {
    /// How many values lie between bounds.
    #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
    pub HistogramView {
        /// Upper bounds of all counts; the last count has none.
        bounds: Vec<f64>;
        /// Values up to each bound and above the one before.
        counts: Vec<u64>;
        /// Sum of the values.
        sum: f64;
    }
}

figures! {
    /// A path or a node above some was found to have changed.
    #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
    pub ChangeView {
        /// `path`, `group`, `site`, `class` or `global`.
        level: String;
        /// Its remote addresses.
        prefix: String;
        /// Name of the policy.
        policy: String;
        /// Time since the change was found.
        age_s: f64, Seconds;
    }
}

figures! {
    /// Upgrades in place: to another program, or to the same one with a new configuration.
    #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    pub Upgrades {
        /// Upgrades since the start.
        done: u64;
        /// Refused upgrades since the start. The daemon went on as before each time.
        refused: u64;
        /// Why the last one was refused, a line each; empty if it was done.
        problems: Vec<String>;
    }
}

figures! {
    /// The state in short.
    #[derive(Debug, Serialize)]
    pub StateSummary {
        /// Source of these figures: the running daemon, or the file.
        from: String;
        /// Saved paths.
        paths: usize;
        /// All connections of these paths.
        connections: u64;
        /// Last use of the longest unused path, in seconds since 1970.
        oldest_unix_s: Option<u64>, Seconds;
        /// Last use of any path, in seconds since 1970.
        newest_unix_s: Option<u64>, Seconds;
    }
}
