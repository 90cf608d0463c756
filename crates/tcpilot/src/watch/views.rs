//! The figures of flows, for tables and as JSON.

use serde::Serialize;

use crate::{
    fair::FairView,
    link::Group,
    show::{document::Document, figure::figures},
};

/// Why a flow is in its group: `enum tp_watch_reason`.
pub const REASONS: [&str; 12] = [
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
    "UDP: by rate only",
];

figures! {
    /// One flow.
    #[derive(Clone, Debug, PartialEq, Serialize)]
    pub FlowView {
        /// `source > destination`, with ports.
        flow: String, "Flow";
        /// `tcp` or `udp`.
        protocol: &'static str, "Protocol";
        /// How the flow treats the queue: a group of [watch.md](watch.md).
        group: Group, "Group";
        /// The most likely algorithm.
        algorithm: Option<String>, "Algorithm";
        /// Probability that the algorithm is right.
        confidence: Option<f64>, Share, "Confidence";
        /// Probability that the group is right.
        group_confidence: Option<f64>, Share;
        /// Rate of the bytes below, over the last second; in a report, over its life.
        rate: u64, BytesPerSecond, "Rate";
        /// Bytes that entered the queue since the flow was first seen, less those that it dropped.
        bytes: u64, Bytes;
        /// RTT of the last round.
        rtt_us: Option<u32>, Microseconds, "RTT";
        /// Least RTT.
        min_rtt_us: Option<u32>, Microseconds;
        /// Whether its handshake was seen; if not, the sender's share is missing in its RTT.
        handshake: bool;
        /// Mean time of a packet in the queue, over the last second; in a report, over the flow's life.
        queue_us: Option<u32>, Microseconds, "Queue";
        /// Packets dropped by the queue since the flow was first seen, as the kernel reports them.
        drops: u32, Packets, "Drops";
        /// Time since the flow was first seen.
        age_s: f64, Seconds, "Age";
        /// Rounds of the flow that were seen; a round lasts about a round trip.
        rounds: u32;
        /// Why the flow is in this group.
        why: &'static str, "Why";
    }
}

figures! {
    /// The flows of one group.
    #[derive(Clone, Debug, PartialEq, Serialize)]
    pub GroupView {
        /// The group.
        group: Group, "Group";
        /// Number of its flows.
        flows: usize, "Flows";
        /// Rate of these flows together; in a report, over all of its time.
        rate: u64, BytesPerSecond, "Rate";
        /// Its part of the rate of all groups.
        share: f64, Share, "Share";
        /// Packets of these flows that the queue dropped.
        drops: u64, Packets, "Drops";
    }
}

figures! {
    /// A look at the device.
    #[derive(Clone, Debug, PartialEq, Serialize)]
    pub View {
        /// The device.
        device: String;
        /// Whether the device is there.
        present: bool;
        /// Time since the watch began.
        t_s: f64, Seconds;
        /// The highest rate at which packets lately left, over a tenth of a second.
        link_rate: u64, BytesPerSecond;
        /// The longest time that a packet lately spent in the queue.
        link_queue_us: u32, Microseconds;
        /// Packets that entered the queue.
        in_packets: u64, Packets;
        /// Packets that left it.
        out_packets: u64, Packets;
        /// Packets that it dropped, as the kernel reports them.
        dropped_packets: u64, Packets;
        /// Further packets that entered, which are neither TCP nor UDP.
        other_packets: u64, Packets;
        /// Packets whose headers could not be read.
        unreadable_packets: u64, Packets;
        /// Data packets of flows that are not shown, because no acknowledgement of theirs was seen here.
        unproved_packets: u64, Packets;
        /// Packets that left the queue by its own count and that the programs did not see, at least; `null` if the
        /// device has no queue that counts.
        unseen_packets: Option<u64>, Packets;
        /// Events that were missed, because the program was already running on that CPU.
        missed_events: u64;
        /// New connections between the ports and addresses of an earlier one.
        reused: u64;
        /// The groups that have flows.
        groups: Vec<GroupView>;
        /// The queues, with `--fair`.
        #[serde(skip_serializing_if = "Option::is_none")]
        fair: Option<FairView>;
        /// The flows, the fastest first; in JSON a line each.
        #[serde(skip)]
        flows: Vec<FlowView>;
    }
}

impl View {
    /// A line of JSON for each flow, `"type": "flow"`, then one for the whole, `"type": "totals"`.
    pub fn json_lines(&self) -> std::io::Result<String> {
        #[derive(Serialize)]
        struct Line<'a> {
            r#type: &'a str,
            t_s: f64,
            #[serde(flatten)]
            flow: &'a FlowView,
        }
        #[derive(Serialize)]
        struct Totals<'a> {
            r#type: &'a str,
            #[serde(flatten)]
            view: &'a View,
        }
        let mut text = String::new();
        for flow in &self.flows {
            let line = Line {
                r#type: "flow",
                t_s: self.t_s,
                flow,
            };
            text += &serde_json::to_string(&Document::new(line))?;
            text.push('\n');
        }
        let totals = Totals {
            r#type: "totals",
            view: self,
        };
        text += &serde_json::to_string(&Document::new(totals))?;
        text.push('\n');
        Ok(text)
    }

    /// Sums by group, without empty groups. `over_s`: the time of a report.
    pub fn sum(flows: &[FlowView], over_s: Option<f64>) -> Vec<GroupView> {
        let rate_of = |of: &[&FlowView]| match over_s {
            None => of.iter().map(|f| f.rate).sum(),
            Some(seconds) => {
                let bytes = of.iter().map(|f| f.bytes).sum::<u64>() as f64;
                (bytes / seconds.max(1e-3)) as u64
            }
        };
        let groups = Group::ALL.into_iter().map(|group| {
            let of: Vec<&FlowView> = flows.iter().filter(|f| f.group == group).collect();
            GroupView {
                group,
                flows: of.len(),
                rate: rate_of(&of),
                share: 0.0,
                drops: of.iter().map(|f| u64::from(f.drops)).sum(),
            }
        });
        let mut groups: Vec<GroupView> = groups.filter(|g| g.flows > 0).collect();
        let total: u64 = groups.iter().map(|g| g.rate).sum();
        for group in &mut groups {
            group.share = (group.rate as f64 * 1000.0 / total.max(1) as f64).round() / 1000.0;
        }
        groups
    }
}
