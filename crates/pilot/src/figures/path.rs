//! The figures of a path, and of each algorithm there.

use tcpilot_core::Prefix;
use tcpilot_show::figure::figures;

use super::fleet::FleetView;

figures! {
    /// One path, as `tcpilot paths --json` prints it.
    #[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
    pub PathView {
        /// Network namespace: `host`, a name of `ip netns`, an inode number, or `all` if namespaces share the path.
        netns: String;
        /// Remote addresses.
        prefix: Prefix;
        /// `default`, or the name of a policy.
        policy: String;
        /// Least RTT of the last `learner.window_s`, at most twice as long.
        min_rtt_us: Option<u32>, Microseconds, "min RTT";
        /// RTT smoothed over connections and samples, with gain 1/8.
        srtt_us: Option<u32>, Microseconds, "smoothed RTT";
        /// Highest delivery rate of the window, without application-limited samples.
        max_delivery_rate: Option<u64>, BytesPerSecond, "max rate";
        /// Ended and open connections.
        connections: u64, "connections";
        /// Open connections, if opened under tcpilot.
        live_flows: u32, "live";
        /// Processes with these connections, with `--processes`.
        processes: Vec<String>;
        /// Kubernetes pods with these connections, with `--processes`.
        pods: Vec<String>;
        /// Retransmitted share of segments, in the window.
        loss_ratio: Option<f64>, Share, "loss";
        /// Highest slow start threshold of `ssthresh.window_s`.
        ssthresh: Option<u32>, Packets, "ssthresh";
        /// Time since the last measure.
        age_s: f64, Seconds;
        /// Algorithms to choose from, the default first.
        algorithms: Vec<AlgorithmView>;
        /// Algorithm for comparison: the kernel's default in the path's namespace; `null` if tcpilot may not choose
        /// it.
        baseline: Option<String>;
        /// Node of this knowledge: `path`, or above it `group`, `site`, `class`, `global`.
        level: String;
        /// Outgoing interface, or the number of another namespace's; `null` if interfaces share the path.
        interface: Option<String>;
        /// Class of its handshakes: RTT, ECN, window, interface, side; `null` for `global`.
        class: Option<String>;
        /// Own experience in whole connections, as of now; its other knowledge is its neighbours'.
        experience: f64;
        /// Expected cost of exploration in its group so far; 1 is the whole reward of a connection.
        explored: f64;
        /// Remaining budget for exploring in its group, in the unit of `explored`.
        budget: f64;
        /// Share of the default's losses that came with a queue; 0.8 if unknown.
        queued_losses: f64, Share;
        /// Gain over the default before an algorithm is preferred; large if losses come with a queue.
        gain_needed: f64, Share;
        /// Connections switched after lasting loss.
        rescued: u64;
        /// Switched connections with their former algorithm again.
        undone: u64;
        /// Moves of long connections.
        moved: u64;
        /// Time since the last detected change of the path or a node above; `null` if none.
        changed_age_s: Option<f64>, Seconds;
        /// Knowledge of other hosts of a fleet about its group; `null` if none.
        #[serde(default)]
        fleet: Option<FleetView>;
    }
}

figures! {
    /// An algorithm of a path.
    #[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
    pub AlgorithmView {
        /// Congestion control.
        name: String, "Algorithm";
        /// Learner's cost: expected loss of reward (thompson), or distance from the path's least RTT and highest
        /// rate.
        cost: u64, Millionths, "Cost";
        /// Ended connections with it.
        chosen: u32, "Connections";
        /// Ended connections while its probability was above one half.
        greedy: u32, "Greedy";
        /// Ended connections with a sample.
        samples: u32;
        /// Connections rescued from it.
        rescued: u32;
        /// Least RTT of its connections in the window.
        min_rtt_us: Option<u32>, Microseconds, "Min RTT";
        /// Highest delivery rate of its connections in the window.
        max_delivery_rate: Option<u64>, BytesPerSecond, "Max rate";
        /// Its probability for the next connection.
        share: f64, Share, "Share";
        /// Why it may not be chosen here ([ECN](configuration.md#ecn)); `null` if it may.
        not_eligible: Option<String>;
        /// Expected goodput of a usual connection, less its retransmitted share and a little for its queue; `null`
        /// before a sample.
        expected_rate: Option<u64>, BytesPerSecond, "Rate";
        /// End of its 95 % interval.
        expected_rate_low: Option<u64>, BytesPerSecond;
        /// End of its 95 % interval.
        expected_rate_high: Option<u64>, BytesPerSecond;
        /// Gain of reward over the baseline, as a part of the baseline's; `null` for the baseline.
        effect: Option<f64>, Share, "Effect";
        /// End of its 95 % interval.
        effect_low: Option<f64>, Share, "From";
        /// End of its 95 % interval.
        effect_high: Option<f64>, Share, "To";
        /// Main source of this effect: `path`, `group`, `site`, `class` or `global`; `null` if none yet.
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
