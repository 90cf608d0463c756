//! The figures of the tunings.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tcpilot_abi::tp_cohort;
use tcpilot_show::figure::figures;

figures! {
    /// The tunings of one path, and the figures behind them.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    pub TuningView {
        /// Inferred kind of network, and why.
        network: String;
        /// Inferred kind of network, and why.
        because: String;
        /// Greatest window that fitted in the last 30 to 60 s.
        saved_window: Option<u32>, Packets;
        /// Variation of the RTT.
        rttvar_us: Option<u32>, Microseconds;
        /// After losses the excess of the initial window is divided by 2^brake.
        brake: u8;
        /// Windows with a loss before all was acknowledged.
        retreats: u32;
        /// Rate of a policer; `null` if none was found.
        policed_rate: Option<u64>, BytesPerSecond;
        /// Tunings switched on for this path.
        tunings: Vec<TuneView>;
    }
}

figures! {
    /// One tuning of a path.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    pub TuneView {
        /// The tuning.
        name: String;
        /// How often it was set.
        set: u32;
        /// Last value, and the figures behind it; empty if none yet.
        last: String;
        /// Whether the guard has switched it off.
        switched_off: bool;
        /// Why connections do not get it now; `null` if they do.
        waits: Option<String>;
        /// Connections with it.
        with: CohortView;
        /// Connections held out from it, with the same fields.
        without: CohortView;
    }
}

figures! {
    /// Connections in the guard's comparison.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    pub CohortView {
        /// Their number.
        connections: u32;
        /// Those with more than twice the path's least RTT at their end.
        late: u32;
        /// Segments sent, and retransmitted.
        sent: u32, Packets;
        /// Segments sent, and retransmitted.
        lost: u32, Packets;
    }
}

impl From<&tp_cohort> for CohortView {
    fn from(g: &tp_cohort) -> CohortView {
        CohortView {
            connections: g.connections,
            late: g.late,
            sent: g.sent_packets,
            lost: g.lost_packets,
        }
    }
}

figures! {
    /// All tunings, counted since the start.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    pub TuningsStatus {
        /// Objective and kind of network, unless a policy names others.
        objective: String;
        /// Objective and kind of network, unless a policy names others.
        network: String;
        /// How often each was set.
        set: BTreeMap<String, u64>;
        /// How often the kernel refused it.
        refused: BTreeMap<String, u64>;
        /// Initial windows with a loss before all was acknowledged.
        retreats: u64;
        /// Acknowledgements with priority.
        acks_first: u64;
        /// Tunings switched off by the guard.
        guard: Vec<String>;
    }
}
