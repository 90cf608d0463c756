//! The command line: what can be asked, and the words that explain it.

use std::{net::SocketAddr, path::PathBuf};

use clap::{Args, Parser, Subcommand, ValueEnum};
use tcpilot_kernel::cc::DEFAULT_BPFFS;

use crate::{
    pilot::figures::{AlgorithmView, FlowView, PathView},
    pilot::metrics::listen_address,
    show::figure::{self, View},
};

/// Where the daemon keeps things unless told otherwise.
pub const DEFAULT_SOCKET: &str = "/run/tcpilot/tcpilot.sock";
/// What it has learned.
pub const DEFAULT_STATE: &str = "/var/lib/tcpilot/state.db";
/// Optional: without this file every setting has its default.
pub const DEFAULT_CONFIG: &str = "/etc/tcpilot/tcpilot.toml";

const EXIT_HELP: &str = "\
Exit status: 0 done · 1 failed · 2 wrong usage or configuration · 3 not permitted ·
4 this host lacks something (BTF, cgroup v2) · 5 already running, or not running";

fn columns<V: View>() -> String {
    format!("What it shows:\n{}", figure::help::<V>())
}

/// An autopilot for Linux TCP: it learns every network path this host talks over, and sets on each new
/// connection the congestion control that serves its path best.
///
/// Start with `tcpilot run` as root, then ask: `tcpilot status`, `tcpilot paths`, `tcpilot explain ADDR`.
/// Stop it in any way you like: the host is as it was before.
#[derive(Debug, Parser)]
#[command(version, after_help = EXIT_HELP, max_term_width = 100)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the pilot in the foreground until SIGINT or SIGTERM
    Run(RunArgs),
    /// What is running: attached where, which algorithms, how many connections and why, what is degraded
    Status(AskArgs),
    /// Every path with its algorithms: cost, how often chosen, least RTT, highest rate, share
    #[command(after_long_help = columns::<AlgorithmView>())]
    Paths(AskArgs),
    /// Live connections: addresses, congestion control, why, RTT, rate, loss
    #[command(after_long_help = columns::<FlowView>())]
    Flows(AskArgs),
    /// Why connections to ADDR are treated as they are: path, algorithms, last decisions
    #[command(after_long_help = columns::<PathView>())]
    Explain(ExplainArgs),
    /// Whether it helps: what steering changed, against connections that are held out
    ///
    /// Each change has an interval that holds the true one in 95 of 100 trials, however often you look. A pair
    /// is two blocks of time of one group of addresses, one steered and one held out, or two prefixes. Verdicts
    /// are `better`, `worse`, `not shown` (an effect of 5 % would have shown) and `insufficient data`.
    /// docs/use/report.md.
    Report(ReportArgs),
    /// The figures as Prometheus reads them, for its node exporter; `run --listen` answers scrapers itself
    Metrics(MetricsArgs),
    /// A live view of the paths; q or Ctrl-C leaves
    Top(SocketArgs),
    /// Which congestion controls cross a device, by flow, and fair shares if asked for; needs no daemon
    ///
    /// Run it on a router, bridge or host, on the device whose queue is the bottleneck: it looks at what is
    /// queued there, what leaves, and the acknowledgements that come back. A flow is shown once data of it
    /// was acknowledged. Its group tells how it treats a queue: `loss` fills it until packets are lost,
    /// `delay` backs off before, `loss-delay` does both, `model` (BBR) paces by a model of the path;
    /// `mouse` is in slow start, `ant` is sparse, `unknown` says that it cannot tell, and why.
    ///
    /// In a terminal it is a live table, q leaves. docs/use/watch.md says when not to believe it.
    ///
    /// It changes nothing, unless --fair is given: then each group waits in queues of its own, which share
    /// the link by the number of their flows, and flows above their share are acted upon. The device's root
    /// qdisc is replaced for that time, and put back however tcpilot ends. docs/use/fair.md.
    ///
    ///   tcpilot watch eth1 --fair --rate 95                     the link behind eth1 carries 95 Mbit/s
    ///   tcpilot watch eth1 --fair --queues 16 --actions none    queues only, 64 of them for the groups
    ///   tcpilot watch eth1 --restore                            take back what a killed one has left
    #[command(verbatim_doc_comment)]
    Watch(WatchArgs),
    /// Congestion controls: the kernel's, and ours for any kernel; needs no daemon
    Cc {
        /// What about them.
        #[command(subcommand)]
        command: CcCommand,
    },
    /// The configuration: check a file, or show what is in force
    Config {
        /// What about it.
        #[command(subcommand)]
        command: ConfigCommand,
    },
    /// What was learned: show, export, import, reset
    State {
        /// What about it.
        #[command(subcommand)]
        command: StateCommand,
    },
    /// Print the completions for a shell
    #[command(hide = true)]
    Completions {
        /// Which.
        shell: clap_complete::Shell,
    },
}

