//! The figures of the daemon.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tcpilot_show::figure::figures;

use super::tuning::TuningsStatus;

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
        /// The learner that chooses: `epsilon-greedy` or `thompson`.
        learner: String;
        /// Counts of the learner; `null` while it does not answer.
        learning: Option<LearningStatus>;
        /// Whether steering helps, in a line; `null` if the daemon cannot know.
        effect: Option<String>;
        /// The algorithms to choose from.
        algorithms: Vec<String>;
        /// Algorithms that the configuration asks for and this host lacks, with the reason.
        algorithms_missing: Vec<String>;
        /// The algorithm to which heavy loss switches a connection; `null` if there is none.
        rescue: Option<String>;
        /// Paths that the daemon remembers.
        paths: u32;
        /// The most paths that the daemon can remember.
        paths_max: u32;
        /// Connections opened since the start, by `why`.
        connections: BTreeMap<String, u64>;
        /// Open connections among them.
        live_flows: u64;
        /// Steered connections that ended.
        closed: u64;
        /// Of these, the connections that an algorithm was judged by.
        charged: u64;
        /// Connections that were switched after heavy loss.
        rescues: u64;
        /// How these switches ended, and why others were not made.
        rescued: RescueStatus;
        /// How often long connections were moved to a better algorithm.
        moves: u64;
        /// Anything that does not work as it should, a sentence each.
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
        /// Calls of the BPF programs; 0 unless the sysctl `kernel.bpf_stats_enabled` is 1.
        bpf_events: u64;
        /// Time spent in the BPF programs; 0 unless the sysctl `kernel.bpf_stats_enabled` is 1.
        bpf_ns: u64, Nanoseconds;
        /// Resident memory of the daemon.
        resident_bytes: u64, Bytes;
        /// The state file, which keeps the knowledge over restarts.
        state: String;
        /// Counts of upgrades in place: to another program, or to the same one with a new configuration.
        take_overs: Upgrades;
    }
}

figures! {
    /// The host's traffic since the daemon attached, and the part that tcpilot can steer. Counted about every
    /// ten seconds.
    #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
    pub TrafficView {
        /// Steered bytes among all that the devices sent and received; at most 1. Connections that are held out
        /// or still too few to choose for count as steered. `null` if nothing was sent or received, or if more
        /// was steered than sent: then some of it stays on this host, or leaves by other devices.
        share: Option<f64>, Share;
        /// Data of steered connections that their peers acknowledged. The connections of namespaces that the
        /// daemon may not enter count once they end.
        steered_bytes: u64, Bytes;
        /// Bytes that the devices sent, with all headers and retransmissions.
        sent_bytes: u64, Bytes;
        /// Bytes that the devices received.
        received_bytes: u64, Bytes;
        /// The devices that count: those of hardware, or if there are none, all but the loopback.
        devices: Vec<String>;
    }
}

figures! {
    /// Rescues.
    #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    pub RescueStatus {
        /// Connections that had more goodput after the switch.
        helped: u64;
        /// Connections that did not, and got their former algorithm back.
        undone: u64;
        /// Connections whose heavy loss came with a queue. That is congestion, so tcpilot did not switch
        /// them.
        own_losses: u64;
        /// Connections whose loss came without a queue, and that were not switched, by the reason.
        withheld: BTreeMap<String, u64>;
    }
}

figures! {
    /// The learner in the daemon.
    #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
    pub LearningStatus {
        /// Paths that the learner knows, of all policies. Connections of one address count as several paths
        /// if their handshakes differ.
        paths: u64;
        /// Groups, sites and classes above the paths.
        nodes: u64;
        /// Choice distributions that the programs can choose by.
        choice_dists: u64;
        /// The most choice distributions that there is room for.
        choice_dists_max: u64;
        /// How often choice distributions were published.
        publications: u64;
        /// Records that came from the programs.
        records: u64;
        /// Of these, the records that updated the learner.
        #[serde(alias = "taught")]
        updates: u64;
        /// Records that were rejected, by the reason.
        #[serde(alias = "silent")]
        rejected: BTreeMap<String, u64>;
        /// Records that were lost because there was no room.
        dropped: u64;
        /// Time that the learner's thread took for each turn, in seconds: twenty times a second it takes in
        /// records and sweeps through choice distributions.
        turns: HistogramView;
        /// Expected cost of exploration so far. 1 is the whole reward of a connection.
        explored: f64;
        /// Percent of the groups that are steered.
        steer_percent: u32;
        /// Counts of each policy.
        policies: Vec<PolicyStatus>;
        /// The last changes of paths that the learner found, the newest first.
        changes: Vec<ChangeView>;
    }
}

figures! {
    /// The choices of a policy.
    #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
    pub PolicyStatus {
        /// Name of the policy.
        policy: String;
        /// The algorithm that the others are compared with.
        default: String;
        /// Its algorithms, with the connections that each of them had.
        algorithms: Vec<DrawnAlgorithm>;
    }
}

figures! {
    /// How often an algorithm was in force.
    #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
    pub DrawnAlgorithm {
        /// Name of the congestion control.
        name: String;
        /// Connections with this algorithm that ended.
        connections: u64;
        /// Sum of the probabilities with which they got it.
        probability: f64;
        /// What they have shown, for each group that has any.
        shown: Vec<ShownView>;
    }
}

figures! {
    /// The measures of an algorithm's connections that updated the learner.
    #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
    pub ShownView {
        /// `treated`, or `control` for connections that are held out.
        group: String;
        /// Goodput of connections, or of parts of long ones, while data was under way, in bytes per second.
        goodput: HistogramView;
        /// Least RTT of these connections, in seconds.
        min_rtt: HistogramView;
        /// Smoothed RTT at their end, or at their last sample, in seconds.
        srtt: HistogramView;
        /// Segments with data that they sent.
        segments: u64;
        /// Segments that they sent again.
        retransmitted: u64;
    }
}

figures! {
    /// How many values lie between bounds.
    #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
    pub HistogramView {
        /// Upper bounds of all counts but the last, which has none.
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
        /// Paths that are kept.
        paths: usize;
        /// All connections of these paths.
        connections: u64;
        /// Last use of the path that was unused for longest, in seconds since 1970.
        oldest_unix_s: Option<u64>, Seconds;
        /// Last use of any path, in seconds since 1970.
        newest_unix_s: Option<u64>, Seconds;
    }
}
