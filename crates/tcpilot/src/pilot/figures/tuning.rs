//! The figures of the tunings.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tcpilot_abi::tp_cohort;

use crate::show::figure::figures;

figures! {
    /// What is tuned on one path, and from which figures.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    pub TuningView {
        /// The kind of network that the path is taken for.
        network: String;
        /// Why, as a sentence.
        because: String;
        /// Greatest window seen to fit in the last 30 to 60 s.
        saved_window: Option<u32>, Packets;
        /// Variation of the RTT.
        rttvar_us: Option<u32>, Microseconds;
        /// The initial window's excess is divided by 2^brake, after losses.
        brake: u8;
        /// Windows of which something was lost before all was acknowledged.
        retreats: u32;
        /// The rate of a policer, if one was found.
        policed_rate: Option<u64>, BytesPerSecond;
        /// The tunings that the policy has on here.
        tunings: Vec<TuneView>;
    }
}

figures! {
    /// One tuning of a path.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    pub TuneView {
        /// Its name.
        name: String;
        /// How often it was set.
        set: u32;
        /// What was set last, and from which figures; empty: nothing yet.
        last: String;
        /// Whether the guard has switched it off.
        switched_off: bool;
        /// Why connections do not get it now, though it is on; `null`: they do.
        waits: Option<String>;
        /// Connections that had it.
        with: CohortView;
        /// Connections that were held out from it, likewise.
        without: CohortView;
    }
}

figures! {
    /// Connections that the guard compares.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    pub CohortView {
        /// How many.
        connections: u32;
        /// Those that ended with more than twice the path's least RTT.
        late: u32;
        /// Segments sent.
        sent: u32, Packets;
        /// Segments retransmitted.
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
        /// What connections are tuned for, unless their policy says something else.
        objective: String;
        /// The kind of network, likewise.
        network: String;
        /// How often each was set, by name.
        set: BTreeMap<String, u64>;
        /// How often the kernel refused it, by name.
        refused: BTreeMap<String, u64>;
        /// Initial windows of which something was lost before all was acknowledged.
        retreats: u64;
        /// Acknowledgements that got priority.
        acks_first: u64;
        /// What the guard has switched off, a sentence each.
        guard: Vec<String>;
    }
}