/// How to run.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// Configuration file [default: /etc/tcpilot/tcpilot.toml where it exists]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Steer only sockets of this cgroup v2 directory [default: all, the root found in /proc/mounts]
    #[arg(long, value_name = "DIR")]
    pub cgroup: Option<PathBuf>,
    /// What was learned is kept here over restarts
    #[arg(long, value_name = "FILE", default_value = DEFAULT_STATE)]
    pub state: PathBuf,
    /// Control socket, for root only
    #[arg(long, value_name = "FILE", default_value = DEFAULT_SOCKET)]
    pub socket: PathBuf,
    /// Decide and record, but set nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Show the table of paths, live, and a report at the end
    #[arg(long)]
    pub live: bool,
    /// Answer HTTP: /metrics for Prometheus, /healthz and /readyz. A port alone is that of 127.0.0.1
    #[arg(long, value_name = "ADDR", value_parser = listen_address)]
    pub listen: Option<SocketAddr>,
    /// Have the daemon that runs become this program, and read its configuration anew, without a gap
    ///
    /// It keeps its arguments, what it has learned, and the connections it knows. If something is wrong
    /// with the program or with the configuration, it goes on as before, and this command says why.
    #[arg(long, conflicts_with_all = ["config", "cgroup", "state", "dry_run", "live", "listen"])]
    pub take_over: bool,
}

/// Where the daemon listens.
#[derive(Clone, Debug, Args)]
pub struct SocketArgs {
    /// Control socket of the daemon
    #[arg(long, value_name = "FILE", default_value = DEFAULT_SOCKET)]
    pub socket: PathBuf,
}

/// How a flow is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Classifier {
    /// Rules for the certain cases, trees for the others, and an honest unknown
    Tcpilot,
    /// P4air's published counters (ICNP 2020): groups only
    P4air,
}

/// What to watch.
#[derive(Debug, Args)]
pub struct WatchArgs {
    /// Network device, of this network namespace, whose queue is the bottleneck
    #[arg(value_name = "DEV")]
    pub device: String,
    /// How flows are judged
    #[arg(long, value_name = "NAME", default_value = "tcpilot")]
    pub classifier: Classifier,
    /// For scripts: each second a line of JSON for each flow, and one for the totals
    #[arg(long)]
    pub json: bool,
    /// One report at the end instead of a live view: all flows, with the means of their lives
    #[arg(long)]
    pub once: bool,
    /// End after so many seconds [default: with --once 10, else never]
    #[arg(
        long = "for",
        value_name = "SECONDS",
        default_value_if("once", "true", "10")
    )]
    pub seconds: Option<u64>,
    /// Keep every round's and interval's measures in FILE, for training and replay
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,
    /// The link's rate: P4air's rules then also know a flow's share of it; with --fair it is limited to it
    #[arg(long = "rate", value_name = "MBIT")]
    pub rate_mbit: Option<f64>,
    /// Acknowledgements take another way: take flows in after 64 packets, without proof that they are real
    #[arg(long)]
    pub one_way: bool,
    /// Room for so many flows, about 1 kB each; the one unseen for longest makes room
    #[arg(long, value_name = "COUNT", default_value_t = 16384,
        value_parser = clap::value_parser!(u32).range(64..=4_194_304))]
    pub flows: u32,
    /// Another model, as `python -m tcplab.studies.watch train` writes it
    #[arg(long, value_name = "FILE")]
    pub model: Option<PathBuf>,
    /// How flows are made to share.
    #[command(flatten)]
    pub fair: FairArgs,
}

