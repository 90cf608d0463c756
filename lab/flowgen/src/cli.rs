//! Command line: names, defaults and help.

use clap::{Args, Parser, Subcommand, ValueEnum};
use flowgen::abort::{AbortOptions, How};
use flowgen::bulk::BulkOptions;
use flowgen::calibrate::CalibrateOptions;
use flowgen::hold::HoldOptions;
use flowgen::protocol::Limit;
use flowgen::server::ServeOptions;
use flowgen::short::{ShortOptions, Until};
use flowgen::spread::{Prefix, SpreadOptions};
use flowgen::transport::{PathEnds, Transport};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;
use values::{byte_count, cc_name, on_or_off, parallelism, rate, seconds, some_bytes};

mod values;

/// TCP traffic for experiments: one server, many kinds of connections.
///
/// Start `flowgen serve` on one side, then a client mode on the other. Results are JSON on
/// stdout, one object per line; messages go to stderr.
#[derive(Debug, Parser)]
#[command(version, arg_required_else_help = true, after_help = EXAMPLES)]
pub struct Cli {
    /// The command.
    #[command(subcommand)]
    pub mode: Mode,
}

const EXAMPLES: &str = "\
Examples:
  flowgen serve --listen [::]:5201                        answer every mode, IPv4 and IPv6
  flowgen bulk --to 10.0.0.2:5201 --seconds 10            upload for 10 s, goodput at the receiver
  flowgen bulk --to 10.0.0.2:5201 --bytes 1M --count 40   40 uploads in a row, and their mean
  flowgen bulk --to 10.0.0.2:5201 --reverse --cc bbr      the server sends
  flowgen bulk --to 10.0.0.2:5201 --transport mpquic --path 10.1.0.1=10.1.0.2 --cc olia
  flowgen short --to 10.0.0.2:5201 --seconds 5            connections per second
  flowgen spread --to-prefix 10.64.0.0/14 --port 5201 --distinct 10000 --hot 10
  flowgen hold --to 10.0.0.2:5201 --connections 5000 --seconds 30
  flowgen abort --to 10.0.0.2:5201 --how reset

Exit status: 0 done, 1 something failed, 2 wrong usage.";

/// The modes.
#[derive(Debug, Subcommand)]
pub enum Mode {
    /// Answer all client modes; prints `listening ADDR` when ready.
    Serve(Serve),
    /// Carry data for a time or an amount; one report per connection.
    Bulk(Bulk),
    /// Many short connections: ask one byte, read a small answer; reports the rate.
    Short(Short),
    /// Connections to many addresses of a prefix, some of them hot.
    ///
    /// The peer answers for the whole prefix after `ip route add local PREFIX dev lo`.
    Spread(Spread),
    /// Keep many connections open, trickling data echoed by the server.
    ///
    /// Fails when one connection breaks, or does not return every byte.
    Hold(Hold),
    /// End a transfer badly on purpose.
    Abort(Abort),
    /// Run groups of connections by a plan in JSON, with samples of sockets and queues.
    Play(Play),
    /// Answer `calibrate`.
    Reflect(Reflect),
    /// Measure an idle path: round trip, rate, loss, and this host's timers.
    Calibrate(Calibrate),
    /// Write the packets of a device to a pcap file, until SIGINT or SIGTERM.
    Capture(Capture),
    /// Switch a device's work on packets on or off.
    Offload(Switches),
}

/// Options of `capture`.
#[derive(Debug, Args)]
pub struct Capture {
    /// Its name.
    pub device: String,
    /// The file.
    #[arg(long, value_name = "FILE")]
    pub out: PathBuf,
    /// Bytes kept of each packet.
    #[arg(long, value_name = "N", default_value_t = 128)]
    pub snap_bytes: usize,
}

/// Options of `offload`.
#[derive(Debug, Args)]
pub struct Switches {
    /// Its name.
    pub device: String,
    /// Join packets that arrive close together.
    #[arg(long, value_name = "on|off", value_parser = on_or_off)]
    pub gro: Option<bool>,
    /// Cut large segments.
    #[arg(long, value_name = "on|off", value_parser = on_or_off)]
    pub tso: Option<bool>,
}

