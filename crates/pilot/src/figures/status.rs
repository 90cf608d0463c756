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
        /// Cgroup with the steered sockets.
        cgroup: String;
        /// Time since the daemon started.
        uptime_s: u64, Seconds;
        /// Whether the daemon decides, but sets nothing.
        dry_run: bool;
        /// Whether the programs are attached; false while the cgroup is missing.
        attached: bool;
        /// `epsilon-greedy` or `thompson`.
        learner: String;
        /// Counts of the learner; `null` while it does not answer.
        learning: Option<LearningStatus>;
        /// Whether steering helps, in a line; `null` if the daemon cannot know.
        effect: Option<String>;
        /// At most five addresses with the greatest gain in bytes/s, the surest first.
        #[serde(default)]
        gains: Vec<AddressView>;
        /// Algorithms to choose from.
        algorithms: Vec<String>;
        /// Configured algorithms missing here, with reasons.
        algorithms_missing: Vec<String>;
        /// Algorithm after lasting loss; `null` if none.
        rescue: Option<String>;
        /// Remembered paths.
        paths: u32;
        /// Maximum of remembered paths.
        paths_max: u32;
        /// Connections opened, by `why`.
        connections: BTreeMap<String, u64>;
        /// Open connections among those opened.
        live_flows: u64;
        /// Steered connections that ended.
        closed: u64;
        /// Ended connections with a sample.
        charged: u64;
        /// Connections switched after lasting loss.
        rescues: u64;
        /// How these ended, and why others were not switched.
        rescued: RescueStatus;
        /// Moves of long connections to a better algorithm.
        moves: u64;
        /// Faults, a sentence each.
        degraded: Vec<String>;
        /// Steerable traffic of the host; `null` for the first seconds.
        traffic: Option<TrafficView>;
        /// Whether choice distributions are valid: not after ten seconds without a learner's heartbeat.
        choice_dists_valid: bool;
        /// How often choice distributions became invalid.
        choice_dists_expired: u64;
        /// The tunings; `null` if all are off.
        tunings: Option<TuningsStatus>;
        /// The part in a fleet; `null` without `[fleet]`.
        #[serde(default)]
        fleet: Option<FleetStatus>;
        /// Calls of the BPF programs; 0 without the sysctl `kernel.bpf_stats_enabled`.
        bpf_events: u64;
        /// Time in the BPF programs; 0 without the sysctl `kernel.bpf_stats_enabled`.
        bpf_ns: u64, Nanoseconds;
        /// Resident memory of the daemon.
        resident_bytes: u64, Bytes;
        /// State file.
        state: String;
        /// Upgrades in place, and reloads.
        take_overs: Upgrades;
    }
}

figures! {
    /// The host's traffic since the daemon attached, and its steerable part. Counted about every ten seconds.
    #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
    pub TrafficView {
        /// Steered bytes over all bytes of the devices; held-out connections, and the first few of a path, count as
        /// steered. `null` if unknown: no bytes, or steered ones that stay here or leave by other devices.
        share: Option<f64>, Share;
        /// Acknowledged data of steered connections, at the latest when they end.
        steered_bytes: u64, Bytes;
        /// Bytes sent by the devices, with headers and retransmissions.
        sent_bytes: u64, Bytes;
        /// Bytes received by the devices.
        received_bytes: u64, Bytes;
        /// Counted devices: hardware, or if none, all but the loopback.
        devices: Vec<String>;
    }
}

figures! {
    /// Rescues.
    #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    pub RescueStatus {
        /// Connections with more goodput after the switch.
        helped: u64;
        /// Connections without, with their former algorithm again.
        undone: u64;
        /// Connections with heavy loss and a queue: congestion, so not switched.
        own_losses: u64;
        /// Connections with loss, without a queue, and not switched, by reason.
        withheld: BTreeMap<String, u64>;
    }
}

figures! {
    /// The learner in the daemon.
    #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
    pub LearningStatus {
        /// Known paths. An address counts several times if its handshakes differ.
        paths: u64;
        /// Groups, sites and classes above the paths.
        nodes: u64;
        /// Choice distributions.
        choice_dists: u64;
        /// Maximum of choice distributions.
        choice_dists_max: u64;
        /// Publications of choice distributions.
        publications: u64;
        /// Records from the programs.
        records: u64;
        /// Records used by the learner.
        #[serde(alias = "taught")]
        updates: u64;
        /// Rejected records, by reason.
        #[serde(alias = "silent")]
        rejected: BTreeMap<String, u64>;
        /// Records lost for lack of space.
        dropped: u64;
        /// Time of the learner's turns, twenty a second, in s.
        turns: HistogramView;
        /// Expected cost of exploration; 1 is the whole reward of a connection.
        explored: f64;
        /// Percent of groups under steering.
        steer_percent: u32;
        /// Counts of each policy.
        policies: Vec<PolicyStatus>;
        /// Last detected changes of paths, newest first.
        changes: Vec<ChangeView>;
    }
}

figures! {
    /// The choices of a policy.
    #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
    pub PolicyStatus {
        /// Name and default of the policy.
        policy: String;
        /// Name and default of the policy.
        default: String;
        /// Ended connections by algorithm.
        algorithms: Vec<DrawnAlgorithm>;
    }
}

figures! {
    /// How often an algorithm was in force.
    #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
    pub DrawnAlgorithm {
        /// Congestion control.
        name: String;
        /// Their number.
        connections: u64;
        /// Sum of their probabilities of getting it.
        probability: f64;
        /// Their measures by group.
        shown: Vec<ShownView>;
    }
}

figures! {
    /// The measures of an algorithm's connections, without rejected records.
    #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
    pub ShownView {
        /// `treated`, or `control` for held-out connections.
        group: String;
        /// Goodput while data was under way, in bytes/s.
        goodput: HistogramView;
        /// Least RTT of these connections, in seconds.
        min_rtt: HistogramView;
        /// Smoothed RTT at the end or last sample, in seconds.
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
        /// Upper bounds of the counts, without the last one's.
        bounds: Vec<f64>;
        /// Values up to each bound.
        counts: Vec<u64>;
        /// Sum of the values.
        sum: f64;
    }
}

figures! {
    /// A path or a node above some was found to have changed.
    #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
    pub ChangeView {
        /// As in `paths`.
        level: String;
        /// Addresses and policy.
        prefix: String;
        /// Addresses and policy.
        policy: String;
        /// Time since the change was found.
        age_s: f64, Seconds;
    }
}

figures! {
    /// Upgrades in place: to another program, or to the same one with a new configuration.
    #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    pub Upgrades {
        /// How many succeeded.
        done: u64;
        /// How many were refused.
        refused: u64;
        /// Why the last one was refused.
        problems: Vec<String>;
    }
}

figures! {
    /// The state in short.
    #[derive(Debug, Serialize)]
    pub StateSummary {
        /// The daemon, or the file.
        from: String;
        /// Saved paths.
        paths: usize;
        /// Their connections.
        connections: u64;
        /// Last use of the longest unused path, and of any.
        oldest_unix_s: Option<u64>, Seconds;
        /// Last use of the longest unused path, and of any.
        newest_unix_s: Option<u64>, Seconds;
    }
}