/// What may be done to a flow above its share.
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

/// What holds the queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum QdiscChoice {
    /// bpf where the kernel has BPF qdiscs, else htb
    Auto,
    /// An HTB with a filter, on any kernel
    Htb,
    /// A BPF qdisc (kernel 6.16, CONFIG_NET_SCH_BPF)
    Bpf,
}

/// About `--fair`.
#[derive(Debug, Args)]
pub struct FairArgs {
    /// Make the groups share: queues of their own instead of the device's root qdisc
    #[arg(long)]
    pub fair: bool,
    /// With --fair: 4 times so many queues for loss, delay, loss-delay, model and unknown together, and one
    /// each for ants, for mice, for data that nobody has answered, and for delayed flows
    #[arg(long, value_name = "K", default_value_t = 8, value_parser = clap::value_parser!(u16).range(2..=64))]
    pub queues: u16,
    /// With --fair: what holds the queues
    #[arg(long, value_name = "KIND", default_value = "auto")]
    pub qdisc: QdiscChoice,
    /// With --fair: what may be done to flows above their share that share a queue
    #[arg(long, value_name = "NAME", value_delimiter = ',', num_args = 1.., default_value = "all")]
    pub actions: Vec<Action>,
    /// Put back the root qdisc that a killed --fair replaced, and end
    #[arg(long, conflicts_with = "fair")]
    pub restore: bool,
    /// Before that, wait for the end of standard input
    #[arg(long, requires = "restore", hide = true)]
    pub at_end_of_input: bool,
}

/// A question to the daemon.
#[derive(Debug, Args)]
pub struct AskArgs {
    /// For scripts: JSON instead of a table
    #[arg(long)]
    pub json: bool,
    /// Where to ask.
    #[command(flatten)]
    pub socket: SocketArgs,
}

/// What to report.
#[derive(Debug, Args)]
pub struct ReportArgs {
    /// Write one page with plots that needs no network; `-` is standard output
    #[arg(long, value_name = "FILE", conflicts_with = "json")]
    pub html: Option<PathBuf>,
    /// Compare without pause from now on for so long (90m, 24h, 2d); half of that time is held out. 0 ends it
    #[arg(long, value_name = "TIME", value_parser = seconds, conflicts_with_all = ["json", "html"])]
    pub trial: Option<u64>,
    /// How to answer.
    #[command(flatten)]
    pub ask: AskArgs,
}

/// Where the metrics go.
#[derive(Debug, Args)]
pub struct MetricsArgs {
    /// Replace FILE in one step, as the node exporter's textfile collector needs it [default: standard output]
    #[arg(long, value_name = "FILE")]
    pub textfile: Option<PathBuf>,
    /// Where to ask.
    #[command(flatten)]
    pub socket: SocketArgs,
}

/// A time with its unit, in seconds.
fn seconds(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "s" => 1,
        "m" | "min" => 60,
        "h" => 3600,
        "d" => 86_400,
        "" if digits == "0" => 1,
        _ => return Err("write it with its unit: 90m, 24h or 2d".to_owned()),
    };
    let count: u64 = digits
        .parse()
        .map_err(|_| "write a number and its unit: 24h".to_owned())?;
    count
        .checked_mul(unit)
        .ok_or_else(|| "that is too long".to_owned())
}

/// What to explain.
#[derive(Debug, Args)]
pub struct ExplainArgs {
    /// A remote address, a host's name, or a path as `paths` shows it: 203.0.113.0/24
    #[arg(value_name = "ADDR", num_args = 1.., required = true)]
    pub target: Vec<String>,
    /// How to answer.
    #[command(flatten)]
    pub ask: AskArgs,
}

