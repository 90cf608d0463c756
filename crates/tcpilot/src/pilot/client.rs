//! The commands that ask: of the daemon, of the kernel, or of the state file.

use std::{
    fs,
    io::{self, Read, Write},
    net::{IpAddr, ToSocketAddrs},
    path::Path,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;
use tcpilot_core::Prefix;

use crate::{
    cli::{
        AskArgs, ConfigCommand, DEFAULT_CONFIG, DEFAULT_SOCKET, DEFAULT_STATE, ExplainArgs,
        MetricsArgs, ReportArgs, StateArgs, StateCommand,
    },
    failure::{Failure, Kind, printable},
    pilot::config::Config,
    pilot::daemon,
    pilot::figures::{
        EffectReport, Explanation, Flows, PathView, Paths, StateSummary, Status, TakeOvers,
    },
    pilot::metrics,
    pilot::protocol::{self, AskError, Request},
    pilot::report,
    pilot::state::{self, Store, StoredPath},
    pilot::table,
    show::document::Document,
};

fn show<T: Serialize>(value: &T, json: bool, text: impl Fn(&T) -> String) -> Result<(), Failure> {
    let out = if json {
        Document::new(value).pretty()?
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

/// What a take-over needs of the status, which another version may write in other words.
#[derive(Deserialize)]
struct Progress {
    take_overs: TakeOvers,
}

/// Longer than a daemon gives the new program to show that it can go on.
const TAKE_OVER_TIME: Duration = Duration::from_secs(150);

/// `tcpilot run --take-over`: has the daemon become this program.
///
/// # Errors
/// Why it goes on as before.
pub fn take_over(socket: &Path) -> Result<(), Failure> {
    let program = std::env::current_exe()?;
    let before: TakeOvers = protocol::ask(socket, &Request::TakeOver(program))?;
    let begun = Instant::now();
    while begun.elapsed() < TAKE_OVER_TIME {
        std::thread::sleep(Duration::from_millis(50));
        // While it changes, a question may be cut off.
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
            let message = format!("not taken over, the daemon goes on as before: {first}");
            return Err(Failure {
                others: problems.collect(),
                ..Failure::new(Kind::Failed, message, "")
            });
        }
    }
    Err(Failure::new(
        Kind::Failed,
        "the daemon has not said what became of the take-over",
        "see its log, and `tcpilot status`",
    ))
}

/// `tcpilot paths`
///
/// # Errors
/// One line.
pub fn paths(args: &AskArgs) -> Result<(), Failure> {
    let mut paths: Vec<PathView> = protocol::ask(&args.socket.socket, &Request::Paths)?;
    PathView::sort(&mut paths);
    show(&Paths { paths }, args.json, |p| table::paths(&p.paths))
}

/// `tcpilot flows`
///
/// # Errors
/// One line.
pub fn flows(args: &AskArgs) -> Result<(), Failure> {
    let flows = protocol::ask(&args.socket.socket, &Request::Flows)?;
    show(&Flows { flows }, args.json, |f| table::flows(&f.flows))
}

/// `tcpilot explain`
///
/// # Errors
/// One line.
pub fn explain(args: &ExplainArgs) -> Result<(), Failure> {
    let target = Target::parse(&args.target)?;
    let mut all = Vec::new();
    for remote in &target.remotes {
        let request = Request::Explain(*remote);
        let mut explanation: Explanation = protocol::ask(&args.ask.socket.socket, &request)?;
        explanation.paths.retain(|p| target.takes(&p.path));
        all.push(explanation);
    }
    // A name may have several addresses; scripts get an object each.
    for explanation in &all {
        show(explanation, args.ask.json, table::explanation)?;
    }
    Ok(())
}

/// `tcpilot report`
///
/// # Errors
/// One line.
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
        io::stdout().write_all(text.as_bytes())?;
        return Ok(());
    }
    let Some(file) = &args.html else {
        return ask_and_show::<EffectReport>(&args.ask, &Request::Report, report::text);
    };
    let found: EffectReport = protocol::ask(socket, &Request::Report)?;
    let page = report::page(&found);
    if file.as_os_str() == "-" {
        io::stdout().write_all(page.as_bytes())?;
        return Ok(());
    }
    fs::write(file, page).map_err(|e| with_name(file, &e))
}

/// `tcpilot metrics`
///
/// # Errors
/// One line.
pub fn metrics(args: &MetricsArgs) -> Result<(), Failure> {
    let text = metrics::ask(&args.socket.socket)?;
    let Some(file) = &args.textfile else {
        return match io::stdout().write_all(text.as_bytes()) {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
            _ => Ok(()),
        };
    };
    // Whoever reads it while it is written would see a part.
    let mut beside = file.clone().into_os_string();
    beside.push(format!(".{}", std::process::id()));
    let beside = Path::new(&beside);
    let replaced = fs::write(beside, text).and_then(|()| fs::rename(beside, file));
    if replaced.is_err() {
        let _ = fs::remove_file(beside);
    }
    replaced.map_err(|error| with_name(file, &error))
}