/// Options of `play`.
#[derive(Debug, Args)]
pub struct Play {
    /// The plan; its fields are those of `flowgen::play::Plan`.
    pub plan: PathBuf,
    /// Folder for flows.csv, samples.csv and queues.csv.
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// Send SIGUSR1 to this process when the measured time begins.
    #[arg(long, value_name = "PID", value_parser = clap::value_parser!(i32).range(2..))]
    pub signal: Option<i32>,
    /// Sample runs and time of the sockops programs attached to this cgroup: programs.csv.
    #[arg(long, value_name = "CGROUP")]
    pub programs: Option<PathBuf>,
}

/// Options of `reflect`.
#[derive(Debug, Args)]
pub struct Reflect {
    /// UDP address and port.
    #[arg(long, value_name = "ADDR:PORT")]
    pub listen: SocketAddr,
}

/// Options of `calibrate`.
#[derive(Debug, Args)]
pub struct Calibrate {
    /// Address of `reflect`.
    #[arg(long, value_name = "ADDR:PORT")]
    to: SocketAddr,
    /// Pings for the idle round trip.
    #[arg(long, value_name = "N", default_value_t = 11)]
    pings: u32,
    /// Send at this rate, above the bottleneck's, and report the arriving rate.
    #[arg(long, value_name = "MBIT")]
    rate_mbit: Option<f64>,
    /// For so long.
    #[arg(long, value_name = "S", default_value_t = 0.5)]
    rate_seconds: f64,
    /// Small packets to count losses by.
    #[arg(long, value_name = "N", default_value_t = 0)]
    loss_packets: u32,
    /// Loss packets per second.
    #[arg(long, value_name = "R", default_value_t = 1000.0)]
    loss_packets_per_s: f64,
}

/// Options of `serve`.
#[derive(Debug, Args)]
pub struct Serve {
    /// Address and port; port 0 picks one; `[::]:PORT` also takes IPv4.
    #[arg(long, value_name = "ADDR:PORT")]
    listen: SocketAddr,
    /// Serve one connection, then exit.
    #[arg(long)]
    once: bool,
    /// Bytes of the answer to a short connection.
    #[arg(long, value_name = "BYTES", default_value_t = 128)]
    short_size: u64,
    /// Take MPTCP connections as well as TCP.
    #[arg(long)]
    mptcp: bool,
    /// Answer QUIC uploads on the same port of UDP; needs a build with the feature `mpquic`.
    #[arg(long, conflicts_with = "once")]
    quic: bool,
    /// Most paths of a QUIC connection; 1 is QUIC without multipath.
    #[arg(long, value_name = "N", default_value_t = 8, requires = "quic")]
    quic_paths: u32,
    /// Congestion control of the listener and what it accepts. With one needing ECN, such as
    /// dctcp, peers with the same algorithm negotiate ECN.
    #[arg(long, value_name = "NAME", value_parser = cc_name)]
    cc: Option<String>,
}

/// Options of `bulk`.
#[derive(Debug, Args)]
pub struct Bulk {
    /// The server.
    #[arg(long, value_name = "ADDR:PORT")]
    to: SocketAddr,
    /// Send for so long on each connection [default: 10].
    #[arg(long, value_name = "S", value_parser = seconds, conflicts_with = "bytes")]
    seconds: Option<Duration>,
    /// Send so much on each connection; k, M, G are powers of 1000.
    #[arg(long, value_name = "N", value_parser = byte_count)]
    bytes: Option<u64>,
    /// Connections in all [default: one in each place of --parallel].
    #[arg(long, value_name = "K")]
    count: Option<u64>,
    /// Connections at the same time.
    #[arg(long, value_name = "P", default_value_t = 1, value_parser = parallelism)]
    parallel: usize,
    /// tcp, mptcp, quic or mpquic; the QUICs need a build with the feature `mpquic`.
    #[arg(long, value_name = "NAME", default_value_t)]
    transport: Transport,
    /// A further path of mpquic, from an address of this host, to another address of the server.
    #[arg(long = "path", value_name = "LOCAL[=REMOTE]")]
    paths: Vec<PathEnds>,
    /// The server sends; not with QUIC.
    #[arg(long)]
    reverse: bool,
    /// Congestion control set on the client's own socket before it connects, as an application
    /// may; of QUIC: cubic (the default), reno, bbr3, lia, olia or balia.
    #[arg(long, value_name = "NAME", value_parser = cc_name)]
    cc: Option<String>,
    /// Source address.
    #[arg(long, value_name = "ADDR")]
    bind: Option<IpAddr>,
    /// Pause between a connection and the next.
    #[arg(long, value_name = "G", default_value_t = 0)]
    gap_ms: u64,
    /// Longest wait for the connection, for progress, and for the data in flight to drain.
    #[arg(long, value_name = "S", default_value = "30", value_parser = seconds)]
    wait: Duration,
    /// Print a table instead of JSON.
    #[arg(long)]
    pub text: bool,
}

