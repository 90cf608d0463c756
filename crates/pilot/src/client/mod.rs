//! The commands that ask the daemon, the kernel, or the state file.

mod explain;
mod state;

use std::{
    io,
    path::Path,
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use tcpilot_config::Config;
use tcpilot_kernel::file;
use tcpilot_show::{
    document::Document,
    failure::{Failure, Kind},
    output::{self, printable},
    select::Selection,
};

pub use self::{explain::explain, state::state};
use crate::{
    args::{
        AskArgs, ConfigCommand, DEFAULT_CONFIG, ListArgs, MetricsArgs, PathListArgs, ReportArgs,
        StatusArgs,
    },
    daemon,
    figures::{EffectReport, FleetReport, Flows, Paths, Status, Upgrades},
    lists, metrics,
    protocol::{self, Request},
    report, table,
};

fn show<T: Serialize>(value: &T, json: bool, text: impl Fn(&T) -> String) -> Result<(), Failure> {
    if json {
        output::write(&Document::new(value).pretty()?)?;
    } else {
        output::print(&text(value))?;
    }
    Ok(())
}

fn ask_and_show<T: Serialize + DeserializeOwned>(
    args: &AskArgs,
    request: &Request,
    text: impl Fn(&T) -> String,
) -> Result<(), Failure> {
    let value: T = protocol::ask(&args.socket.socket, request)?;
    show(&value, args.json, text)
}

/// `tcpilot status`
///
/// # Errors
/// The daemon does not answer.
pub fn status(args: &StatusArgs) -> Result<(), Failure> {
    let text = match args.verbose {
        true => table::status_in_full,
        false => table::status,
    };
    ask_and_show::<Status>(&args.ask, &Request::Status, text)
}

/// The part of the status needed for an upgrade. The rest is not read, because another version may write it
/// in another form.
#[derive(Deserialize)]
struct Progress {
    take_overs: Upgrades,
}

/// Time to wait for the end of an upgrade: longer than the daemon's wait for the new program's trial.
const UPGRADE_TIME: Duration = Duration::from_secs(150);

/// `tcpilot run --upgrade`: has the daemon become this program.
///
/// # Errors
/// The reason why the daemon goes on as before, or the lack of an answer.
pub fn upgrade(socket: &Path) -> Result<(), Failure> {
    let program = std::env::current_exe()?;
    let before: Upgrades = protocol::ask(socket, &Request::Upgrade(program))?;
    let begun = Instant::now();
    while begun.elapsed() < UPGRADE_TIME {
        std::thread::sleep(Duration::from_millis(50));
        // While the daemon changes its program, a question may be cut off.
        let Ok(now) = protocol::ask::<Progress>(socket, &Request::Status) else {
            continue;
        };
        let now = now.take_overs;
        if now.done != before.done {
            return Ok(());
        }
        if now.refused != before.refused {
            let mut problems = now.problems.into_iter();
            let first = problems.next().unwrap_or_default();
            let message = format!("not upgraded, the daemon goes on as before: {first}");
            return Err(Failure {
                others: problems.collect(),
                ..Failure::new(Kind::Failed, message, "")
            });
        }
    }
    Err(Failure::new(
        Kind::Failed,
        "the daemon has not said the outcome of the upgrade",
        "see its log, and `tcpilot status`",
    ))
}

/// `tcpilot paths`
///
/// # Errors
/// The query is not understood, or the daemon does not answer.
pub fn paths(args: &PathListArgs) -> Result<(), Failure> {
    let (socket, list) = (&args.ask.socket.socket, &args.list.list);
    let selection = Selection::new(&list.query())?;
    if !args.ask.json {
        let text = lists::table_of_paths(socket, &selection, &args.list)?;
        return Ok(output::print(&text)?);
    }
    let paths = lists::paths(socket, &selection, list.processes)?;
    output::write(&Document::new(&Paths { paths }).pretty()?)?;
    Ok(())
}

/// `tcpilot flows`
///
/// # Errors
/// The query is not understood, or the daemon does not answer.
pub fn flows(args: &ListArgs) -> Result<(), Failure> {
    let (ask, list) = (&args.ask, &args.list);
    let selection = Selection::new(&list.query())?;
    let flows = lists::flows(&ask.socket.socket, &selection, list.processes)?;
    show(&Flows { flows }, ask.json, |shown| {
        table::selected_flows(&shown.flows, &selection, list.processes)
    })
}

/// `tcpilot report`
///
/// # Errors
/// The daemon does not answer, or refuses the trial, or the page cannot be written.
pub fn report(args: &ReportArgs) -> Result<(), Failure> {
    let socket = &args.ask.socket.socket;
    if let Some(seconds) = args.trial {
        protocol::ask::<()>(socket, &Request::Trial(seconds))?;
        let text = match seconds {
            0 => "the trial has ended; what it has shown stays\n".to_owned(),
            _ => format!(
                "comparing without pause for {}: half of that time is held out\n",
                table::duration(seconds)
            ),
        };
        return Ok(output::print(&text)?);
    }
    if args.fleet {
        return ask_and_show::<FleetReport>(&args.ask, &Request::FleetReport, report::fleet);
    }
    let Some(file) = &args.html else {
        return ask_and_show::<EffectReport>(&args.ask, &Request::Report, report::text);
    };
    let found: EffectReport = protocol::ask(socket, &Request::Report)?;
    let page = report::page(&found);
    if file.as_os_str() == "-" {
        output::write(&page)?;
        return Ok(());
    }
    file::replace(file, file::PRIVATE, page.as_bytes()).map_err(|e| with_name(file, &e))
}

/// `tcpilot metrics`
///
/// # Errors
/// The daemon does not answer, or the file cannot be replaced.
pub fn metrics(args: &MetricsArgs) -> Result<(), Failure> {
    let text = metrics::ask(&args.socket.socket)?;
    let Some(file) = &args.textfile else {
        output::write(&text)?;
        return Ok(());
    };
    // The node exporter, which is another user, reads it.
    file::replace(file, file::PUBLIC, text.as_bytes()).map_err(|error| with_name(file, &error))
}

/// `tcpilot config …`
///
/// # Errors
/// The file cannot be read, or has mistakes: a line for each.
pub fn config(command: &ConfigCommand) -> Result<(), Failure> {
    match command {
        ConfigCommand::Check { file } => {
            let default = Path::new(DEFAULT_CONFIG);
            let Some(file) = file.as_deref().or(default.exists().then_some(default)) else {
                let text = format!("there is no {DEFAULT_CONFIG}: every setting has its default\n");
                return Ok(output::print(&text)?);
            };
            let config = Config::load(Some(file))?;
            let mut text = String::new();
            for warning in config
                .warnings()
                .into_iter()
                .chain(daemon::warnings(&config))
            {
                text += &format!("warning: {}\n", printable(&warning));
            }
            text += &format!("{}: ok\n", file.display());
            output::print(&text)?;
        }
        ConfigCommand::Show { file } => {
            output::print(&daemon::load_config(file.as_deref())?.to_toml())?;
        }
    }
    Ok(())
}

fn with_name(file: &Path, error: &io::Error) -> Failure {
    Failure::new(Kind::Failed, format!("{}: {error}", file.display()), "")
}
