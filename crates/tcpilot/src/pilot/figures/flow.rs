//! The figures of a connection, of a choice that was made, and what explains both.

use serde::{Deserialize, Serialize};

use super::{path::PathView, tuning::TuningView};
use crate::show::figure::figures;

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
        /// Why it has this algorithm, in a word.
        why: String, "Why";
        /// The algorithm that its cost is charged to.
        charged_to: Option<String>;
        /// Policy.
        policy: String;
        /// `connect` or `accept`; `either` if that was not kept.
        side: String;
        /// Smoothed RTT.
        srtt_us: Option<u32>, Microseconds, "RTT";
        /// Least RTT.
        min_rtt_us: Option<u32>, Microseconds;
        /// The last sample of its rate.
        delivery_rate: Option<u64>, BytesPerSecond, "Rate";
        /// Whether the application limited that sample.
        app_limited: bool;
        /// Segments retransmitted over segments sent.
        loss_ratio: Option<f64>, Share, "Loss";
        /// Data that the peer has acknowledged.
        bytes_acked: u64, Bytes;
        /// Congestion window.
        cwnd: u32, Packets, "Cwnd";
        /// Slow start threshold; `null` before the first.
        ssthresh: Option<u32>, Packets;
        /// Time since it was opened, known only if tcpilot changed the algorithm.
        age_s: Option<f64>, Seconds, "Age";
        /// Decided, but not set.
        dry_run: bool;
        /// Tunings in force.
        tunings: Vec<String>, "Tunings";
        /// The initial window that was set; `null`: the kernel's.
        initial_window: Option<u32>, Packets, "IW";
    }
}

figures! {
    /// A choice that was made.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    pub DecisionView {
        /// How long ago.
        age_s: f64, Seconds;
        /// The algorithm; `null`: the kernel's default stayed.
        algorithm: Option<String>;
        /// Why, in a word, as in `flows`.
        why: String;
        /// The reason, as a sentence.
        because: String;
        /// `connect` or `accept`; `either` if that was not kept.
        side: String;
        /// This host's port.
        local_port: u16;
        /// The peer's port.
        remote_port: u16;
        /// Decided, but not set.
        dry_run: bool;
    }
}

figures! {
    /// Why connections to an address are treated as they are.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    pub Explanation {
        /// Why steering is stopped here; `null`: it is not.
        stopped: Option<String>;
        /// The address or prefix that was asked about.
        address: String;
        /// Its paths, one for each namespace and policy that saw it.
        paths: Vec<ExplainedPath>;
        /// Its live connections, those left alone included, as in `flows`.
        flows: Vec<FlowView>;
    }
}

figures! {
    /// A path with its last decisions.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    pub ExplainedPath {
        /// The path, as in `paths`.
        path: PathView;
        /// At most eight, the newest first.
        decisions: Vec<DecisionView>;
        /// What is tuned there; `null`: nothing.
        tuning: Option<TuningView>;
    }
}
