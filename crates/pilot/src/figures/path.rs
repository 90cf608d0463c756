//! The figures of a path, and of each algorithm there.

use tcpilot_core::Prefix;
use tcpilot_show::figure::figures;

figures! {
    /// One path, as `tcpilot paths --json` prints it.
    #[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
    pub PathView {
        /// Network namespace: `host` for the daemon's own, the name that `ip netns` knows, or the inode
        /// number; `all` for a path that all namespaces share.
        netns: String;
        /// Remote addresses of the path.
        prefix: Prefix;
        /// `default`, or the name of a policy.
        policy: String;
        /// Least RTT of the window (`learner.window_s`, at most twice as long).
        min_rtt_us: Option<u32>, Microseconds, "min RTT";
        /// RTT smoothed over connections, and samples of long ones, with gain 1/8.
        srtt_us: Option<u32>, Microseconds, "smoothed RTT";
        /// Highest delivery rate of the window. Samples in which the application was the limit do not count.
        max_delivery_rate: Option<u64>, BytesPerSecond, "max rate";
        /// Connections that ended, and open ones.
        connections: u64, "connections";
        /// Open connections, of those that tcpilot saw open.
        live_flows: u32, "live";
        /// Names of the processes that have these connections open, with `--processes`. Only root sees those of
        /// others.
        processes: Vec<String>;
        /// Kubernetes pods that these connections belong to, with `--processes`.
        pods: Vec<String>;
        /// Segments retransmitted in the window over segments sent in it.
        loss_ratio: Option<f64>, Share, "loss";
        /// Highest slow start threshold of `ssthresh.window_s`.
        ssthresh: Option<u32>, Packets, "ssthresh";
        /// Time since a connection last gave a measure.
        age_s: f64, Seconds;
        /// The algorithms to choose from, the default first.
        algorithms: Vec<AlgorithmView>;
        /// The node whose knowledge this is. `path` is the path itself. `group`, `site`, `class` and `global`
        /// show the knowledge that an unknown address below that node gets; they have no measures.
        level: String;
        /// The interface of the host that its connections leave by; `null` if all interfaces share the path.
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
        /// Further cost that exploration may have there.
        budget: f64;
        /// Connections that were switched after heavy loss, since the start.
        rescued: u64;
        /// Of these, the connections that got their former algorithm back, because the switch did not help.
        undone: u64;
        /// How often long connections were moved to a better algorithm, since the start.
        moved: u64;
        /// Time since the learner last found that the path, or a node above it, had changed; `null` if it has
        /// not.
        changed_age_s: Option<f64>, Seconds;
    }
}

figures! {
    /// An algorithm of a path.
    #[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
    pub AlgorithmView {
        /// Name of the congestion control.
        name: String, "Algorithm";
        /// The number that the learner compares, in millionths; less is better. Thompson: expected loss of
        /// reward against the best algorithm. Epsilon-greedy: distance from the least RTT and the highest rate
        /// of the path.
        cost: u64, Millionths, "Cost";
        /// Connections with this algorithm that ended.
        chosen: u32, "Connections";
        /// Of these, the connections that got it while it was the favourite, with a probability above one half.
        greedy: u32, "Greedy";
        /// Of these, the connections that it was judged by.
        samples: u32;
        /// Connections that were rescued from it, since the start.
        rescued: u32;
        /// Least RTT of its connections in the window.
        min_rtt_us: Option<u32>, Microseconds, "Min RTT";
        /// Highest rate of its connections in the window.
        max_delivery_rate: Option<u64>, BytesPerSecond, "Max rate";
        /// Probability that the next connection gets it.
        share: f64, Share, "Share";
        /// Why the algorithm may not be chosen on this path, as a sentence (see [ECN](configuration.md#ecn));
        /// `null` if it may.
        not_eligible: Option<String>;
        /// How much more reward the algorithm brings than the default, as a part of the default's reward;
        /// `null` for the default itself.
        effect: Option<f64>, Share, "Effect";
        /// Lower end of the interval that holds the true effect with 95 %.
        effect_low: Option<f64>, Share, "From";
        /// Upper end of that interval.
        effect_high: Option<f64>, Share, "To";
        /// Level from which most of the knowledge of this effect comes: `path`, `group`, `site`, `class` or
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
