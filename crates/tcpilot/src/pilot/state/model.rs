//! What is kept of a path.

use serde::{Deserialize, Serialize};
use tcpilot_abi::{TP_CC_NAME_MAX, TP_COST_SCALE, TP_MAX_ARMS};
use tcpilot_core::Prefix;

/// Bytes per second beyond which a rate would overflow the cost: `TP_RATE_MAX` of `bpf/core/sample.h`.
const RATE_MAX: u64 = u64::MAX / TP_COST_SCALE as u64;

/// A path and what was learned of it. Rates are bytes per second, RTTs microseconds; 0 is "no sample".
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoredPath {
    /// `host` for the daemon's own network namespace, else the namespace's name or inode number.
    pub netns: String,
    /// Remote addresses.
    pub prefix: Prefix,
    /// Name of the policy.
    pub policy: String,
    /// Last opening or end of a connection, in seconds since 1970.
    pub updated_unix_s: u64,
    /// Least RTT of the window.
    pub min_rtt_us: u32,
    /// RTT smoothed over connections.
    pub srtt_us: u32,
    /// Highest delivery rate of the window.
    pub max_delivery_rate: u64,
    /// Segments sent in the window.
    pub sent_packets: u64,
    /// Segments retransmitted in the window.
    pub lost_packets: u64,
    /// Connections that told something.
    pub instances: u32,
    /// All connections.
    pub connections: u64,
    /// The algorithms that were ever chosen.
    #[serde(alias = "arms")] // its name in files that older versions wrote
    pub algorithms: Vec<StoredAlgorithm>,
}

/// An algorithm of a path.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoredAlgorithm {
    /// Its name.
    pub name: String,
    /// In millionths; of no meaning where `samples` is 0.
    pub cost: u64,
    /// Connections charged to it.
    pub samples: u32,
    /// Connections that got it.
    pub chosen: u32,
    /// Of those, because its cost was least.
    pub greedy: u32,
    /// Of those, rescued.
    pub rescued: u32,
    /// Its highest delivery rate of the window.
    pub max_delivery_rate: u64,
    /// Its least RTT of the window.
    pub min_rtt_us: u32,
}

impl StoredPath {
    /// What is impossible about it, if anything.
    pub(super) fn fault(&self) -> Option<String> {
        let named =
            |text: &str| !text.is_empty() && text.len() <= 255 && !text.contains(char::is_control);
        if !named(&self.netns) || !named(&self.policy) {
            return Some(format!(
                "path {}: `netns` and `policy` must be names",
                self.prefix
            ));
        }
        if self.max_delivery_rate > RATE_MAX {
            return Some(format!("path {}: an impossible delivery rate", self.prefix));
        }
        if self.algorithms.len() > TP_MAX_ARMS as usize {
            return Some(format!(
                "path {}: more than {TP_MAX_ARMS} algorithms",
                self.prefix
            ));
        }
        let fault = |(i, algorithm): (usize, &StoredAlgorithm)| {
            let name = &algorithm.name;
            if name.is_empty() || name.len() >= TP_CC_NAME_MAX as usize || !name.is_ascii() {
                return Some(format!(
                    "path {}: `{name}` cannot be an algorithm",
                    self.prefix
                ));
            }
            if self.algorithms[..i].iter().any(|other| other.name == *name) {
                return Some(format!(
                    "path {}: algorithm {name} stands there twice",
                    self.prefix
                ));
            }
            let impossible = algorithm.max_delivery_rate > RATE_MAX;
            impossible.then(|| {
                format!(
                    "path {}: algorithm {name} has an impossible delivery rate",
                    self.prefix
                )
            })
        };
        self.algorithms.iter().enumerate().find_map(fault)
    }
}
