//! The figures of the effect: the change by steering, against held-out connections.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tcpilot_proof::Pairs;
use tcpilot_show::figure::figures;

figures! {
    /// Whether tcpilot helps.
    #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
    pub EffectReport {
        /// Why there is no result; `null` if there is one, or will be.
        unknown: Option<String>;
        /// Start of the comparison, and time of this report.
        since_unix_s: u64, Seconds;
        /// Start of the comparison, and time of this report.
        now_unix_s: u64, Seconds;
        /// How connections are held out: by `prefix`, by `block` or for the whole `host`.
        design: String;
        /// Intended percent of held-out connections.
        hold_out_percent: u32;
        /// End of a trial (pairs without pause); `null` if there is none.
        trial_until_unix_s: Option<u64>, Seconds;
        /// Groups of addresses with a pair.
        groups: u64;
        /// Groups active within a day.
        groups_active: u64;
        /// Pairs of blocks: one steered, one held out.
        pairs: u64;
        /// Connections in pairs.
        connections: u64;
        /// Ended connections of 16 KiB or more.
        connections_all: u64;
        /// Held-out connections of 16 KiB or more.
        connections_held_out: u64;
        /// Goodput missed by held-out connections, in whole connections; 0 if no effect is shown.
        hold_out_cost: f64;
        /// Expected cost of exploration, in the same unit.
        explored: f64;
        /// Change by steering.
        measures: Vec<MeasureView>;
        /// Change for each policy, if there are several.
        policies: Vec<PolicyEffect>;
        /// Groups by loss, the greatest first; at most 1000.
        worst: Vec<GroupView>;
        /// Stops of steering by the guard, newest first.
        stops: Vec<StopView>;
        /// Earlier intervals of goodput, oldest first.
        history: Vec<PointView>;
        /// Algorithms of the connections, by hour.
        choices: Vec<ChoicesView>;
    }
}

figures! {
    /// The change of one measure by steering.
    #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
    pub MeasureView {
        /// `goodput`, `time to complete` (of all connections, and of each class of sizes), `retransmitted`,
        /// or `RTT inflation`.
        name: String;
        /// 0.05 is 5 % more, for `retransmitted` 5 percentage points; `null` below two pairs.
        change: Option<f64>;
        /// End of an interval that holds the true change, at all looks together, in 95 % of trials; `null` below 20
        /// pairs.
        low: Option<f64>;
        /// End of an interval that holds the true change, at all looks together, in 95 % of trials; `null` below 20
        /// pairs.
        high: Option<f64>;
        /// `better`, `worse`, `not shown` (an effect worth having would have shown) or `insufficient data`.
        verdict: String;
        /// Pairs missing for a verdict, if the effect stays; `null` if none.
        pairs_missing: Option<u64>;
        /// Time until these may be there; `null` if unknown.
        ready_in_s: Option<u64>, Seconds;
        /// Pairs missing for the first interval; `null` once there is one.
        #[serde(default)]
        interval_pairs_missing: Option<u64>;
        /// Time until these may be there; `null` if unknown.
        #[serde(default)]
        interval_in_s: Option<u64>, Seconds;
        /// Sums over the pairs, in nats (`retransmitted`: a share). You can add them up over hosts.
        sums: Pairs;
    }
}

figures! {
    /// The effect on the connections of a policy.
    #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
    pub PolicyEffect {
        /// The policy.
        policy: String;
        /// Its connections.
        connections: u64;
        /// As above.
        measures: Vec<MeasureView>;
    }
}

figures! {
    /// The effect on a group of addresses.
    #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
    pub GroupView {
        /// Its addresses, and pairs.
        group: String;
        /// Its addresses, and pairs.
        pairs: u64;
        /// Change of goodput, and its interval; `null` below 20 pairs.
        change: f64;
        /// Change of goodput, and its interval; `null` below 20 pairs.
        low: Option<f64>;
        /// Change of goodput, and its interval; `null` below 20 pairs.
        high: Option<f64>;
    }
}

figures! {
    /// A stop of the guard.
    #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
    pub StopView {
        /// Addresses; empty for the whole host.
        group: String;
        /// Least loss of goodput within the interval.
        harm: f64, Share;
        /// Begin and end.
        at_unix_s: u64, Seconds;
        /// Begin and end.
        until_unix_s: u64, Seconds;
        /// Whether it is in force.
        active: bool;
        /// It in words.
        sentence: String;
    }
}

figures! {
    /// The knowledge at a time.
    #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
    pub PointView {
        /// Time.
        at_unix_s: u64, Seconds;
        /// Pairs until then.
        pairs: u64;
        /// Change of goodput, and its interval.
        change: f64;
        /// Change of goodput, and its interval.
        low: f64;
        /// Change of goodput, and its interval.
        high: f64;
    }
}

figures! {
    /// The connections of an hour.
    #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
    pub ChoicesView {
        /// Beginning of the hour.
        at_unix_s: u64, Seconds;
        /// Connections by algorithm.
        connections: BTreeMap<String, u64>;
    }
}
