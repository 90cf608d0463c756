//! The command line: its commands and options, and the text of their help.

use std::{net::SocketAddr, path::PathBuf};

use clap::{Args, Parser, Subcommand};
use tcpilot_kernel::cc::DEFAULT_BPFFS;

use crate::{
    link,
    pilot::figures::{FlowView, PathView},
    pilot::metrics::listen_address,
    show::{
        figure::{self, View},
        select,
    },
};

mod lists;
mod watch;

pub use lists::{ListArgs, SelectArgs, TopArgs, WishArgs};
pub use watch::{Action, Classifier, FairArgs, GroupMark, Lengths, QdiscChoice, Share, WatchArgs};

/// Control socket of the daemon, unless `--socket` names another.
pub const DEFAULT_SOCKET: &str = "/run/tcpilot/tcpilot.sock";
/// State file of the daemon, unless `--state` names another.
pub const DEFAULT_STATE: &str = "/var/lib/tcpilot/state.db";
/// Optional: without this file every setting has its default.
pub const DEFAULT_CONFIG: &str = "/etc/tcpilot/tcpilot.toml";

const EXIT_HELP: &str = "\
Exit status: 0 done · 1 failed · 2 wrong usage or configuration · 3 not permitted ·
4 this host lacks something (BTF, cgroup v2) · 5 already running, or not running";

fn columns<V: View>() -> String {
    format!("It shows:\n{}", figure::help::<V>())
}

/// An autopilot for Linux TCP: it learns every network path this host talks over, and sets on each new
/// connection the congestion control that serves its path best.
///
/// Start with `tcpilot run` as root, then ask: `tcpilot status`, `tcpilot paths`, `tcpilot explain ADDR`.
/// Stop it in any way you like: the host is as it was before.
#[derive(Debug, Parser)]
#[command(version, after_help = EXIT_HELP, max_term_width = 100)]
pub struct Cli {
    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the pilot in the foreground until SIGINT or SIGTERM
    Run(RunArgs),
    /// Show the daemon: its cgroup, its algorithms, connections by reason, and anything that is degraded
    Status(AskArgs),
    /// Show every path with its algorithms: connections, share, least RTT, highest rate, effect
    #[command(after_long_help = select::help::<PathView>())]
    Paths(ListArgs),
    /// Show live connections: addresses, congestion control, why, RTT, rate, loss
    #[command(after_long_help = select::help::<FlowView>())]
    Flows(ListArgs),
    /// Explain why connections to ADDR are treated as they are: path, algorithms, last decisions
    #[command(after_long_help = columns::<PathView>())]
    Explain(ExplainArgs),
    /// Report whether it helps: the change that steering made, against connections that are held out
    ///
    /// Each change has an interval. In 95 of 100 trials it holds the true change, however often you look. A
    /// pair is two blocks of time of one group of addresses, one steered and one held out, or two prefixes.
    /// Verdicts are `better`, `worse`, `not shown` (an effect of 5 % would have shown) and `insufficient
    /// data`. docs/use/report.md.
    Report(ReportArgs),
    /// Write the figures for Prometheus' node exporter; `run --listen` answers scrapers itself
    Metrics(MetricsArgs),
    /// Show the paths live, to scroll, sort and filter by keys; q or Ctrl-C leaves
    ///
    /// The last line names the keys. What you type there is what the options take.
    #[command(after_long_help = select::help::<PathView>())]
    Top(TopArgs),
    /// Show the congestion control of each flow across a device, or make flows share it (--fair)
    ///
    /// Run it on a router, bridge or host, on the device whose queue is the bottleneck. It looks at
    /// packets that are queued there, packets that leave, and the acknowledgements that come back. It
    /// shows a flow once data of it was acknowledged. The group of a flow is how it treats a queue:
    /// `loss` fills it until packets are lost, `delay` backs off before, `loss-delay` does both, `model`
    /// (BBR) paces by a model of the path. `mouse` is in slow start, `ant` is sparse. `unknown` means
    /// that tcpilot cannot know, and says why.
    ///
    /// In a terminal it is a live list, to scroll, sort and filter by keys; q leaves. If you name several
    /// devices, they share one list. It needs no daemon. docs/use/watch.md says when not to believe it.
    ///
    /// It changes nothing unless you give --fair or --mark. With --fair each group waits in queues of its own,
    /// which share the link by the number of their flows, and tcpilot acts on flows above their share.
    /// It replaces the device's root qdisc for that time, and puts it back however it ends.
    /// docs/use/fair.md.
    ///
    ///   tcpilot watch eth0 eth1                                 two devices in one list
    ///   tcpilot watch eth0 eth1 --census                        their census of a day
    ///   tcpilot watch eth0 --mark loss=1,model=2                marks for one's own qdisc
    ///   tcpilot watch eth0 --listen 9465                        metrics for Prometheus
    ///   tcpilot watch eth0 --ipfix 192.0.2.1:4739               flow records for a collector
    ///   tcpilot watch --census                                  the census that is kept
    ///   tcpilot watch --read capture.pcap                       the flows of a capture, without privileges
    ///   tcpdump -i eth0 -s 128 -w - tcp | tcpilot watch --read -  of one that tcpdump makes meanwhile
    ///   tcpilot watch eth1 --filter group=model --sort -queue_us
    ///   tcpilot watch eth1 --fair --rate 95                     the link behind eth1 carries 95 Mbit/s
    ///   tcpilot watch eth1 --fair --queues 16 --actions none    queues only, 64 of them for the groups
    ///   tcpilot watch eth1 --fair --rate 95 --share destination  one share for each host behind it
    ///   tcpilot watch eth1 --restore                            undo the change of a killed one
    #[command(verbatim_doc_comment, after_long_help = select::help::<link::FlowView>())]
    Watch(Box<WatchArgs>),
    /// List, load and unload congestion controls: the kernel's, and tcpilot's for any kernel; needs no daemon
    Cc {
        /// The command about them.
        #[command(subcommand)]
        command: CcCommand,
    },
    /// Check a configuration file, or show the configuration in force
    Config {
        /// The command about it.
        #[command(subcommand)]
        command: ConfigCommand,
    },
    /// Show, export, import or reset the knowledge of the daemon
    State {
        /// The command about it.
        #[command(subcommand)]
        command: StateCommand,
    },
    /// Write the manual pages into a folder, for a package
    #[command(hide = true)]
    Manual {
        /// Which.
        dir: PathBuf,
    },
    /// Print the completions for a shell
    #[command(hide = true)]
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
}

