//! The figures of a fleet, of the daemon and of a path.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tcpilot_show::figure::figures;

use super::effect::MeasureView;

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
        /// Whether choices use it; false with `hear = "show"`, and on a site held back from the fleet.
        used: bool;
        /// Whether its site is held back from the fleet, for `report --fleet`.
        #[serde(default)]
        held_back: bool;
        /// Probabilities of the algorithms without it if it is used, and with it if not.
        shares_otherwise: BTreeMap<String, f64>;
    }
}

figures! {
    /// Whether the fleet helps.
    #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
    pub FleetReport {
        /// Why there is no result; `null` if there is one, or will be.
        unknown: Option<String>;
        /// Start of the comparison, and time of this report.
        since_unix_s: u64, Seconds;
        /// Start of the comparison, and time of this report.
        now_unix_s: u64, Seconds;
        /// Percent of sites (/16, /32) held back from the fleet.
        held_back_percent: u32;
        /// Time after which others are.
        rotation_s: u64, Seconds;
        /// The first ten connections of each path, and later ones.
        first: FleetComparison;
        /// The first ten connections of each path, and later ones.
        later: FleetComparison;
    }
}

figures! {
    /// Connections to sites with the fleet, against those to held-back ones.
    #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
    pub FleetComparison {
        /// Held-back sites, each in a period and paired with others.
        pairs: u64;
        /// Connections in pairs.
        connections: u64;
        /// Change by the fleet, as in `measures` above.
        measures: Vec<MeasureView>;
    }
}
