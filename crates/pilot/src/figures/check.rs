//! The figures of a check before the start.

use serde::Serialize;
use tcpilot_show::figure::figures;

use super::TrafficView;

figures! {
    /// Whether this host can run tcpilot.
    #[derive(Debug, Serialize)]
    pub CheckReport {
        /// Whether `tcpilot run` would start.
        ready: bool;
        /// The checks, in order.
        checks: Vec<CheckView>;
        /// As in `status`; `null` if not measured.
        traffic: Option<TrafficView>;
    }
}

figures! {
    /// One check.
    #[derive(Clone, Debug, PartialEq, Eq, Serialize)]
    pub CheckView {
        /// Its name.
        name: String;
        /// `ok`, `note` (tcpilot runs with less than it could), or `fails`.
        state: String;
        /// The finding.
        found: String;
        /// The remedy; empty if none is needed.
        remedy: String;
    }
}
