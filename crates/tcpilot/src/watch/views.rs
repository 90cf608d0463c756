//! What is shown of flows, for tables and as JSON.

use serde::{Deserialize, Serialize};

use crate::{fair::FairView, show::document::Document};

/// The groups of P4air (`enum tp_group`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[repr(u8)]
pub enum Group {
    /// Abstained.
    Unknown = 0,
    /// Sparse.
    Ant = 1,
    /// In slow start.
    Mouse = 2,
    /// Fills the queue until it loses.
    Loss = 3,
    /// Backs off when the queue grows.
    Delay = 4,
    /// Both.
    LossDelay = 5,
    /// A model of the path.
    Model = 6,
    /// QUIC, as far as headers tell.
    Udp = 7,
}

impl Group {
    /// All, in the order of tables.
    pub const ALL: [Group; 8] = [
        Group::Ant,
        Group::Mouse,
        Group::Loss,
        Group::Delay,
        Group::LossDelay,
        Group::Model,
        Group::Udp,
        Group::Unknown,
    ];

    /// From the kernel's number.
    pub fn from_number(number: u8) -> Group {
        Group::ALL
            .into_iter()
            .find(|g| *g as u8 == number)
            .unwrap_or(Group::Unknown)
    }

    /// Whether its flows share the link as bulk does.
    pub fn is_long(self) -> bool {
        !matches!(self, Group::Ant | Group::Mouse)
    }

    /// As JSON and tables write it.
    pub fn word(self) -> &'static str {
        match self {
            Group::Unknown => "unknown",
            Group::Ant => "ant",
            Group::Mouse => "mouse",
            Group::Loss => "loss",
            Group::Delay => "delay",
            Group::LossDelay => "loss-delay",
            Group::Model => "model",
            Group::Udp => "udp",
        }
    }
}

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
    "its application pauses",
    "no acknowledgement passes here",
    "UDP: by rate only",
];

/// One flow.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FlowView {
    /// `source > destination`, with ports.
    pub flow: String,
    /// tcp or udp.
    pub protocol: &'static str,
    /// Its group.
    pub group: Group,
    /// The most likely algorithm.
    pub algorithm: Option<String>,
    /// Of the algorithm, 0 to 1.
    pub confidence: Option<f64>,
    /// Of the group, 0 to 1.
    pub group_confidence: Option<f64>,
    /// Bytes per second that left, over the last second, or over its life in a report.
    pub rate: u64,
    /// Bytes that left, since the flow was first seen.
    pub bytes: u64,
    /// Of the last round.
    pub rtt_us: Option<u32>,
    /// Least.
    pub min_rtt_us: Option<u32>,
    /// Sojourn of a packet, mean over the last second, or over its life.
    pub queue_us: Option<u32>,
    /// Packets, since the flow was first seen.
    pub drops: u32,
    /// Since it was first seen.
    pub age_s: f64,
    /// Rounds seen.
    pub rounds: u32,
    /// Why this group.
    pub why: &'static str,
}

/// Of one group.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GroupView {
    /// Which.
    pub group: Group,
    /// How many flows.
    pub flows: usize,
    /// Bytes per second, together; in a report, over all of its time.
    pub rate: u64,
    /// Packets, together.
    pub drops: u64,
}

/// A look at the device.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct View {
    /// Its name.
    pub device: String,
    /// It is there.
    pub present: bool,
    /// Since the watch began.
    pub t_s: f64,
    /// Bytes per second: the most that left in a tenth of a second lately.
    pub link_rate: u64,
    /// The longest sojourn lately.
    pub link_queue_us: u32,
    /// Packets before the queue.
    pub in_packets: u64,
    /// Packets after it.
    pub out_packets: u64,
    /// Of those, neither TCP nor UDP.
    pub other_packets: u64,
    /// Packets whose headers could not be read.
    pub unreadable_packets: u64,
    /// Packets with data of flows that are not shown: nobody has acknowledged it here.
    pub unproved_packets: u64,
    /// Events that were not seen: the program was running on that CPU already.
    pub missed_events: u64,
    /// New connections between the same ports and addresses.
    pub reused: u64,
    /// Groups that have flows.
    pub groups: Vec<GroupView>,
    /// With `--fair`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fair: Option<FairView>,
    /// Flows, the fastest first.
    #[serde(skip)]
    pub flows: Vec<FlowView>,
}

impl View {
    /// A line for each flow, `"type": "flow"`, then one for the whole, `"type": "totals"`.
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

    /// Sums by group, those without flows left out. `over_s`: the time of a report.
    pub fn sum(flows: &[FlowView], over_s: Option<f64>) -> Vec<GroupView> {
        Group::ALL
            .into_iter()
            .map(|group| {
                let of = || flows.iter().filter(move |f| f.group == group);
                let bytes = of().map(|f| f.bytes).sum::<u64>() as f64;
                GroupView {
                    group,
                    flows: of().count(),
                    rate: over_s.map_or_else(
                        || of().map(|f| f.rate).sum(),
                        |seconds| (bytes / seconds.max(1e-3)) as u64,
                    ),
                    drops: of().map(|f| u64::from(f.drops)).sum(),
                }
            })
            .filter(|g| g.flows > 0)
            .collect()
    }
}
