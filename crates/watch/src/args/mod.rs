//! Options of `tcpilot watch`.

use std::{net::SocketAddr, path::PathBuf};

use clap::{Args, ValueEnum};
use tcpilot_abi::{TP_CLASSIFIER_P4AIR, TP_CLASSIFIER_TCPILOT};
use tcpilot_show::{args::QueryArgs, metrics::listen_address};

use crate::link::Group;

mod marks;
mod share;

pub use marks::{GroupMark, group_mark};
pub use share::{Lengths, Share};

/// File of the watch's census, unless `--census-file` names another.
const DEFAULT_CENSUS: &str = "/var/lib/tcpilot/census.db";

/// The classifier of flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Classifier {
    /// Rules for the certain cases, trees for the others, and an honest unknown
    Tcpilot,
    /// P4air's published counters (ICNP 2020): groups only
    P4air,
}

impl Classifier {
    /// Its number for the programs.
    pub fn number(self) -> u32 {
        match self {
            Classifier::Tcpilot => TP_CLASSIFIER_TCPILOT,
            Classifier::P4air => TP_CLASSIFIER_P4AIR,
        }
    }
}

/// Options of `tcpilot watch`.
#[derive(Debug, Args)]
pub struct WatchArgs {
    /// Network devices of this network namespace, whose queues are bottlenecks; up to 16
    #[arg(value_name = "DEV", required_unless_present_any = ["census", "schema", "read"])]
    pub devices: Vec<String>,
    /// Report on the flows of a capture instead (pcap or pcapng, also gzipped; - for standard input)
    ///
    /// It needs no privileges, and no BPF. The kernel's programs judge here, too, at the times of the capture.
    /// Flows of both directions are listed. A capture has no queue, so the column Queue shows the time of round
    /// trips beyond the least one: the time in all queues of the path. With --for only the first seconds are
    /// read.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["devices", "once", "record", "rate_mbit", "census",
        "listen", "ipfix", "mark", "fair", "restore", "acks_at"])]
    pub read: Option<PathBuf>,
    /// Classifier of the flows
    #[arg(long, value_name = "NAME", default_value = "tcpilot")]
    pub classifier: Classifier,
    /// For scripts: each second a line of JSON for each flow, and one for the totals
    #[arg(long)]
    pub json: bool,
    /// Print the JSON schema of the lines of --json, and end
    #[arg(long)]
    pub schema: bool,
    /// Print one report at the end instead of a live view: all flows, with the means of their lives
    #[arg(long)]
    pub once: bool,
    /// End after this many seconds [default: with --once 10, else never]
    #[arg(
        long = "for",
        value_name = "SECONDS",
        default_value_if("once", "true", "10")
    )]
    pub seconds: Option<u64>,
    /// Keep every round's and interval's measures in FILE, for training and replay
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,
    /// Also measure every round of flows that stay long in one group, as --record and --fair do
    #[arg(long)]
    pub every_round: bool,
    /// Rate of the link, for P4air's rules; with --fair the device is limited to it
    #[arg(long = "rate", value_name = "MBIT")]
    pub rate_mbit: Option<f64>,
    /// Another device, past which the acknowledgements go, in either direction
    ///
    /// At an ifb it is the device whose incoming packets are redirected to it. It needs kernel 6.6.
    #[arg(long, value_name = "DEV", conflicts_with = "one_way")]
    pub acks_at: Option<String>,
    /// For acknowledgements on another path: a flow counts after 64 packets, without proof that it is real
    #[arg(long)]
    pub one_way: bool,
    /// Also watch conversations over UDP that are not QUIC, by rate only; --fair and --mark udp=… include it
    #[arg(long)]
    pub udp: bool,
    /// Keep a census, and show it: the bytes of each group and algorithm in the last day
    ///
    /// It is kept in a file, without addresses, saved each minute, and goes on after a restart. Without DEV it
    /// shows what the file has, and ends. With --json it is one line a minute.
    #[arg(long)]
    pub census: bool,
    /// File of the census
    #[arg(long, value_name = "FILE", default_value = DEFAULT_CENSUS)]
    pub census_file: PathBuf,
    /// Answer HTTP: /metrics for Prometheus, /healthz, /readyz; a port alone means 127.0.0.1
    #[arg(long, value_name = "ADDR", value_parser = listen_address)]
    pub listen: Option<SocketAddr>,
    /// Send flow records to a collector, by IPFIX over UDP: each minute, and when a flow ends
    #[arg(long, value_name = "HOST:PORT")]
    pub ipfix: Option<String>,
    /// Private enterprise number of the fields for group and algorithm [default: 32473, for examples (RFC 5612)]
    #[arg(
        long,
        value_name = "NUMBER",
        default_value_t = 32473,
        hide_default_value = true
    )]
    pub ipfix_enterprise: u32,
    /// Mark the packets of these groups, for your own qdisc (MARK) or for other hosts (dscp:DSCP)
    ///
    /// GROUP=MARK, as fw filters and cake's fwmark read it, GROUP=MARK/MASK or GROUP=dscp:DSCP, several with commas: loss=1,model=2 or udp=dscp:cs1. Packets
    /// of the other groups stay as they are. It needs kernel 6.6, and ends with the process, however that ends.
    #[arg(long, value_name = "GROUP=MARK", value_delimiter = ',', value_parser = group_mark)]
    pub mark: Vec<GroupMark>,
    /// Room for this many flows, about 1 kB each; the one unseen for longest makes room
    #[arg(long, value_name = "COUNT", default_value_t = 16384,
        value_parser = clap::value_parser!(u32).range(64..=4_194_304))]
    pub flows: u32,
    /// Another model, as `python -m tcplab.studies.watch train` writes it
    #[arg(long, value_name = "FILE")]
    pub model: Option<PathBuf>,
    /// Another model for paths beyond the range of --model, as the same command writes it with --extrapolation
    #[arg(long, value_name = "FILE", alias = "wide-model")]
    pub extrapolation_model: Option<PathBuf>,
    /// Another model for QUIC, as the same command writes it with --quic
    #[arg(long, value_name = "FILE")]
    pub quic_model: Option<PathBuf>,
    /// The choice of rows on show.
    #[command(flatten)]
    pub rows: QueryArgs,
    /// Options of `--fair`.
    #[command(flatten)]
    pub fair: FairArgs,
}