/// What `explain` was asked about.
struct Target {
    remotes: Vec<Prefix>,
    netns: Option<String>,
    policy: Option<String>,
}

impl Target {
    /// An address, a name, or a path as [`table::paths`] shows it: `203.0.113.0/24 @blue [backup]`, in one
    /// word or three.
    fn parse(words: &[String]) -> Result<Target, Failure> {
        let mut target = Target {
            remotes: Vec::new(),
            netns: None,
            policy: None,
        };
        for word in words.iter().flat_map(|words| words.split_whitespace()) {
            let policy = word.strip_prefix('[').and_then(|w| w.strip_suffix(']'));
            if let Some(netns) = word.strip_prefix('@') {
                target.netns = Some(netns.to_owned());
            } else if let Some(policy) = policy.filter(|p| !p.contains(':')) {
                target.policy = Some(policy.to_owned());
            } else if target.remotes.is_empty() {
                target.remotes = find(word)?;
            } else {
                let remedy = "give one address, name or path";
                return Err(Failure::new(
                    Kind::Usage,
                    format!("`{word}` is one too many"),
                    remedy,
                ));
            }
        }
        Ok(target)
    }

    fn takes(&self, path: &PathView) -> bool {
        let is = |asked: &Option<String>, has: &str| asked.as_ref().is_none_or(|a| a == has);
        is(&self.netns, &path.netns) && is(&self.policy, &path.policy)
    }
}

/// The address or prefix, or the addresses of the host of that name.
fn find(word: &str) -> Result<Vec<Prefix>, Failure> {
    let refuse = |why: String, remedy| Failure::new(Kind::Usage, why, remedy);
    if let Ok(address) = word.parse::<IpAddr>() {
        return Ok(vec![Prefix::around(address.to_canonical(), 128)]);
    }
    if word.contains('/') {
        let prefix = word
            .parse::<Prefix>()
            .map_err(|e| refuse(e.to_string(), ""))?;
        return Ok(vec![prefix]);
    }
    let found = (word, 0).to_socket_addrs();
    let found = found.map_err(|e| {
        refuse(
            format!("no address of {word} was found: {e}"),
            "give an address",
        )
    })?;
    let mut remotes: Vec<Prefix> = found
        .map(|a| Prefix::around(a.ip().to_canonical(), 128))
        .collect();
    remotes.sort();
    remotes.dedup();
    Ok(remotes)
}

/// `tcpilot config …`
///
/// # Errors
/// One line for each thing that is wrong.
pub fn config(command: &ConfigCommand) -> Result<(), Failure> {
    match command {
        ConfigCommand::Check { file } => {
            let default = Path::new(DEFAULT_CONFIG);
            let Some(file) = file.as_deref().or(default.exists().then_some(default)) else {
                println!("there is no {DEFAULT_CONFIG}: every setting has its default");
                return Ok(());
            };
            let config = Config::load(Some(file))?;
            for warning in config.warnings() {
                println!("warning: {}", printable(&warning));
            }
            println!("{}: ok", file.display());
        }
        ConfigCommand::Show { file } => {
            print!("{}", daemon::load_config(file.as_deref())?.to_toml());
        }
    }
    Ok(())
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
        // Somebody who names a socket means that daemon's state, not that of the default file.
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

    fn parsed(words: &[&str]) -> Target {
        let words: Vec<String> = words.iter().map(|&w| w.to_owned()).collect();
        Target::parse(&words).unwrap()
    }

    #[test]
    fn explain_takes_addresses_names_and_paths_as_they_are_shown() {
        for (word, prefix) in [
            ("203.0.113.9", "203.0.113.9"),
            ("::ffff:203.0.113.9", "203.0.113.9"),
            ("2001:db8:7::/48", "2001:db8:7::/48"),
            ("203.0.113.0/24", "203.0.113.0/24"),
        ] {
            assert_eq!(parsed(&[word]).remotes, [prefix.parse().unwrap()], "{word}");
        }
        let local: Prefix = "127.0.0.1".parse().unwrap();
        assert!(parsed(&["localhost"]).remotes.contains(&local));
        for words in [
            &["2001:db8:7::/48 @blue [backup]"][..],
            &["2001:db8:7::/48", "@blue", "[backup]"],
        ] {
            let target = parsed(words);
            assert_eq!(target.remotes.len(), 1);
            let names = (target.netns.as_deref(), target.policy.as_deref());
            assert_eq!(names, (Some("blue"), Some("backup")));
        }
        for words in [
            &["203.0.113.9/24"][..],
            &["10.0.0.1", "10.0.0.2"],
            &["no such host"],
        ] {
            let words: Vec<String> = words.iter().map(|&w| w.to_owned()).collect();
            let failure = Target::parse(&words).err().unwrap();
            assert_eq!(failure.kind, Kind::Usage, "{words:?}");
        }
    }

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
