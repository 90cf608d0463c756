//! The stored form of a path in the table of the tunings, and of epsilon-greedy's costs there.

use serde::{Deserialize, Serialize};
use tcpilot_abi::tp_path;
use tcpilot_core::Prefix;

use super::measure::{Count64, Greatest, Least, Measure, Number, Sum};

/// A path in the state file. Rates are bytes per second, RTTs microseconds; 0 is "no sample".
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoredPath {
    /// Network namespace, see [`super::PathView`].
    pub netns: String,
    /// Remote addresses of the path.
    pub prefix: Prefix,
    /// `default`, or the name of a policy.
    pub policy: String,
    /// Last opening or end of a connection, in seconds since 1970.
    pub updated_unix_s: u64,
    /// The costs of epsilon-greedy. Only older versions kept them here. They are read to report that they are
    /// set aside.
    #[serde(default, alias = "arms", skip_serializing_if = "Vec::is_empty")]
    pub algorithms: Vec<StoredAlgorithm>,
    /// Least RTT of the window.
    #[serde(default)]
    pub min_rtt_us: u32,
    /// RTT smoothed over connections.
    #[serde(default)]
    pub srtt_us: u32,
    /// Highest delivery rate of the window.
    #[serde(default)]
    pub max_delivery_rate: u64,
    /// Connections.
    #[serde(default)]
    pub connections: u64,
    /// Segments sent in the window.
    #[serde(default)]
    pub sent_packets: u64,
    /// Segments retransmitted in the window.
    #[serde(default)]
    pub lost_packets: u64,
    /// Connections judged for the costs.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub instances: u32,
}

/// An algorithm of a path in the memory of epsilon-greedy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoredAlgorithm {
    /// Name of the congestion control.
    pub name: String,
    /// Distance from the least RTT and the highest rate of the path, in millionths.
    #[serde(default)]
    pub cost: u64,
    /// Connections with this algorithm.
    #[serde(default)]
    pub chosen: u32,
    /// Its connections while it was the favourite.
    #[serde(default)]
    pub greedy: u32,
    /// Connections used to judge it.
    #[serde(default)]
    pub samples: u32,
    /// Connections since the last one used to judge it.
    #[serde(default)]
    pub unpaid: u32,
    /// Connections rescued from it. Only older versions wrote this; today it is a measure of the path.
    #[serde(default, skip_serializing)]
    pub rescued: u32,
    /// Least RTT of its connections in the window.
    #[serde(default)]
    pub min_rtt_us: u32,
    /// Highest rate of its connections in the window.
    #[serde(default)]
    pub max_delivery_rate: u64,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde wants a reference")]
fn is_zero(count: &u32) -> bool {
    *count == 0
}

impl StoredPath {
    /// The measures to keep.
    pub fn measured(path: &tp_path) -> StoredPath {
        StoredPath {
            min_rtt_us: Least::kept(&path.min_rtt_us),
            srtt_us: Number::kept(&path.srtt_us),
            max_delivery_rate: Greatest::kept(&path.max_delivery_rate),
            connections: Count64::kept(&path.connections),
            sent_packets: Sum::kept(&path.sent_packets),
            lost_packets: Sum::kept(&path.lost_packets),
            ..StoredPath::default()
        }
    }

    /// Puts the kept measures back. Windows take theirs only if the measures are `fresh`.
    pub fn put(&self, path: &mut tp_path, fresh: bool) {
        Least::put(&self.min_rtt_us, &mut path.min_rtt_us, fresh);
        Number::put(&self.srtt_us, &mut path.srtt_us, fresh);
        Greatest::put(&self.max_delivery_rate, &mut path.max_delivery_rate, fresh);
        Count64::put(&self.connections, &mut path.connections, fresh);
        Sum::put(&self.sent_packets, &mut path.sent_packets, fresh);
        Sum::put(&self.lost_packets, &mut path.lost_packets, fresh);
    }
}