/// Options of `tcpilot run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// Configuration file [default: /etc/tcpilot/tcpilot.toml if it exists]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Steer only sockets of this cgroup v2 directory [default: all, the root found in /proc/mounts]
    #[arg(long, value_name = "DIR")]
    pub cgroup: Option<PathBuf>,
    /// State file, which keeps the knowledge over restarts
    #[arg(long, value_name = "FILE", default_value = DEFAULT_STATE)]
    pub state: PathBuf,
    /// Control socket, for root and the group that `[socket]` of the configuration names
    #[arg(long, value_name = "FILE", default_value = DEFAULT_SOCKET)]
    pub socket: PathBuf,
    /// Decide and record, but set nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Show a live table of paths, and a report at the end
    #[arg(long)]
    pub live: bool,
    /// Answer HTTP: /metrics for Prometheus, /healthz and /readyz. If you give only a port, its address is
    /// 127.0.0.1
    #[arg(long, value_name = "ADDR", value_parser = listen_address)]
    pub listen: Option<SocketAddr>,
    /// Have the running daemon become this program and read its configuration anew, without a gap
    ///
    /// It keeps its arguments, its knowledge, and the connections that it knows. If something is wrong with
    /// the program or with the configuration, the daemon goes on as before, and this command gives the
    /// reason.
    #[arg(long, conflicts_with_all = ["config", "cgroup", "state", "dry_run", "live", "listen"])]
    pub take_over: bool,
}

/// The daemon's control socket.
#[derive(Clone, Debug, Args)]
pub struct SocketArgs {
    /// Control socket of the daemon
    #[arg(long, value_name = "FILE", default_value = DEFAULT_SOCKET)]
    pub socket: PathBuf,
}

/// A question to the daemon.
#[derive(Debug, Args)]
pub struct AskArgs {
    /// Print JSON for scripts instead of a table
    #[arg(long)]
    pub json: bool,
    /// The socket.
    #[command(flatten)]
    pub socket: SocketArgs,
}

/// Options of `tcpilot report`.
#[derive(Debug, Args)]
pub struct ReportArgs {
    /// Write one page with plots that needs no network; `-` is standard output
    #[arg(long, value_name = "FILE", conflicts_with = "json")]
    pub html: Option<PathBuf>,
    /// Compare without pause from now on for this long (90m, 24h, 2d). Half of that time is held out. 0 ends
    /// the trial
    #[arg(long, value_name = "TIME", value_parser = seconds, conflicts_with_all = ["json", "html"])]
    pub trial: Option<u64>,
    /// The question.
    #[command(flatten)]
    pub ask: AskArgs,
}

