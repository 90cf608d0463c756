//! The `tcpilot` command: parses, dispatches, and turns a failure into one line and an exit status.
#![warn(clippy::print_stdout)] // it panics if the reader is gone: `tcpilot_show::output` does not

use std::{
    io::{IsTerminal, Write},
    process::ExitCode,
};

use clap::{CommandFactory, Parser};
use tcpilot_pilot::{check, client, daemon, top};
use tcpilot_show::{failure::Failure, output};
use tcpilot_watch as watch;
use tracing_subscriber::EnvFilter;

mod cc;
mod cli;
#[cfg(test)]
mod documents;
mod manual;

use cli::{Cli, Command};

fn main() -> ExitCode {
    let cli = Cli::parse();
    start_logging(&cli.command);
    tcpilot_kernel::end_on_panic();
    match dispatch(&cli.command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            // Not eprintln!: it panics if the terminal is gone.
            let first = failure.to_string();
            for line in std::iter::once(&first).chain(&failure.others) {
                let _ = writeln!(std::io::stderr(), "tcpilot: {}", output::printable(line));
            }
            ExitCode::from(failure.kind as u8)
        }
    }
}

/// Logs go to standard error. The live table owns the terminal, so only warnings are logged next to it.
fn start_logging(command: &Command) {
    let live = match command {
        Command::Run(args) => args.live,
        Command::Watch(args) => !args.json && !args.once,
        _ => false,
    } && std::io::stdout().is_terminal();
    let default = if live { "warn" } else { "info" };
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(default));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_target(false)
        .log_internal_errors(false) // it would panic if standard error is gone
        .init();
    tcpilot_kernel::log_libbpf_by_tracing();
}

fn dispatch(command: &Command) -> Result<(), Failure> {
    match command {
        Command::Run(args) if args.upgrade => client::upgrade(&args.socket),
        Command::Run(args) => daemon::run(args),
        Command::Check(args) => check::check(args),
        Command::Status(args) => client::status(args),
        Command::Paths(args) => client::paths(args),
        Command::Flows(args) => client::flows(args),
        Command::Explain(args) => client::explain(args),
        Command::Report(args) => client::report(args),
        Command::Metrics(args) => client::metrics(args),
        Command::Top(args) => top::top(args),
        Command::Watch(args) => watch::run(args),
        Command::Cc { command } => cc::run(command),
        Command::Config { command } => client::config(command),
        Command::State { command } => client::state(command),
        Command::Manual { dir } => {
            manual::write(dir).map_err(|error| Failure::of_file(dir, &error))
        }
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut Cli::command(), "tcpilot", &mut script);
            output::write(&String::from_utf8_lossy(&script))?;
            Ok(())
        }
    }
}
