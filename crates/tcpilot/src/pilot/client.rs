//! The commands that ask: of the daemon, of the kernel, or of the state file.

use std::{
    fs,
    io::{self, Read, Write},
    path::Path,
};

use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use crate::{
    cli::{AskArgs, ConfigCommand, DEFAULT_CONFIG, ExplainArgs, StateArgs, StateCommand},
    failure::{Failure, Kind},
    pilot::config::Config,
    pilot::daemon,
    pilot::protocol::{self, AskError, Request},
    pilot::state::{self, Store, StoredPath},
    show::table,
    show::views::{Explanation, FlowView, PathView, Status},
};

fn show<T: Serialize>(value: &T, json: bool, text: impl Fn(&T) -> String) -> Result<(), Failure> {
    let out = if json {
        let text = serde_json::to_string_pretty(value).map_err(io::Error::from)?;
        text + "\n"
    } else {
        text(value)
    };
    match io::stdout().write_all(out.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
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
/// As all of these: one line.
pub fn status(args: &AskArgs) -> Result<(), Failure> {
    ask_and_show::<Status>(args, &Request::Status, table::status)
}

/// `tcpilot paths`
///
/// # Errors
/// One line.
pub fn paths(args: &AskArgs) -> Result<(), Failure> {
    let mut paths: Vec<PathView> = protocol::ask(&args.socket.socket, &Request::Paths)?;
    PathView::sort(&mut paths);
    show(&paths, args.json, |p| table::paths(p))
}

/// `tcpilot flows`
///
/// # Errors
/// One line.
pub fn flows(args: &AskArgs) -> Result<(), Failure> {
    ask_and_show::<Vec<FlowView>>(args, &Request::Flows, |f| table::flows(f))
}

/// `tcpilot explain`
///
/// # Errors
/// One line.
pub fn explain(args: &ExplainArgs) -> Result<(), Failure> {
    let request = Request::Explain(args.address.to_canonical());
    ask_and_show::<Explanation>(&args.ask, &request, table::explanation)
}

/// `tcpilot config …`
///
/// # Errors
/// One line for each thing that is wrong.
pub fn config(command: &ConfigCommand) -> Result<(), Failure> {
    match command {
        ConfigCommand::Check { file } => {
            let file = file.as_deref().unwrap_or(Path::new(DEFAULT_CONFIG));
            let config = Config::load(Some(file))?;
            for warning in config.warnings() {
                println!("warning: {warning}");
            }
            println!("{}: ok", file.display());
        }
        ConfigCommand::Show { file } => {
            print!("{}", daemon::load_config(file.as_deref())?.to_toml());
        }
    }
    Ok(())
}

/// What `state show` prints.
#[derive(Debug, Serialize)]
struct StateSummary {
    from: String,
    paths: usize,
    connections: u64,
    oldest_unix_s: Option<u64>,
    newest_unix_s: Option<u64>,
}

/// `tcpilot state …`
///
/// # Errors
/// One line.
pub fn state(command: &StateCommand) -> Result<(), Failure> {
    match command {
        StateCommand::Show { json, at } => {
            let (document, from) = export(at)?;
            show(&summary(&document, from), *json, summary_text)
        }
        StateCommand::Export { file, at } => {
            let text =
                serde_json::to_string_pretty(&export(at)?.0).map_err(io::Error::from)? + "\n";
            if file.as_os_str() == "-" {
                io::stdout().write_all(text.as_bytes())?;
            } else {
                fs::write(file, text).map_err(|e| with_name(file, &e))?;
            }
            Ok(())
        }
        StateCommand::Import { file, at } => {
            let count = import(at, &read_paths(file)?)?;
            println!("{count} paths imported");
            Ok(())
        }
        StateCommand::Reset { at } => {
            reset(at)?;
            println!("everything learned was forgotten");
            Ok(())
        }
    }
}

fn with_name(file: &Path, error: &io::Error) -> Failure {
    Failure::new(Kind::Failed, format!("{}: {error}", file.display()), "")
}

fn read_paths(file: &Path) -> Result<Vec<StoredPath>, Failure> {
    let mut text = String::new();
    let read = if file.as_os_str() == "-" {
        io::stdin().read_to_string(&mut text)
    } else {
        fs::File::open(file).and_then(|mut f| f.read_to_string(&mut text))
    };
    read.map_err(|e| with_name(file, &e))?;
    state::parse(&text).map_err(|error| {
        Failure::new(
            Kind::Failed,
            format!("{}: {error}", file.display()),
            "give a file that `tcpilot state export` wrote",
        )
    })
}

/// Asks the daemon; `None` when none runs, so that the file may be used directly.
fn ask_running<T: DeserializeOwned>(
    at: &StateArgs,
    request: &Request,
) -> Result<Option<T>, Failure> {
    match protocol::ask(&at.socket.socket, request) {
        Ok(value) => Ok(Some(value)),
        Err(AskError::NotRunning(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Reading must not make a file where there is none.
fn check_exists(at: &StateArgs) -> Result<(), Failure> {
    if at.state.exists() {
        return Ok(());
    }
    Err(Failure::new(
        Kind::Failed,
        format!("no daemon runs, and there is no {}", at.state.display()),
        "start `tcpilot run`, or give its --socket or --state",
    ))
}

fn open_store(at: &StateArgs) -> Result<Store, Failure> {
    let (store, set_aside) = Store::open(&at.state)?;
    if let Some(aside) = set_aside {
        tracing::warn!("{aside}");
    }
    Ok(store)
}

fn export(at: &StateArgs) -> Result<(Value, String), Failure> {
    if let Some(document) = ask_running(at, &Request::StateExport)? {
        return Ok((document, "the running daemon".to_owned()));
    }
    check_exists(at)?;
    let mut bytes = Vec::new();
    open_store(at)?.export_json(&mut bytes)?;
    let document = serde_json::from_slice(&bytes).map_err(io::Error::from)?;
    Ok((document, at.state.display().to_string()))
}

/// Adds paths, a part at a time: the daemon has others to serve too.
fn import(at: &StateArgs, paths: &[StoredPath]) -> Result<usize, Failure> {
    for part in paths.chunks(protocol::IMPORT_PATHS) {
        if ask_running::<usize>(at, &Request::StateImport(part.to_vec()))?.is_none() {
            open_store(at)?.import(paths)?;
            break;
        }
    }
    Ok(paths.len())
}

fn reset(at: &StateArgs) -> Result<(), Failure> {
    if ask_running::<u32>(at, &Request::StateReset)?.is_none() {
        check_exists(at)?;
        open_store(at)?.reset()?;
    }
    Ok(())
}

fn summary(document: &Value, from: String) -> StateSummary {
    let none = Vec::new();
    let paths = document
        .get("paths")
        .and_then(Value::as_array)
        .unwrap_or(&none);
    let number = |path: &Value, key: &str| path.get(key).and_then(Value::as_u64);
    let times = || paths.iter().filter_map(|p| number(p, "updated_unix_s"));
    StateSummary {
        from,
        paths: paths.len(),
        connections: paths.iter().filter_map(|p| number(p, "connections")).sum(),
        oldest_unix_s: times().min(),
        newest_unix_s: times().max(),
    }
}

fn summary_text(s: &StateSummary) -> String {
    let mut text = format!(
        "{}: {} paths from {} connections\n",
        s.from, s.paths, s.connections
    );
    if let (Some(oldest), Some(newest)) = (s.oldest_unix_s, s.newest_unix_s) {
        text += &format!("last used between {oldest} and {newest} (Unix seconds)\n");
    }
    text
}
