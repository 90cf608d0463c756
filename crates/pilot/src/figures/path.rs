//! The figures of a path, and of each algorithm there.

use tcpilot_core::Prefix;
use tcpilot_show::figure::figures;

use super::fleet::FleetView;

figures! {
    /// One path, as `tcpilot paths --json` prints it.
    #[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
    pub PathView {
        /// Network namespace: `host` for the daemon's own, the name in `ip netns`, or the inode number; `all` for a
        /// path shared by all namespaces.
        netns: String;
        /// Remote addresses of the path.
        prefix: Prefix;
        /// `default`, or the name of a policy.
        policy: String;
        /// Least RTT of the window (`learner.window_s`, at most twice as long).
        min_rtt_us: Option<u32>, Microseconds, "min RTT";
        /// RTT smoothed over connections, and samples of long ones, with gain 1/8.
        srtt_us: Option<u32>, Microseconds, "smoothed RTT";
        /// Highest delivery rate of the window. Application-limited samples do not count.
        max_delivery_rate: Option<u64>, BytesPerSecond, "max rate";
        /// Ended and open connections.
        connections: u64, "connections";
        /// Open connections, if tcpilot saw them open.
        live_flows: u32, "live";
        /// Names of the processes with these connections, with `--processes`. Only root sees those of others.
        processes: Vec<String>;
        /// Kubernetes pods with these connections, with `--processes`.
        pods: Vec<String>;
        /// Segments retransmitted in the window over segments sent in it.
        loss_ratio: Option<f64>, Share, "loss";
        /// Highest slow start threshold of `ssthresh.window_s`.
        ssthresh: Option<u32>, Packets, "ssthresh";
        /// Time since a connection last gave a measure.
        age_s: f64, Seconds;
        /// The algorithms to choose from, the default first.
        algorithms: Vec<AlgorithmView>;
        /// The algorithm that the others are compared with: the kernel's default in the network namespace of the path.
        /// `null` if this default is not among the algorithms: then there is nothing to compare with.
        baseline: Option<String>;
        /// The node whose knowledge this is. `path` is the path itself. `group`, `site`, `class` and `global` show
        /// the knowledge for unseen addresses below the node; they have no measures.
        level: String;
        /// The host's outgoing interface, or the number of another namespace's; `null` if all interfaces share the path.
        interface: Option<String>;
        /// The class of handshakes of the path: RTT, ECN, window, interface, side; `null` for the node
        /// `global`.
        class: Option<String>;
        /// The path's own experience, counted in whole connections as of now. The rest of its knowledge comes
        /// from its neighbours.
        experience: f64;
        /// Expected cost of exploration in its group of neighbours so far. 1 is the whole reward of a
        /// connection.
        explored: f64;
        /// Remaining budget of exploration there, in the same unit.
        budget: f64;
        /// Share of the default's losses that came with a queue; 0.8 if nothing is known.
        queued_losses: f64, Share;
        /// Gain over the default from which an algorithm is preferred here. It is large where losses come with a
        /// queue, since others may share the queue (`shared_bonus_percent`).
        gain_needed: f64, Share;
        /// Connections switched after lasting loss, since the start.
        rescued: u64;
        /// Switched connections with their former algorithm back, because the switch did not help.
        undone: u64;
        /// How often long connections were moved to a better algorithm, since the start.
        moved: u64;
        /// Time since the last detected change of the path or of a node above it; `null` if there was none.
        changed_age_s: Option<f64>, Seconds;
        /// The knowledge of other hosts of a fleet about the path's group; `null` if they have none.
        #[serde(default)]
        fleet: Option<FleetView>;
    }
}

figures! {
    /// An algorithm of a path.
    #[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
    pub AlgorithmView {
        /// Name of the congestion control.
        name: String, "Algorithm";
        /// The learner's measure for comparison, in millionths; less is better. Thompson: expected loss of
        /// reward against the best algorithm. Epsilon-greedy: distance from the least RTT and the highest rate
        /// of the path.
        cost: u64, Millionths, "Cost";
        /// Ended connections with this algorithm.
        chosen: u32, "Connections";
        /// Its connections while it was the favourite, with a probability above one half.
        greedy: u32, "Greedy";
        /// Its connections with a sample.
        samples: u32;
        /// Connections rescued from it, since the start.
        rescued: u32;
        /// Least RTT of its connections in the window.
        min_rtt_us: Option<u32>, Microseconds, "Min RTT";
        /// Highest rate of its connections in the window.
        max_delivery_rate: Option<u64>, BytesPerSecond, "Max rate";
        /// Probability of this algorithm for the next connection.
        share: f64, Share, "Share";
        /// Why the algorithm may not be chosen on this path, as a sentence (see [ECN](configuration.md#ecn));
        /// `null` if it may.
        not_eligible: Option<String>;
        /// Rate that the learner expects of a usual connection of this path with this algorithm: goodput, less the share
        /// of retransmitted segments and a little for the queue it makes. `null` before the path's first sample, and
        /// for a node above the paths.
        expected_rate: Option<u64>, BytesPerSecond, "Rate";
        /// Lower end of the 95 % interval of this rate.
        expected_rate_low: Option<u64>, BytesPerSecond;
        /// Upper end of the interval.
        expected_rate_high: Option<u64>, BytesPerSecond;
        /// How much more reward the algorithm brings than the baseline, as a part of the baseline's reward;
        /// `null` for the baseline itself.
        effect: Option<f64>, Share, "Effect";
        /// Lower end of the 95 % interval of the true effect.
        effect_low: Option<f64>, Share, "From";
        /// Upper end of the interval.
        effect_high: Option<f64>, Share, "To";
        /// Main source of the knowledge about this effect: `path`, `group`, `site`, `class` or
        /// `global`; `null` if there is none yet.
        learned_from: Option<String>, "Learned from";
    }
}

impl PathView {
    /// The most recently used first.
    pub fn sort(views: &mut [PathView]) {
        views.sort_by(|a, b| {
            a.age_s
                .total_cmp(&b.age_s)
                .then_with(|| a.prefix.cmp(&b.prefix))
        });
    }
}
