//! The figures of the effect: the change by steering, against held-out connections.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tcpilot_proof::Pairs;
use tcpilot_show::figure::figures;

figures! {
    /// Whether tcpilot helps.
    #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
    pub EffectReport {
        /// Why the report has no result; `null` if it has one, or will have one.
        unknown: Option<String>;
        /// Start of the comparison, in seconds since 1970.
        since_unix_s: u64, Seconds;
        /// Time of this report, in seconds since 1970.
        now_unix_s: u64, Seconds;
        /// How connections are held out: by `prefix`, by `block` or for the whole `host`.
        design: String;
        /// Intended percent of held-out connections: the price of this report.
        hold_out_percent: u32;
        /// Until then pairs follow each other without pause, in seconds since 1970; `null` if they do not.
        trial_until_unix_s: Option<u64>, Seconds;
        /// Groups of addresses with at least one pair.
        groups: u64;
        /// Groups active within a day.
        groups_active: u64;
        /// Pairs of blocks. One block of a pair is steered, the other is held out.
        pairs: u64;
        /// Connections in these pairs.
        connections: u64;
        /// Ended connections of 16 KiB or more since the start of the comparison.
        connections_all: u64;
        /// Held-out connections of 16 KiB or more.
        connections_held_out: u64;
        /// Goodput missed by the held-out connections. 1 is the whole goodput of a connection; 0 if no
        /// effect is shown.
        hold_out_cost: f64;
        /// Expected cost of exploration since the start, in the same unit.
        explored: f64;
        /// The change by steering, for each measure.
        measures: Vec<MeasureView>;
        /// The change by steering for each policy, if there are several.
        policies: Vec<PolicyEffect>;
        /// Groups, the one with the greatest loss first; at most 1000.
        worst: Vec<GroupView>;
        /// Stops of steering by the guard, the newest first.
        stops: Vec<StopView>;
        /// Earlier intervals of goodput, the oldest first.
        history: Vec<PointView>;
        /// The connections' algorithms, hour by hour.
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
        /// The change: 0.05 is 5 % more. For `retransmitted` it is 5 percentage points more. `null` below two
        /// pairs.
        change: Option<f64>;
        /// Lower end of the interval. In 95 % of all trials the interval holds the true change at all looks
        /// together. `null` below 20 pairs.
        low: Option<f64>;
        /// Upper end of the interval.
        high: Option<f64>;
        /// `better`, `worse`, `not shown` (an effect worth having would have shown) or `insufficient data`.
        verdict: String;
        /// About how many pairs are missing for a verdict, if the effect stays as it was so far; `null` if none are.
        pairs_missing: Option<u64>;
        /// Time until these pairs may be there; `null` if none are missing, or if there is no estimate.
        ready_in_s: Option<u64>, Seconds;
        /// How many pairs are missing for the first interval; `null` once there is one.
        #[serde(default)]
        interval_pairs_missing: Option<u64>;
        /// Time until these pairs may be there; `null` if none are missing, or if there is no estimate.
        #[serde(default)]
        interval_in_s: Option<u64>, Seconds;
        /// Sums over the pairs, in nats (for `retransmitted` as a share). You can add up the sums of several
        /// hosts.
        sums: Pairs;
    }
}

figures! {
    /// The effect on the connections of a policy.
    #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
    pub PolicyEffect {
        /// Name of the policy.
        policy: String;
        /// Connections in its pairs.
        connections: u64;
        /// The change by steering, for each measure.
        measures: Vec<MeasureView>;
    }
}

figures! {
    /// The effect on a group of addresses.
    #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
    pub GroupView {
        /// Addresses of the group.
        group: String;
        /// Pairs of the group.
        pairs: u64;
        /// Change of goodput; 0.05 is 5 % more.
        change: f64;
        /// Lower end of the interval; `null` below 20 pairs.
        low: Option<f64>;
        /// Upper end of the interval.
        high: Option<f64>;
    }
}

figures! {
    /// A stop of the guard.
    #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
    pub StopView {
        /// The group of addresses; empty for the whole host.
        group: String;
        /// The least loss of goodput within the interval; 0.05 is 5 %.
        harm: f64, Share;
        /// Time of the stop, in seconds since 1970.
        at_unix_s: u64, Seconds;
        /// End of the stop, in seconds since 1970.
        until_unix_s: u64, Seconds;
        /// Whether the stop is in force.
        active: bool;
        /// The stop in words.
        sentence: String;
    }
}

figures! {
    /// The knowledge at a time.
    #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
    pub PointView {
        /// Time, in seconds since 1970.
        at_unix_s: u64, Seconds;
        /// Pairs until then.
        pairs: u64;
        /// Change of goodput.
        change: f64;
        /// Lower end of its interval.
        low: f64;
        /// Upper end of its interval.
        high: f64;
    }
}

figures! {
    /// The connections of an hour.
    #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
    pub ChoicesView {
        /// Beginning of the hour, in seconds since 1970.
        at_unix_s: u64, Seconds;
        /// Connections by algorithm.
        connections: BTreeMap<String, u64>;
    }
}