impl WatchArgs {
    /// Whether other UDP than QUIC has to be in the table: to be listed, queued, or marked.
    pub fn wants_udp(&self) -> bool {
        self.udp || self.fair.fair || self.mark.iter().any(|mark| mark.group == Group::Udp)
    }
}

/// An action on a flow above its share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Action {
    /// Nothing: queues only
    None,
    /// Loss-based and loss-delay: drop a packet per round trip
    Drop,
    /// Delay-based: wait in a slower queue
    Delay,
    /// Model-based: shrink the receive window in the acknowledgements going back
    Window,
    /// All of them
    All,
}

/// The kind of qdisc with the queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum QdiscChoice {
    /// bpf if the kernel has BPF qdiscs, else htb
    Auto,
    /// An HTB with a filter, on any kernel
    Htb,
    /// A BPF qdisc (kernel 6.16, CONFIG_NET_SCH_BPF)
    Bpf,
}

/// Options of `--fair`.
#[derive(Debug, Args)]
pub struct FairArgs {
    /// Make the groups share the link: queues of their own replace the device's root qdisc
    #[arg(long)]
    pub fair: bool,
    /// With --fair: the groups of long flows share 4 times this many queues
    ///
    /// These are loss, delay, loss-delay, model and unknown. Ants, mice, unreplied flows and delayed flows have one
    /// queue each.
    #[arg(long, value_name = "K", default_value_t = 8, value_parser = clap::value_parser!(u16).range(2..=64))]
    pub queues: u16,
    /// With --fair: kind of qdisc with the queues
    #[arg(long, value_name = "KIND", default_value = "auto")]
    pub qdisc: QdiscChoice,
    /// With --fair: allowed actions on flows above their share in a shared queue
    #[arg(long, value_name = "NAME", value_delimiter = ',', num_args = 1.., default_value = "all")]
    pub actions: Vec<Action>,
    /// With --fair: the unit with one share: `flow`, `source`, `destination`, or a prefix as in `destination/24/48`
    ///
    /// `source` or `destination`: all flows of an address together; `destination/24`: all flows to a prefix;
    /// `destination/24/48` with a length for IPv6. Use `destination` on the device towards your subscribers, and `source` on the device towards the Internet.
    /// The flows of one subscriber wait together, whatever their groups are. IPv6 prefixes have 64 bits unless you
    /// give another length.
    #[arg(long, value_name = "UNIT", default_value_t = Share::Flow)]
    pub share: Share,
    /// Put back the root qdisc replaced by a killed --fair, and end
    #[arg(long, conflicts_with = "fair")]
    pub restore: bool,
    /// Wait for the end of standard input first
    #[arg(long, requires = "restore", hide = true)]
    pub at_end_of_input: bool,
}
