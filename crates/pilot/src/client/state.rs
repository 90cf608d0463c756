//! `tcpilot state …`: the state of the running daemon, else of its file.

use std::{
    fs,
    io::{self, Read},
    path::Path,
    time::{SystemTime, UNIX_EPOCH},
};

use serde::de::DeserializeOwned;
use serde_json::Value;
use tcpilot_kernel::file;
use tcpilot_show::{
    failure::{Failure, Kind},
    output,
};

use super::{show, with_name};
use crate::{
    args::{DEFAULT_SOCKET, DEFAULT_STATE, StateArgs, StateCommand},
    figures::StateSummary,
    protocol::{self, AskError, Request},
    state::{self, Exported, Store, StoredPath},
    table,
};

/// `tcpilot state …`
///
/// # Errors
/// There is no state to read, or a document, a file or the daemon refuses.
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
                output::write(&output::printable_json(&text))?;
            } else {
                file::replace(file, file::PRIVATE, text.as_bytes())
                    .map_err(|e| with_name(file, &e))?;
            }
            Ok(())
        }
        StateCommand::Import { file, at } => {
            let text = import(at, &read_export(file)?)? + "\n";
            Ok(output::print(&text)?)
        }
        StateCommand::Reset { at } => {
            reset(at)?;
            Ok(output::print("everything learned was forgotten\n")?)
        }
    }
}

fn read_export(file: &Path) -> Result<Exported, Failure> {
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

/// Asks the daemon; `None` if none runs: then the command may use the file itself.
fn ask_running<T: DeserializeOwned>(
    at: &StateArgs,
    request: &Request,
) -> Result<Option<T>, Failure> {
    match protocol::ask(&at.socket.socket, request) {
        Ok(value) => Ok(Some(value)),
        // If the user names only a socket, they mean this daemon's state, not the default file.
        Err(AskError::NotRunning(_))
            if at.socket.socket == Path::new(DEFAULT_SOCKET)
                || at.state != Path::new(DEFAULT_STATE) =>
        {
            Ok(None)
        }
        Err(error @ AskError::NotRunning(_)) => Err(Failure {
            remedy: "start it, or name the file of its state with --state".to_owned(),
            ..error.into()
        }),
        Err(error) => Err(error.into()),
    }
}

/// An error if the file does not exist: a reading command must not create it.
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

/// Adds the content of a document, and returns a line for the user. The knowledge of thompson is imported
/// only into a file, because a daemon has it in memory and would overwrite the import at its next save.
fn import(at: &StateArgs, document: &Exported) -> Result<String, Failure> {
    let (paths, policies) = (document.paths.len(), document.learned.len());
    if policies == 0 {
        import_paths(at, &document.paths)?;
        return Ok(format!("{paths} paths imported"));
    }
    if ask_running::<Value>(at, &Request::Status)?.is_some() {
        return Err(Failure::new(
            Kind::Failed,
            "not imported, nothing was changed: a running daemon does not take up what thompson has learned",
            "stop it, import, and start it again",
        ));
    }
    open_store(at)?.import_all(document)?;
    let policies = table::number(policies as u64, "policy");
    Ok(format!(
        "{paths} paths imported, and what thompson has learned for {policies}"
    ))
}

/// Adds paths, a part at a time, because the daemon has other clients to serve too.
fn import_paths(at: &StateArgs, paths: &[StoredPath]) -> Result<(), Failure> {
    for part in paths.chunks(protocol::IMPORT_PATHS) {
        if ask_running::<usize>(at, &Request::StateImport(part.to_vec()))?.is_none() {
            return Ok(open_store(at)?.import(paths)?);
        }
    }
    Ok(())
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
        "{}: {} from {}\n",
        s.from,
        table::number(s.paths as u64, "path"),
        table::number(s.connections, "connection")
    );
    if let (Some(oldest), Some(newest)) = (s.oldest_unix_s, s.newest_unix_s) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.unwrap_or_default().as_secs();
        let ago = |then: u64| table::duration(now.saturating_sub(then));
        text += &format!(
            "last used between {} and {} ago\n",
            ago(oldest),
            ago(newest)
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_summed_up_in_words() {
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap()
            .as_secs();
        let text = summary_text(&StateSummary {
            from: "f".to_owned(),
            paths: 1,
            connections: 2,
            oldest_unix_s: Some(now - 3 * 86400 - 7200),
            newest_unix_s: Some(now - 90),
        });
        let told = "f: 1 path from 2 connections\nlast used between 3 d 2 h and 1 min 3";
        assert!(text.starts_with(told), "{text}");
    }
}