/// Options of `short`.
#[derive(Debug, Args)]
pub struct Short {
    /// The server.
    #[arg(long, value_name = "ADDR:PORT")]
    to: SocketAddr,
    /// Start connections for so long [default: 10].
    #[arg(long, value_name = "S", value_parser = seconds, conflicts_with = "count")]
    seconds: Option<Duration>,
    /// Make so many connections.
    #[arg(long, value_name = "K")]
    count: Option<u64>,
    /// Bytes expected in answer; must equal `serve --short-size`.
    #[arg(long, value_name = "BYTES", default_value_t = 128)]
    size: u64,
    /// Connections at the same time.
    #[arg(long, value_name = "C", default_value_t = 16, value_parser = parallelism)]
    concurrency: usize,
    /// Longest life of one connection.
    #[arg(long, value_name = "S", default_value = "30", value_parser = seconds)]
    wait: Duration,
}

/// Options of `spread`.
#[derive(Debug, Args)]
pub struct Spread {
    /// Addresses to choose from, without the first and the last.
    #[arg(long, value_name = "PREFIX")]
    to_prefix: Prefix,
    /// The server's port.
    #[arg(long)]
    port: u16,
    /// Cold destinations; each is visited at least once.
    #[arg(long, value_name = "N", default_value_t = 1000)]
    distinct: u64,
    /// Connections in all [default: one to each cold destination, and the hot share on top].
    #[arg(long, value_name = "K")]
    count: Option<u64>,
    /// Hot destinations.
    #[arg(long, value_name = "H", default_value_t = 0)]
    hot: u64,
    /// Share of all connections going to hot destinations.
    #[arg(long, value_name = "SHARE", default_value_t = 0.5)]
    hot_share: f64,
    /// Connections at the same time.
    #[arg(long, value_name = "C", default_value_t = 16, value_parser = parallelism)]
    concurrency: usize,
    /// Bytes sent on each connection; more than 1 are preceded by a 24-byte header.
    #[arg(long, value_name = "B", default_value = "1", value_parser = some_bytes)]
    bytes: u64,
    /// Chooses the addresses and the order of the hot ones.
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// Longest life of one connection.
    #[arg(long, value_name = "S", default_value = "30", value_parser = seconds)]
    wait: Duration,
}

/// Options of `hold`.
#[derive(Debug, Args)]
pub struct Hold {
    /// The server.
    #[arg(long, value_name = "ADDR:PORT")]
    to: SocketAddr,
    /// Connections to open.
    #[arg(long, value_name = "N")]
    connections: usize,
    /// Hold them for so long once all are open.
    #[arg(long, value_name = "S", value_parser = seconds)]
    seconds: Duration,
    /// Sent on each connection, and echoed; 0 for idle connections.
    #[arg(long, value_name = "R", default_value = "1", value_parser = rate)]
    rate_bytes_per_s: f64,
    /// Longest time without progress while opening, and for the last echoes.
    #[arg(long, value_name = "S", default_value = "10", value_parser = seconds)]
    wait: Duration,
}

