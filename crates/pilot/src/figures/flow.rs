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
        /// Congestion control in force.
        algorithm: String, "Algorithm";
        /// Why it has this algorithm, in a word; docs/use/commands.md explains each.
        why: String, "Why";
        /// Algorithm charged with its cost; `null` if left alone.
        charged_to: Option<String>;
        /// The matching policy.
        policy: String;
        /// `connect`, `accept`, or `either` if unknown.
        side: String;
        /// Smoothed RTT.
        srtt_us: Option<u32>, Microseconds, "RTT";
        /// Least RTT.
        min_rtt_us: Option<u32>, Microseconds;
        /// Last sample of its delivery rate.
        delivery_rate: Option<u64>, BytesPerSecond, "Rate";
        /// Whether the application limited this sample.
        app_limited: bool;
        /// Segments retransmitted over segments sent.
        loss_ratio: Option<f64>, Share, "Loss";
        /// Acknowledged data.
        bytes_acked: u64, Bytes;
        /// Congestion window.
        cwnd: u32, Packets, "Cwnd";
        /// Slow start threshold; `null` before the first.
        ssthresh: Option<u32>, Packets;
        /// Time since it was opened, if tcpilot changed its algorithm.
        age_s: Option<f64>, Seconds, "Age";
        /// Whether tcpilot decided, but set nothing.
        dry_run: bool;
        /// Tunings in force.
        tunings: Vec<String>, "Tunings";
        /// Initial window set by tcpilot; `null` if it is the kernel's.
        initial_window: Option<u32>, Packets, "IW";
        /// Inode of the socket, as in `ss -e`; `null` once its application has closed it.
        inode: Option<u64>;
        /// Number of its cgroup, as in `ls -id`.
        cgroup_id: Option<u64>;
        /// Its processes, with `--processes`.
        processes: Vec<String>;
        /// Process ids of its processes, with `--processes`.
        pids: Vec<u32>;
        /// Its cgroup, such as `/system.slice/nginx.service`, with `--processes`.
        cgroup: Option<String>;
        /// Its pod, with `--processes`: `NAMESPACE/NAME` if the host has `/var/log/pods`, else its id.
        pods: Vec<String>;
    }
}

figures! {
    /// A choice and its result.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    pub DecisionView {
        /// Time since it was opened.
        age_s: f64, Seconds;
        /// Its algorithm; `null` if the kernel's default stayed.
        algorithm: Option<String>;
        /// As in `flows`, and as a sentence.
        why: String;
        /// As in `flows`, and as a sentence.
        because: String;
        /// `connect` or `accept`.
        side: String;
        /// Whether tcpilot decided, but set nothing.
        dry_run: bool;
        /// `closed`, `timed-out`, `open` at its last sample, or `switched`.
        end: String;
        /// Rate while data was under way, within 2 %; `null` if it was too short.
        goodput: Option<u64>, BytesPerSecond;
        /// Retransmitted share of segments, within 2 %; `null` if unknown.
        loss_ratio: Option<f64>, Share;
    }
}

figures! {
    /// Why connections to an address are treated as they are.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    pub Explanation {
        /// Why steering is stopped for this address; `null` if it is not.
        stopped: Option<String>;
        /// The address or prefix.
        address: String;
        /// Its paths, one for each namespace and policy.
        paths: Vec<ExplainedPath>;
        /// Its connections, as in `flows`, with those left alone.
        flows: Vec<FlowView>;
    }
}

figures! {
    /// A path with its last decisions.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    pub ExplainedPath {
        /// As in `paths`.
        path: PathView;
        /// Last eight ended or sampled connections, newest first; of small ones one in sixteen.
        decisions: Vec<DecisionView>;
        /// Its tunings; `null` if none.
        tuning: Option<TuningView>;
    }
}
