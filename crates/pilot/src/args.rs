//! The options of the pilot's commands, and the text of their help.

use std::{net::SocketAddr, path::PathBuf};

use clap::{Args, Subcommand};
use tcpilot_show::{args::SelectArgs, metrics::listen_address};

use crate::json_fields;

/// Control socket of the daemon, unless `--socket` names another.
pub const DEFAULT_SOCKET: &str = "/run/tcpilot/tcpilot.sock";
/// Environment variable with the control socket, for commands without `--socket`.
pub const SOCKET_VARIABLE: &str = "TCPILOT_SOCKET";
/// State file of the daemon, unless `--state` names another.
pub const DEFAULT_STATE: &str = "/var/lib/tcpilot/state.db";
/// Optional: without this file every setting has its default.
pub const DEFAULT_CONFIG: &str = "/etc/tcpilot/tcpilot.toml";

/// Options of `tcpilot run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// Configuration file [default: /etc/tcpilot/tcpilot.toml if it exists]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Steer only sockets of this cgroup v2 directory [default: the root found in /proc/mounts]
    #[arg(long, value_name = "DIR")]
    pub cgroup: Option<PathBuf>,
    /// State file, for the knowledge kept over restarts
    #[arg(long, value_name = "FILE", default_value = DEFAULT_STATE)]
    pub state: PathBuf,
    /// Control socket, for root and the group in `[socket]` of the configuration
    #[arg(long, value_name = "FILE", env = SOCKET_VARIABLE, hide_env_values = true, default_value = DEFAULT_SOCKET)]
    pub socket: PathBuf,
    /// Decide and record, but set nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Show a live table of paths, and a report at the end
    #[arg(long)]
    pub live: bool,
    /// Answer HTTP: /metrics for Prometheus, /healthz, /readyz; a port alone means 127.0.0.1
    #[arg(long, value_name = "ADDR", value_parser = listen_address)]
    pub listen: Option<SocketAddr>,
    /// Serve a page for people at / of the address of --listen: whether it helps, and each address. It shows
    /// remote addresses, so only clients on this host get it, or with `any` all that reach the address
    #[arg(long, value_name = "READERS", num_args = 0..=1, require_equals = true, default_missing_value = "local")]
    pub page: Option<PageReaders>,
    /// Upgrade the running daemon to this program, or reload its configuration, without a gap
    ///
    /// The daemon keeps its arguments, its knowledge, and its open connections. If the program or the
    /// configuration has a fault, the daemon goes on as before, and this command gives the reason.
    #[arg(long, alias = "take-over", conflicts_with_all = ["config", "cgroup", "state", "dry_run", "live", "listen", "page"])]
    pub upgrade: bool,
}

/// The clients that get the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum PageReaders {
    /// Those on this host.
    Local,
    /// All that reach the address.
    Any,
}

/// The daemon's control socket.
#[derive(Clone, Debug, Args)]
pub struct SocketArgs {
    /// Control socket of the daemon
    #[arg(long, value_name = "FILE", env = SOCKET_VARIABLE, hide_env_values = true, default_value = DEFAULT_SOCKET)]
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
    /// Write one self-contained page with plots; `-` is standard output
    #[arg(long, value_name = "FILE", conflicts_with = "json")]
    pub html: Option<PathBuf>,
    /// Report whether the fleet helps: against sites that are held back from it
    #[arg(long, conflicts_with_all = ["html", "trial"])]
    pub fleet: bool,
    /// Compare without pause for this long (90m, 24h, 2d), half of it held out; 0 ends the trial
    #[arg(long, value_name = "TIME", value_parser = seconds, conflicts_with_all = ["json", "html"])]
    pub trial: Option<u64>,
    /// The question.
    #[command(flatten)]
    pub ask: AskArgs,
}

/// Options of `tcpilot metrics`.
#[derive(Debug, Args)]
pub struct MetricsArgs {
    /// Replace FILE in one step, for the node exporter's textfile collector [default: standard output]
    #[arg(long, value_name = "FILE")]
    pub textfile: Option<PathBuf>,
    /// The socket.
    #[command(flatten)]
    pub socket: SocketArgs,
}

/// The options of a list.
#[derive(Debug, Args)]
pub struct ListArgs {
    /// The selection.
    #[command(flatten)]
    pub list: SelectArgs,
    /// The question.
    #[command(flatten)]
    pub ask: AskArgs,
}

/// Options of `tcpilot check`.
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// Configuration file [default: /etc/tcpilot/tcpilot.toml if it exists]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Steer only sockets of this cgroup v2 directory [default: the root found in /proc/mounts]
    #[arg(long, value_name = "DIR")]
    pub cgroup: Option<PathBuf>,
    /// Measure the traffic for this many seconds; 0 does not measure it
    #[arg(long, value_name = "COUNT", default_value_t = 10)]
    pub seconds: u64,
    /// Print JSON for scripts instead of a table
    #[arg(long)]
    pub json: bool,
}

/// Options of `tcpilot status`.
#[derive(Debug, Args)]
pub struct StatusArgs {
    /// Also show the counts: connections by reason, traffic, learner, tunings, memory
    #[arg(long)]
    pub verbose: bool,
    /// The question.
    #[command(flatten)]
    pub ask: AskArgs,
}

/// The selection of a list of paths.
#[derive(Debug, Args)]
pub struct PathsArgs {
    /// Show a row for each algorithm of each path instead of one for each address
    #[arg(long)]
    pub all: bool,
    /// The selection.
    #[command(flatten)]
    pub list: SelectArgs,
}

/// Options of `tcpilot paths`.
#[derive(Debug, Args)]
pub struct PathListArgs {
    /// The selection.
    #[command(flatten)]
    pub list: PathsArgs,
    /// The question.
    #[command(flatten)]
    pub ask: AskArgs,
}

/// Options of `tcpilot top`.
#[derive(Debug, Args)]
pub struct TopArgs {
    /// The selection.
    #[command(flatten)]
    pub list: PathsArgs,
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

/// Commands about the configuration.
#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Read a file, and report its mistakes and anything without effect
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
    #[command(after_long_help = json_fields::state_show())]
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