/// Options of `abort`.
#[derive(Debug, Args)]
pub struct Abort {
    /// The server.
    #[arg(long, value_name = "ADDR:PORT")]
    to: SocketAddr,
    /// Transfer so much first; k, M, G are powers of 1000.
    #[arg(long, value_name = "N", default_value = "1M", value_parser = byte_count)]
    bytes: u64,
    /// How it ends.
    #[arg(long)]
    how: Ending,
    /// With vanish: stop reading for so long before leaving.
    #[arg(long, value_name = "S", default_value = "1", value_parser = seconds)]
    stall: Duration,
    /// Longest wait for progress.
    #[arg(long, value_name = "S", default_value = "30", value_parser = seconds)]
    wait: Duration,
}

/// How an aborted connection ends.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum Ending {
    /// The client sends, then resets the connection.
    Reset,
    /// The server sends, the client stops reading and exits with data unread.
    Vanish,
}

impl From<&Serve> for ServeOptions {
    fn from(args: &Serve) -> Self {
        Self {
            listen: args.listen,
            once: args.once,
            short_bytes: args.short_size,
            mptcp: args.mptcp,
            quic_paths: args.quic.then_some(args.quic_paths),
            cc: args.cc.clone(),
        }
    }
}

impl From<&Bulk> for BulkOptions {
    fn from(args: &Bulk) -> Self {
        let time = || Limit::Time(args.seconds.unwrap_or(Duration::from_secs(10)));
        Self {
            to: args.to,
            limit: args.bytes.map_or_else(time, Limit::Bytes),
            reverse: args.reverse,
            count: args.count.unwrap_or(args.parallel as u64),
            parallel: args.parallel,
            transport: args.transport,
            paths: args.paths.clone(),
            cc: args.cc.clone(),
            bind: args.bind,
            gap: Duration::from_millis(args.gap_ms),
            wait: args.wait,
        }
    }
}

impl From<&Short> for ShortOptions {
    fn from(args: &Short) -> Self {
        let time = || Until::Time(args.seconds.unwrap_or(Duration::from_secs(10)));
        Self {
            to: args.to,
            until: args.count.map_or_else(time, Until::Count),
            answer_bytes: args.size,
            concurrency: args.concurrency,
            wait: args.wait,
        }
    }
}

impl From<&Spread> for SpreadOptions {
    fn from(args: &Spread) -> Self {
        Self {
            prefix: args.to_prefix,
            port: args.port,
            distinct: args.distinct,
            count: args.count,
            hot: args.hot,
            hot_share: args.hot_share,
            concurrency: args.concurrency,
            bytes: args.bytes,
            seed: args.seed,
            wait: args.wait,
        }
    }
}

impl From<&Hold> for HoldOptions {
    fn from(args: &Hold) -> Self {
        Self {
            to: args.to,
            connections: args.connections,
            time: args.seconds,
            rate_bytes_per_s: args.rate_bytes_per_s,
            wait: args.wait,
        }
    }
}

impl From<&Calibrate> for CalibrateOptions {
    fn from(args: &Calibrate) -> Self {
        Self {
            to: args.to,
            pings: args.pings,
            rate_mbit: args.rate_mbit,
            rate_seconds: args.rate_seconds,
            loss_packets: args.loss_packets,
            loss_packets_per_s: args.loss_packets_per_s,
        }
    }
}

impl From<&Abort> for AbortOptions {
    fn from(args: &Abort) -> Self {
        let how = match args.how {
            Ending::Reset => How::Reset,
            Ending::Vanish => How::Vanish,
        };
        Self {
            to: args.to,
            bytes: args.bytes,
            how,
            stall: args.stall,
            wait: args.wait,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn definition_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn parallel_alone_runs_each_once() {
        let cli = Cli::parse_from("flowgen bulk --to 127.0.0.1:1 --parallel 4".split(' '));
        let Mode::Bulk(bulk) = cli.mode else {
            panic!("another mode")
        };
        let options = BulkOptions::from(&bulk);
        assert_eq!((options.count, options.parallel), (4, 4));
        assert_eq!(options.limit, Limit::Time(Duration::from_secs(10)));
    }
}
