//! The command line: its commands and options, and the text of their help.

use std::path::PathBuf;

use clap::{Parser, Subcommand};
use tcpilot_pilot::{
    args::{
        CheckArgs, ConfigCommand, ExplainArgs, ListArgs, MetricsArgs, PathListArgs, ReportArgs,
        RunArgs, StateCommand, StatusArgs, TopArgs,
    },
    figures::{FlowView, PathView},
    json_fields,
};
use tcpilot_show::select;
use tcpilot_watch::{args::WatchArgs, link};

use crate::cc::CcCommand;

const EXIT_HELP: &str = "\
Exit status: 0 done · 1 failed · 2 wrong usage or configuration · 3 not permitted ·
4 this host lacks something (BTF, cgroup v2) · 5 already running, or not running";

/// The text of `tcpilot watch --help`. Each paragraph is one line, which clap breaks to fit the terminal.
const WATCH: &str = "\
Show the congestion control of each flow across a device, or make flows share it (--fair)

Run it on a router, bridge or host, on the device whose queue is the bottleneck. It looks at \
queued packets, leaving packets, and returning acknowledgements. It shows a flow once data of it \
was acknowledged. The group of a flow is how it treats a queue: `loss` fills it until packets are \
lost, `delay` backs off before, `loss-delay` does both, `model` (BBR) paces by a model of the path. \
`mouse` is in slow start, `ant` is sparse. `unknown` means that tcpilot cannot know, and says why.

In a terminal it is a live list, to scroll, sort and filter by keys; q leaves. If you name several \
devices, they share one list. It needs no daemon. docs/use/watch.md says when not to believe it.

It changes nothing unless you give --fair or --mark. With --fair each group waits in queues of its \
own, which share the link by the number of their flows, and tcpilot acts on flows above their share. \
It replaces the device's root qdisc for that time, and puts it back however it ends. docs/use/fair.md.

  tcpilot watch eth0 eth1                         two devices in one list
  tcpilot watch eth0 eth1 --census                their census of a day
  tcpilot watch eth0 --mark loss=1,model=2        marks for your own qdisc
  tcpilot watch eth0 --listen 9465                metrics for Prometheus
  tcpilot watch eth0 --ipfix 192.0.2.1:4739       flow records for a collector
  tcpilot watch --census                          the stored census
  tcpilot watch --read capture.pcap               a capture, without privileges
  tcpdump -i eth0 -s 128 -w - tcp | tcpilot watch --read -
                                                  a live capture
  tcpilot watch eth1 --filter group=model --sort -queue_us
  tcpilot watch eth1 --fair --rate 95             the link carries 95 Mbit/s
  tcpilot watch eth1 --fair --queues 16 --actions none
                                                  queues only, 64 in all
  tcpilot watch eth1 --fair --rate 95 --share destination
                                                  one share for each host behind it
  tcpilot watch eth1 --restore                    undo the change of a killed one";

/// An autopilot for Linux TCP: it learns every network path this host talks over, and gives each new
/// connection the best congestion control for its path.
///
/// Try `tcpilot check`, start with `tcpilot run` as root, then ask: `tcpilot status`, `tcpilot paths`, `tcpilot explain ADDR`.
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
    /// Check whether tcpilot can run here, and how much of this host's traffic it could steer; it changes nothing
    ///
    /// The exit status is 0 if `tcpilot run` would start, and otherwise the one that `run` would have.
    #[command(after_long_help = json_fields::check())]
    Check(CheckArgs),
    /// Show in five lines what the daemon does, what is wrong, whether it helps, where, and what it leaves alone
    #[command(after_long_help = json_fields::status())]
    Status(StatusArgs),
    /// Show every address: its algorithm, and the expected Mbit/s with tcpilot and without
    ///
    /// Each rate has its 95 % interval. Sure means that the whole interval of the gain is above zero. If an address has
    /// several paths (its RTT, or its connections' side, differs), the row shows the most experienced one.
    #[command(after_long_help = json_fields::paths())]
    Paths(PathListArgs),
    /// Show live connections: addresses, congestion control, why, RTT, rate, loss
    #[command(after_long_help = select::help::<FlowView>())]
    Flows(ListArgs),
    /// Explain why connections to ADDR are treated as they are: path, algorithms, last decisions
    #[command(after_long_help = json_fields::explain())]
    Explain(ExplainArgs),
    /// Report whether it helps: the effect of steering, against held-out connections
    ///
    /// Each change has an interval. In 95 of 100 trials it holds the true change, however often you look. A
    /// pair is two blocks of time of one group of addresses, one steered and one held out, or two prefixes.
    /// While nothing is proven, each line names the next step and when it may come. docs/use/report.md.
    #[command(after_long_help = json_fields::report())]
    Report(ReportArgs),
    /// Write the figures for Prometheus' node exporter; `run --listen` answers scrapers itself
    Metrics(MetricsArgs),
    /// Show the paths live, to scroll, sort and filter by keys; q or Ctrl-C leaves
    ///
    /// The last line names the keys. After `/` type a filter as for --filter, after `s` columns as for --sort.
    #[command(after_long_help = select::help::<PathView>())]
    Top(TopArgs),
    /// Show the congestion control of each flow across a device, or make flows share it (--fair)
    #[command(long_about = WATCH, after_long_help = select::help::<link::FlowView>())]
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
        /// The directory of the manual pages.
        dir: PathBuf,
    },
    /// Print the completions for a shell
    #[command(hide = true)]
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
}

#[cfg(test)]
mod tests;