/// About congestion controls.
#[derive(Debug, Subcommand)]
pub enum CcCommand {
    /// List the kernel's and ours: loaded or not, sockets using each, what each is good for
    List {
        /// For scripts: JSON instead of a table
        #[arg(long)]
        json: bool,
        /// BPF file system with what `cc load` pinned
        #[arg(long, value_name = "DIR", default_value = DEFAULT_BPFFS)]
        bpffs: PathBuf,
    },
    /// Register some of ours, or objects of your own, so that sockets can choose them
    ///
    /// Each is verified by the kernel, and by a loopback connection that carries data. It stays until
    /// it is unloaded or the host boots: a file in the BPF file system keeps it.
    Load(LoadArgs),
    /// Take back what `cc load` registered; refuses while sockets use it
    Unload(UnloadArgs),
}

/// What to load, and how it is kept.
#[derive(Debug, Args)]
pub struct LoadArgs {
    /// As `cc list` names them, or files: ./mine.bpf.o; `all` are all of ours
    #[arg(value_name = "NAME", required = true)]
    pub names: Vec<String>,
    /// Keep them for as long as this process runs, instead of pinning them
    #[arg(long, conflicts_with = "update")]
    pub foreground: bool,
    /// Put a new version in the place of a loaded one; connections keep the old one until they end
    #[arg(long)]
    pub update: bool,
    /// BPF file system to pin in
    #[arg(long, value_name = "DIR", default_value = DEFAULT_BPFFS)]
    pub bpffs: PathBuf,
}

/// What to unload.
#[derive(Debug, Args)]
pub struct UnloadArgs {
    /// As `cc list` names them; not the files that were loaded
    #[arg(value_name = "NAME", required = true)]
    pub names: Vec<String>,
    /// Also while sockets use it; they keep it until they close
    #[arg(long)]
    pub force: bool,
    /// BPF file system that they were pinned in
    #[arg(long, value_name = "DIR", default_value = DEFAULT_BPFFS)]
    pub bpffs: PathBuf,
}

/// About the configuration.
#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Read a file, say what is wrong with it and what it would never do
    Check {
        /// The file [default: /etc/tcpilot/tcpilot.toml where it exists]
        #[arg(value_name = "FILE")]
        file: Option<PathBuf>,
    },
    /// Print the configuration with every default filled in
    Show {
        /// The file [default: /etc/tcpilot/tcpilot.toml where it exists]
        #[arg(value_name = "FILE")]
        file: Option<PathBuf>,
    },
}

/// Where the state is: in the daemon when it runs, else in its file.
#[derive(Debug, Args)]
pub struct StateArgs {
    /// The daemon's state file, used when no daemon answers
    #[arg(long, value_name = "FILE", default_value = DEFAULT_STATE)]
    pub state: PathBuf,
    /// Where to ask.
    #[command(flatten)]
    pub socket: SocketArgs,
}

/// About what was learned.
#[derive(Debug, Subcommand)]
pub enum StateCommand {
    /// How many paths are kept, how old they are, where
    Show {
        /// For scripts: JSON instead of a table
        #[arg(long)]
        json: bool,
        /// Where it is.
        #[command(flatten)]
        at: StateArgs,
    },
    /// Write it as JSON to FILE, or to standard output
    Export {
        /// The file; `-` is standard output
        #[arg(value_name = "FILE", default_value = "-")]
        file: PathBuf,
        /// Where it is.
        #[command(flatten)]
        at: StateArgs,
    },
    /// Add what an export holds; paths of the same key are replaced
    Import {
        /// The file; `-` is standard input
        #[arg(value_name = "FILE", default_value = "-")]
        file: PathBuf,
        /// Where it is.
        #[command(flatten)]
        at: StateArgs,
    },
    /// Forget everything
    Reset {
        /// Where it is.
        #[command(flatten)]
        at: StateArgs,
    },
}

#[cfg(test)]
mod tests;
