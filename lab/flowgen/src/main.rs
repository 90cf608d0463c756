//! `flowgen`: traffic generator for TCP experiments.
//!
//! One side runs `flowgen serve --listen [::]:5201`, the other a client mode:
//!
//! - `bulk` carries data for `--seconds` or `--bytes`, up or (`--reverse`) down, and prints for
//!   each connection the goodput measured at the receiver, the congestion control at start and
//!   end, and the sender's `TCP_INFO`; with `--count` also means over all connections, and a mean from
//!   connection 26 on, after the connections a learner needs.
//! - `short` counts connections per second: one byte asked, a small answer, closed by the server
//!   (so the client does not run out of ports).
//! - `spread` visits many addresses of a prefix, some of them hot, as the table of a
//!   per-destination learner sees them.
//! - `hold` shows that established connections survive whatever is done to the host meanwhile.
//! - `abort` makes connections that end by RST or with data unread.
//! - `play` runs groups of connections by a plan and samples sockets and queues meanwhile.
//! - `calibrate` measures an idle path, `reflect` answers it.
//! - `capture` writes the packets of a device to a pcap file.
//! - `offload` switches a device's work on packets on or off.
//!
//! JSON goes to stdout, one object per line. Exit status: 0 done, 1 something failed, 2 usage.

mod cli;

use anyhow::{Context, Result, bail};
use clap::Parser;
use cli::{Cli, Mode};
use flowgen::abort::AbortOptions;
use flowgen::bulk::{self, BulkOptions, ConnectionReport};
use flowgen::offload::{self, Offload};
use flowgen::play::{self, Plan};
use flowgen::server::{ServeOptions, Server};
use flowgen::{Error, abort, calibrate, capture, hold, net, short, spread};
use serde::Serialize;
use std::io::{self, Write};
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = Cli::parse();
    net::raise_open_files();
    match run(&cli.mode) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let cause = error.downcast_ref::<Error>();
            let text = cause.map_or_else(|| format!("{error:#}"), Error::with_remedy);
            eprintln!("flowgen: {text}");
            let usage = matches!(cause, Some(Error::Usage(_)));
            ExitCode::from(if usage { 2 } else { 1 })
        }
    }
}

fn run(mode: &Mode) -> Result<()> {
    match mode {
        Mode::Serve(args) => serve(args.into()),
        Mode::Bulk(args) => run_bulk(&args.into(), args.text),
        Mode::Short(args) => {
            let report = short::run(&args.into())?;
            print(&report)?;
            no_failures(report.errors, report.first_error)
        }
        Mode::Spread(args) => {
            let report = spread::run(&args.into())?;
            print(&report)?;
            no_failures(report.outcome.errors, report.outcome.first_error)
        }
        Mode::Hold(args) => {
            let report = hold::run(&args.into())?;
            print(&report)?;
            no_failures(report.errors as u64, report.first_error)
        }
        Mode::Abort(args) => Ok(print(&abort::run(&AbortOptions::from(args))?)?),
        Mode::Play(args) => {
            let text = std::fs::read_to_string(&args.plan)
                .with_context(|| format!("cannot read {}", args.plan.display()))?;
            let beside = play::Beside {
                signal: args.signal,
                programs: args.programs.as_deref(),
            };
            print(&play::run(&Plan::parse(&text)?, &args.out, beside)?)
        }
        Mode::Reflect(args) => Ok(calibrate::reflect(args.listen)?),
        Mode::Calibrate(args) => print(&calibrate::run(&args.into())?),
        Mode::Capture(args) => {
            let packets = capture::run(&args.device, &args.out, args.snap_bytes)?;
            print(&serde_json::json!({ "packets": packets }))
        }
        Mode::Offload(args) => {
            for (which, wanted) in [(Offload::Gro, args.gro), (Offload::Tso, args.tso)] {
                if let Some(on) = wanted {
                    offload::switch(&args.device, which, on)?;
                }
            }
            Ok(())
        }
    }
}

fn serve(options: ServeOptions) -> Result<()> {
    let mut server = Server::bind(options)?;
    play::lock_memory();
    let mut out = io::stdout().lock();
    writeln!(out, "listening {}", server.local_address()?).context("stdout")?;
    out.flush().context("stdout")?;
    drop(out);
    Ok(server.run()?)
}

fn run_bulk(options: &BulkOptions, text: bool) -> Result<()> {
    if text {
        print_line(bulk::TEXT_HEADING)?;
    }
    let mut written = Ok(());
    let summary = bulk::run(options, |report: &ConnectionReport| {
        let result = if text {
            print_line(&report.to_string())
        } else {
            print(report)
        };
        if written.is_ok() {
            written = result;
        }
    });
    written?;
    if options.count > 1 {
        if text {
            print_line(&summary.to_string())?
        } else {
            print(&summary)?
        }
    }
    no_failures(summary.errors, summary.first_error)
}

fn print(report: &impl Serialize) -> Result<()> {
    print_line(&serde_json::to_string(report).context("encoding JSON")?)
}

fn print_line(line: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}")
        .and_then(|()| out.flush())
        .context("stdout")
}

fn no_failures(errors: u64, first_error: Option<String>) -> Result<()> {
    if errors > 0 {
        bail!(
            "{errors} failed, the first: {}",
            first_error.unwrap_or_default()
        );
    }
    Ok(())
}
