//! The figures of flows and of groups of flows, for tables, lists and JSON.

use schemars::JsonSchema;
use serde::Serialize;
use tcpilot_show::{
    figure::figures,
    select::{Listed, NoPart},
};

use super::{Group, Protocol};

/// Why a flow is in its group: `enum tp_watch_reason`.
pub const REASONS: [&str; 14] = [
    "too little was seen",
    "few packets per round trip",
    "grows exponentially",
    "a certain sign",
    "behaviour over rounds",
    "P4air's counters",
    "no sign is certain enough",
    "met no queue here",
    "its receiver's window is the limit",
    "its application is the limit",
    "no acknowledgement passes here",
    "neither TCP nor QUIC: by rate only",
    "behaviour over rounds, on a path beyond those recorded",
    "the sender's share of the round trip is not known",
];

figures! {
    /// One flow.
    #[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
    pub FlowView {
        /// Device with the queue.
        device: String, "Device";
        /// Number at its device; a new connection between the same ports has another.
        id: u32;
        /// `source > destination`, with ports.
        flow: String, "Flow";
        /// `tcp`, `quic`, or `udp` for other UDP.
        protocol: Protocol, "Protocol";
        /// How it treats a queue: its [group](watch.md#groups).
        group: Group, "Group";
        /// The most likely algorithm.
        algorithm: Option<String>, "Algorithm";
        /// Probability that the algorithm is right.
        confidence: Option<f64>, Share, "Confidence";
        /// Probability that the group is right.
        group_confidence: Option<f64>, Share;
        /// Rate of these bytes over the last second; in a report, over its life.
        rate: u64, BytesPerSecond, "Rate";
        /// Bytes into the queue since it was first seen, without dropped ones.
        bytes: u64, Bytes;
        /// Packets into the queue since then, modulo 2³².
        packets: u32, Packets;
        /// RTT of the last round; `null` if the sender's share is unknown.
        rtt_us: Option<u32>, Microseconds, "RTT";
        /// Least RTT, likewise.
        min_rtt_us: Option<u32>, Microseconds;
        /// Whether its handshake was seen.
        handshake: bool;
        /// Whether QUIC's spin bit shows the rounds; `null`: not QUIC.
        spin: Option<bool>;
        /// Whether its packets are counted but its rounds not measured for a while, as its group is settled.
        light_tracking: bool;
        /// Mean time of a packet in the queue over the last second; in a report, over its life.
        queue_us: Option<u32>, Microseconds, "Queue";
        /// Packets dropped by the queue since it was first seen, by the kernel's reports.
        drops: u32, Packets, "Drops";
        /// Time since it was first seen.
        age_s: f64, Seconds, "Age";
        /// Observed rounds, of about a round trip each.
        rounds: u32;
        /// Why it is in this group.
        why: &'static str, "Why";
    }
}

figures! {
    /// The flows of one group.
    #[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
    pub GroupView {
        /// The device.
        device: String, "Device";
        /// The group.
        group: Group, "Group";
        /// Its flows.
        flows: usize, "Flows";
        /// Their rate together; in a report, over the whole time.
        rate: u64, BytesPerSecond, "Rate";
        /// Part of the rate of all groups.
        share: f64, Share, "Share";
        /// Their packets dropped by the queue.
        drops: u64, Packets, "Drops";
    }
}

impl Listed for FlowView {
    type Part = NoPart;
}

#[cfg(test)]
impl FlowView {
    /// A flow for tests.
    pub fn example(id: u32) -> FlowView {
        FlowView {
            device: "eth0".to_owned(),
            id,
            flow: format!("192.0.2.1:{id} > 198.51.100.1:443"),
            protocol: Protocol::Tcp,
            group: Group::Unknown,
            algorithm: None,
            confidence: None,
            group_confidence: Some(0.0),
            rate: 0,
            bytes: 0,
            packets: 0,
            rtt_us: Some(41_000),
            min_rtt_us: Some(40_000),
            handshake: true,
            spin: None,
            light_tracking: false,
            queue_us: None,
            drops: 0,
            age_s: 1.5,
            rounds: 7,
            why: REASONS[0],
        }
    }
}