/// Options of `tcpilot metrics`.
#[derive(Debug, Args)]
pub struct MetricsArgs {
    /// Replace FILE in one step, as the node exporter's textfile collector needs it [default: standard
    /// output]
    #[arg(long, value_name = "FILE")]
    pub textfile: Option<PathBuf>,
    /// The socket.
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

/// Options of `tcpilot explain`.
#[derive(Debug, Args)]
pub struct ExplainArgs {
    /// A remote address, a host's name, or a path as `paths` shows it: 203.0.113.0/24
    #[arg(value_name = "ADDR", num_args = 1.., required = true)]
    pub target: Vec<String>,
    /// The question.
    #[command(flatten)]
    pub ask: AskArgs,
}

/// Commands about congestion controls.
#[derive(Debug, Subcommand)]
pub enum CcCommand {
    /// List the kernel's and tcpilot's: state, number of sockets that use each, and its use
    List {
        /// Print JSON for scripts instead of a table
        #[arg(long)]
        json: bool,
        /// BPF file system in which `cc load` pins
        #[arg(long, value_name = "DIR", default_value = DEFAULT_BPFFS)]
        bpffs: PathBuf,
    },
    /// Register some of tcpilot's, or objects of your own, so that sockets can choose them
    ///
    /// The kernel verifies each, and tcpilot tries it with a loopback connection that carries data. It stays
    /// until you unload it or the host boots: a file in the BPF file system keeps it.
    Load(LoadArgs),
    /// Remove an algorithm that `cc load` registered; refuses while sockets use it
    Unload(UnloadArgs),
}

/// Options of `tcpilot cc load`.
#[derive(Debug, Args)]
pub struct LoadArgs {
    /// Names as in `cc list`, or files: ./mine.bpf.o; `all` means all of tcpilot's
    #[arg(value_name = "NAME", required = true)]
    pub names: Vec<String>,
    /// Keep them for as long as this process runs, instead of pinning them
    #[arg(long, conflicts_with = "update")]
    pub foreground: bool,
    /// Put a new version in the place of a loaded one; connections keep the old one until they end
    #[arg(long)]
    pub update: bool,
    /// Count acknowledgements as Linux's module of bic, hstcp or hybla does, instead of packets
    #[arg(long)]
    pub as_module: bool,
    /// BPF file system to pin in
    #[arg(long, value_name = "DIR", default_value = DEFAULT_BPFFS)]
    pub bpffs: PathBuf,
}

/// Options of `tcpilot cc unload`.
#[derive(Debug, Args)]
pub struct UnloadArgs {
    /// Names as in `cc list`, not the files that you loaded
    #[arg(value_name = "NAME", required = true)]
    pub names: Vec<String>,
    /// Unload even while sockets use it; they keep it until they close
    #[arg(long)]
    pub force: bool,
    /// BPF file system in which they are pinned
    #[arg(long, value_name = "DIR", default_value = DEFAULT_BPFFS)]
    pub bpffs: PathBuf,
}

/// Commands about the configuration.
#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Read a file, and report its mistakes and anything in it that can never take effect
    Check {
        /// The file [default: /etc/tcpilot/tcpilot.toml if it exists]
        #[arg(value_name = "FILE")]
        file: Option<PathBuf>,
    },
    /// Print the configuration with every default filled in
    Show {
        /// The file [default: /etc/tcpilot/tcpilot.toml if it exists]
        #[arg(value_name = "FILE")]
        file: Option<PathBuf>,
    },
}

/// The place of the state: the daemon if it runs, else its file.
#[derive(Debug, Args)]
pub struct StateArgs {
    /// State file of the daemon, used if no daemon answers
    #[arg(long, value_name = "FILE", default_value = DEFAULT_STATE)]
    pub state: PathBuf,
    /// The socket.
    #[command(flatten)]
    pub socket: SocketArgs,
}

/// Commands about the knowledge of the daemon.
#[derive(Debug, Subcommand)]
pub enum StateCommand {
    /// Show how many paths are kept, how old they are, and in which file
    Show {
        /// Print JSON for scripts instead of a table
        #[arg(long)]
        json: bool,
        /// The place of the state.
        #[command(flatten)]
        at: StateArgs,
    },
    /// Write the knowledge as JSON to FILE, or to standard output
    Export {
        /// The file; `-` is standard output
        #[arg(value_name = "FILE", default_value = "-")]
        file: PathBuf,
        /// The place of the state.
        #[command(flatten)]
        at: StateArgs,
    },
    /// Add the content of an export; it replaces paths of the same key
    Import {
        /// The file; `-` is standard input
        #[arg(value_name = "FILE", default_value = "-")]
        file: PathBuf,
        /// The place of the state.
        #[command(flatten)]
        at: StateArgs,
    },
    /// Forget everything
    Reset {
        /// The place of the state.
        #[command(flatten)]
        at: StateArgs,
    },
}

#[cfg(test)]
mod tests;
