//! The figures of a look at a device, for tables and as JSON.

use schemars::JsonSchema;
use serde::Serialize;
use tcpilot_show::{document::Document, figure::figures};

use crate::{
    fair::FairView,
    link::{FlowView, Group, GroupView},
};

figures! {
    /// A capture. Each of its packets counts once.
    #[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
    pub CaptureView {
        /// All packets, and the judged ones (TCP, UDP).
        packets: u64, Packets;
        /// All packets, and the judged ones (TCP, UDP).
        judged_packets: u64, Packets;
        /// IP, but neither TCP nor UDP.
        other_packets: u64, Packets;
        /// Not IP: ARP, MPLS, control packets of PPPoE.
        not_ip_packets: u64, Packets;
        /// Fragments after the first.
        fragments: u64, Packets;
        /// Headers cut off by the snap length.
        cut_packets: u64, Packets;
        /// Unknown link type.
        other_link_packets: u64, Packets;
        /// Without a time.
        timeless_packets: u64, Packets;
        /// Already shown by another device of the capture.
        doubled_packets: u64, Packets;
        /// With a time before an earlier packet's; judged as if at the same time.
        backward_packets: u64, Packets;
        /// `whole`, `cut` within a packet, or `damaged`.
        end: String;
    }
}

figures! {
    /// A look at the device.
    #[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
    pub View {
        /// The device.
        device: String;
        /// Whether the device is there.
        present: bool;
        /// Time since the watch began.
        t_s: f64, Seconds;
        /// Highest recent rate of leaving packets, over 0.1 s.
        link_rate: u64, BytesPerSecond;
        /// Rate of leaving packets while others wait: the link's capacity; `null` until a queue was seen.
        link_capacity: Option<u64>, BytesPerSecond;
        /// Used part of the link's capacity, over about a second.
        link_used: Option<f64>, Share;
        /// Longest recent time of a packet in the queue.
        link_queue_us: u32, Microseconds;
        /// Packets into the queue.
        in_packets: u64, Packets;
        /// Packets out of the queue.
        out_packets: u64, Packets;
        /// Packets dropped in the queue, by the kernel's reports.
        dropped_packets: u64, Packets;
        /// Packets neither TCP nor UDP.
        other_packets: u64, Packets;
        /// Packets with unreadable headers.
        unreadable_packets: u64, Packets;
        /// Data packets of hidden flows: unacknowledged here, or UDP but not QUIC.
        unproved_packets: u64, Packets;
        /// Least number of packets counted by the queue but unseen by the programs; `null` without a queue with
        /// counters.
        unseen_packets: Option<u64>, Packets;
        /// Events missed because the program was already running on that CPU.
        missed_events: u64;
        /// New connections between the ports and addresses of an earlier one.
        reused: u64;
        /// The groups with flows.
        groups: Vec<GroupView>;
        /// The queues, with `--fair`.
        #[serde(skip_serializing_if = "Option::is_none")]
        fair: Option<FairView>;
        /// What was read, with `--read`.
        #[serde(skip_serializing_if = "Option::is_none")]
        capture: Option<CaptureView>;
        /// The flows, the fastest first; in JSON a line each.
        #[serde(skip)]
        flows: Vec<FlowView>;
    }
}

impl View {
    /// The same without the list of flows, since it may be long.
    pub fn without_flows(&self) -> View {
        View {
            flows: Vec::new(),
            device: self.device.clone(),
            groups: self.groups.clone(),
            fair: self.fair.clone(),
            capture: self.capture.clone(),
            ..*self
        }
    }

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
            text += &Document::new(line).line()?;
        }
        let totals = Totals {
            r#type: "totals",
            view: self,
        };
        text += &Document::new(totals).line()?;
        Ok(text)
    }

    /// Sums by group, without empty groups. `over_s`: the time of a report.
    pub fn sum(device: &str, flows: &[FlowView], over_s: Option<f64>) -> Vec<GroupView> {
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
                device: device.to_owned(),
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

#[cfg(test)]
impl View {
    /// A look for tests.
    pub fn example(flows: Vec<FlowView>) -> View {
        View {
            device: "eth0".to_owned(),
            present: true,
            t_s: 12.5,
            link_rate: 2_500_000,
            link_capacity: Some(2_400_000),
            link_used: Some(0.75),
            link_queue_us: 40_000,
            in_packets: 1000,
            out_packets: 990,
            dropped_packets: 10,
            other_packets: 3,
            unreadable_packets: 0,
            unproved_packets: 1,
            unseen_packets: Some(0),
            missed_events: 0,
            reused: 0,
            groups: View::sum("eth0", &flows, None),
            fair: None,
            capture: None,
            flows,
        }
    }
}
