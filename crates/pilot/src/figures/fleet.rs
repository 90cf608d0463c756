//! The figures of a fleet, of the daemon and of a path.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tcpilot_show::figure::figures;

figures! {
    /// The daemon's part in a fleet.
    #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
    pub FleetStatus {
        /// Use of the knowledge of other hosts: `on`, `show` or `off`.
        hear: String;
        /// Folder of the agent `tcpilot-fleet`.
        dir: String;
        /// Groups of addresses that this host says something of.
        groups_said: u64;
        /// Time since they were last written; `null` before the first time.
        said_ago_s: Option<f64>, Seconds;
        /// Groups of addresses that other hosts say something of.
        groups_heard: u64;
        /// Time since the agent wrote this; `null` if nothing was heard since the start.
        heard_ago_s: Option<f64>, Seconds;
        /// Files of the agent that were refused since the start, by the reason.
        refused: BTreeMap<String, u64>;
    }
}

figures! {
    /// The knowledge of other hosts of a fleet about a path's group.
    #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
    pub FleetView {
        /// As many whole connections with each algorithm say as much.
        connections: f64;
        /// The part of it that counts. It is less than 1 if it contradicts this host's knowledge.
        believed: f64, Share;
        /// The paths of other hosts behind it; the true number is less than twice as large.
        paths: u64;
        /// Time since the last connection behind it, up to a quarter of an hour.
        age_s: f64, Seconds;
        /// Whether choices use it; false with `hear = "show"`.
        used: bool;
        /// Probabilities of the algorithms without it if it is used, and with it if not.
        shares_otherwise: BTreeMap<String, f64>;
    }
}
