//! The figures of the effect: what steering changed, against what is held out.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tcpilot_proof::Pairs;

use crate::show::figure::figures;

figures! {
    /// Whether tcpilot helps.
    #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
    pub EffectReport {
        /// Why nothing can be said; `null`: something can, or will be.
        unknown: Option<String>;
        /// Since when it is compared, in seconds since 1970.
        since_unix_s: u64, Seconds;
        /// When this was told, likewise.
        now_unix_s: u64, Seconds;
        /// What is held out: `prefix`, `block` or `host`.
        design: String;
        /// Percent of the connections that are to be held out: the price of knowing.
        hold_out_percent: u32;
        /// Pairs follow each other without pause until then, likewise; `null`: they do not.
        trial_until_unix_s: Option<u64>, Seconds;
        /// Groups of addresses with at least one pair.
        groups: u64;
        /// Groups that were active within a day.
        groups_active: u64;
        /// Pairs of blocks, one steered and one held out.
        pairs: u64;
        /// Connections in these.
        connections: u64;
        /// Connections of 16 KiB or more that ended since then.
        connections_all: u64;
        /// Of these, those that were held out.
        connections_held_out: u64;
        /// What the connections held out have missed, in connections' whole goodput; 0 if nothing is shown.
        hold_out_cost: f64;
        /// What exploring was expected to cost since the start, likewise.
        explored: f64;
        /// What steering changed.
        measures: Vec<MeasureView>;
        /// Of each policy, if there are several.
        policies: Vec<PolicyEffect>;
        /// Groups, the one that lost most first; at most 1000.
        worst: Vec<GroupView>;
        /// What the guard has stopped, the newest first.
        stops: Vec<StopView>;
        /// How goodput's interval came about, the oldest first.
        history: Vec<PointView>;
        /// Which algorithms connections had, hour by hour.
        choices: Vec<ChoicesView>;
    }
}

figures! {
    /// What steering changed in one respect.
    #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
    pub MeasureView {
        /// `goodput`, `time to complete`, the same of a class of sizes, `retransmitted`, or `RTT inflation`.
        name: String;
        /// The change: 0.05 is 5 % more, of `retransmitted` 5 percentage points; `null`: below two pairs.
        change: Option<f64>;
        /// Lower end of the interval that holds the true change at all looks, in 95 % of all trials; `null`:
        /// below 20 pairs.
        low: Option<f64>;
        /// Upper end.
        high: Option<f64>;
        /// `better`, `worse`, `not shown` (an effect worth having would have shown) or `insufficient data`.
        verdict: String;
        /// Pairs that are missing, about; `null`: none.
        pairs_missing: Option<u64>;
        /// In so many seconds they may be there; `null`: none are missing, or nobody can say.
        ready_in_s: Option<u64>, Seconds;
        /// Sums over the pairs, in nats (of `retransmitted` as a share): those of several hosts can be added.
        sums: Pairs;
    }
}

figures! {
    /// The effect on the connections of a policy.
    #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
    pub PolicyEffect {
        /// The policy.
        policy: String;
        /// Connections in its pairs.
        connections: u64;
        /// What steering changed.
        measures: Vec<MeasureView>;
    }
}

figures! {
    /// The effect on a group of addresses.
    #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
    pub GroupView {
        /// Its addresses.
        group: String;
        /// Its pairs.
        pairs: u64;
        /// Change of goodput; 0.05 is 5 % more.
        change: f64;
        /// Lower end of its interval; `null`: below 20 pairs.
        low: Option<f64>;
        /// Upper end.
        high: Option<f64>;
    }
}

figures! {
    /// A stop of the guard.
    #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
    pub StopView {
        /// The group of addresses; empty: the whole host.
        group: String;
        /// The least loss of goodput that the interval allowed; 0.05 is 5 %.
        harm: f64, Share;
        /// When, in seconds since 1970.
        at_unix_s: u64, Seconds;
        /// Until when, likewise.
        until_unix_s: u64, Seconds;
        /// It is in force.
        active: bool;
        /// The same in words.
        sentence: String;
    }
}

figures! {
    /// What was known at a time.
    #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
    pub PointView {
        /// When, in seconds since 1970.
        at_unix_s: u64, Seconds;
        /// Pairs until then.
        pairs: u64;
        /// Change of goodput.
        change: f64;
        /// Lower end of its interval.
        low: f64;
        /// Upper end.
        high: f64;
    }
}

figures! {
    /// The connections of an hour.
    #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
    pub ChoicesView {
        /// Its beginning, in seconds since 1970.
        at_unix_s: u64, Seconds;
        /// Connections by algorithm.
        connections: BTreeMap<String, u64>;
    }
}
