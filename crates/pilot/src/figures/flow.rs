//! The figures of a connection, of a decision, and of an explanation.

use serde::{Deserialize, Serialize};
use tcpilot_show::figure::figures;

use super::{path::PathView, tuning::TuningView};

figures! {
    /// One live connection.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    pub FlowView {
        /// This host's address and port.
        local: String, "Local";
        /// The peer's address and port.
        remote: String, "Remote";
        /// Network namespace, as in `paths`.
        netns: String, "Netns";
        /// The congestion control in force, read from the socket.
        algorithm: String, "Algorithm";
        /// Why it has this algorithm, in a word; docs/use/commands.md explains each.
        why: String, "Why";
        /// The algorithm charged with its cost; `null` for a connection left alone.
        charged_to: Option<String>;
        /// The matching policy.
        policy: String;
        /// `connect` or `accept`; `either` if the daemon did not keep it.
        side: String;
        /// Smoothed RTT.
        srtt_us: Option<u32>, Microseconds, "RTT";
        /// Least RTT.
        min_rtt_us: Option<u32>, Microseconds;
        /// The last sample of its delivery rate.
        delivery_rate: Option<u64>, BytesPerSecond, "Rate";
        /// Whether the application was the limit during the sample.
        app_limited: bool;
        /// Segments retransmitted over segments sent.
        loss_ratio: Option<f64>, Share, "Loss";
        /// Acknowledged data.
        bytes_acked: u64, Bytes;
        /// Congestion window.
        cwnd: u32, Packets, "Cwnd";
        /// Slow start threshold; `null` before the first.
        ssthresh: Option<u32>, Packets;
        /// Time since the connection was opened; known only if tcpilot changed its algorithm.
        age_s: Option<f64>, Seconds, "Age";
        /// Whether tcpilot decided, but set nothing.
        dry_run: bool;
        /// Tunings in force.
        tunings: Vec<String>, "Tunings";
        /// The initial window set by tcpilot; `null` if it is the kernel's.
        initial_window: Option<u32>, Packets, "IW";
        /// Inode number of the socket, as `ss -e` shows it; `null` once its application has closed it.
        inode: Option<u64>;
        /// Number of the socket's cgroup, as `ls -id` shows it.
        cgroup_id: Option<u64>;
        /// Names of its processes, with `--processes`. Only root sees those of others.
        processes: Vec<String>;
        /// Numbers of these processes.
        pids: Vec<u32>;
        /// Path of the cgroup, such as `/system.slice/nginx.service`, with `--processes`.
        cgroup: Option<String>;
        /// The Kubernetes pod of the cgroup, with `--processes`: `NAMESPACE/NAME` if the host has
        /// `/var/log/pods`, else its id.
        pods: Vec<String>;
    }
}

figures! {
    /// A choice and its result.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    pub DecisionView {
        /// Time since the connection opened.
        age_s: f64, Seconds;
        /// The algorithm; `null` if the kernel's default stayed.
        algorithm: Option<String>;
        /// The reason, in a word, as in `flows`.
        why: String;
        /// The same reason, as a sentence.
        because: String;
        /// `connect` or `accept`.
        side: String;
        /// Whether tcpilot decided, but set nothing.
        dry_run: bool;
        /// The fate of the connection: `closed`, `timed-out`, `open` at its last sample, or `switched` to
        /// another algorithm.
        end: String;
        /// Its rate while data was under way, within 2 %; `null` if it was too short.
        goodput: Option<u64>, BytesPerSecond;
        /// Segments retransmitted over segments sent, within 2 %; `null` if unknown.
        loss_ratio: Option<f64>, Share;
    }
}

figures! {
    /// Why connections to an address are treated as they are.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    pub Explanation {
        /// Why steering is stopped for this address; `null` if it is not.
        stopped: Option<String>;
        /// The address or prefix in question.
        address: String;
        /// Its paths, one for each namespace and policy with a connection to it.
        paths: Vec<ExplainedPath>;
        /// Its live connections, as in `flows`, with those left alone.
        flows: Vec<FlowView>;
    }
}

figures! {
    /// A path with its last decisions.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    pub ExplainedPath {
        /// The path, as in `paths`.
        path: PathView;
        /// The decisions on the last eight ended or sampled connections, the newest first. One in sixteen of the
        /// connections with little data is among them.
        decisions: Vec<DecisionView>;
        /// Its tunings; `null` if there are none.
        tuning: Option<TuningView>;
    }
}
