//! The figures of a path, and of each algorithm there.

use tcpilot_abi::{tp_arm, tp_learner_arm, tp_path};
use tcpilot_core::Prefix;

use super::measure::{Cost, Count, Count64, Greatest, Least, Measure, Number, Sum, measures};

measures! {
    from (path: tp_path);
    /// One path, as `tcpilot paths --json` prints it.
    view PathView;
    /// The stored form of a path. Rates are bytes per second, RTTs microseconds; 0 is "no sample".
    kept StoredPath;
    named {
        /// Network namespace: `host` for the daemon's own, the name that `ip netns` knows, or the inode
        /// number; `all` for a path that all namespaces share.
        netns: String;
        /// Remote addresses of the path.
        prefix: Prefix;
        /// `default`, or the name of a policy.
        policy: String;
    }
    measured {
        /// Least RTT of the window (`learner.window_s`, at most twice as long).
        min_rtt_us: Least = path.min_rtt_us, Microseconds, "min RTT";
        /// RTT smoothed over connections, and samples of long ones, with gain 1/8.
        srtt_us: Number = path.srtt_us, Microseconds, "smoothed RTT";
        /// Highest delivery rate of the window. Samples in which the application was the limit do not count.
        max_delivery_rate: Greatest = path.max_delivery_rate, BytesPerSecond, "max rate";
        /// Connections that ended.
        connections: Count64 = path.connections, "connections";
    }
    shown {
        /// Open connections.
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
    kept {
        /// Segments sent in the window.
        sent_packets: Sum = path.sent_packets;
        /// Segments retransmitted in the window.
        lost_packets: Sum = path.lost_packets;
        /// Connections that gave a measure.
        instances: Count = path.learner.instances;
    }
    stored {
        /// Last opening or end of a connection, in seconds since 1970.
        updated_unix_s: u64;
        /// The algorithms that were ever chosen.
        #[serde(alias = "arms")] // its name in files that older versions wrote
        algorithms: Vec<StoredAlgorithm>;
    }
}

measures! {
    from (learned: tp_learner_arm, arm: tp_arm);
    /// An algorithm of a path.
    view AlgorithmView;
    /// The stored form of an algorithm of a path.
    kept StoredAlgorithm;
    named {
        /// Name of the congestion control.
        name: String, "Algorithm";
    }
    measured {
        /// The number that the learner compares; less is better. Thompson: expected loss of reward against
        /// the best algorithm. Epsilon-greedy: distance from the least RTT and the highest rate of the path;
        /// `null` before the first sample.
        cost: Cost = learned.cost, Millionths, "Cost", if learned.samples > 0;
        /// Connections with this algorithm that ended.
        chosen: Count = learned.chosen, "Connections";
        /// Of these, the connections that got it while it was the favourite, with a probability above one half.
        greedy: Count = learned.greedy, "Greedy";
        /// Of these, the connections that it was judged by.
        samples: Count = learned.samples;
        /// Connections that were rescued from it, since the start.
        rescued: Count = arm.rescued;
        /// Least RTT of its connections in the window.
        min_rtt_us: Least = arm.min_rtt_us, Microseconds, "Min RTT";
        /// Highest rate of its connections in the window.
        max_delivery_rate: Greatest = arm.max_delivery_rate, BytesPerSecond, "Max rate";
    }
    shown {
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
    kept {}
    stored {}
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
