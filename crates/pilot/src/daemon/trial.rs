//! The trial: before a daemon becomes another program, it starts the program as a child. The child reads the
//! configuration, loads its BPF programs with the maps in use, reports success or failure, and ends. The
//! daemon goes on meanwhile, and goes on as before if anything failed.
//!
//! The trial gets the maps, but neither the links nor the locks. So if the daemon dies, nothing keeps its
//! programs attached.

use std::{
    fs::{self, File},
    io::{self, Read, Seek},
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
        unix::{fs::MetadataExt, process::CommandExt},
    },
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use rustix::process::{Pid, PidfdFlags, pidfd_open};
use tcpilot_config::{Config, Text};
use tcpilot_kernel::{Legacy, Pilot, host, try_program};
use tcpilot_show::failure::{Failure, Kind};

use super::{
    Prepared,
    inherited::{HandOver, TrialResult, memory},
    load_text,
};
use crate::args::RunArgs;

/// The longest time of a trial: longer than a slow machine takes to load the programs.
const TRIAL_TIME: Duration = Duration::from_secs(120);

/// A trial under way.
pub struct Trial {
    program: PathBuf,
    child: Child,
    /// A descriptor that becomes readable when the child ends.
    ended: Option<OwnedFd>,
    said: File,
    errors: File,
    begun: Instant,
}

/// A program able to go on.
pub struct Successor {
    /// The program's file.
    pub program: PathBuf,
    /// The result of its trial.
    pub result: TrialResult,
}

impl Trial {
    /// Starts a program with this process's own arguments.
    ///
    /// # Errors
    /// The program cannot be started.
    pub fn begin(program: &Path, hand_over: &HandOver) -> io::Result<Trial> {
        let (said, errors) = (memory("tcpilot trial")?, memory("tcpilot trial's log")?);
        let mut command = command(program);
        command.stdin(Stdio::null());
        command
            .stdout(said.try_clone()?)
            .stderr(errors.try_clone()?);
        let told = hand_over.tell(&mut command)?;
        // The child inherits these descriptors, but no links: those would keep the daemon attached.
        let maps = hand_over.inherited.iter().flat_map(|e| e.pilot.all());
        let left: Vec<i32> = maps.chain([told.as_raw_fd()]).collect();
        let child = try_program(command, &left)?;
        Ok(Trial {
            program: program.to_owned(),
            ended: pidfd_open(Pid::from_child(&child), PidfdFlags::empty()).ok(),
            child,
            said,
            errors,
            begun: Instant::now(),
        })
    }

    /// A descriptor that becomes readable when the trial ends.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.ended.as_ref().map(AsFd::as_fd)
    }

    /// Whether the trial has ended; kills an overlong one.
    pub fn is_over(&mut self) -> bool {
        if self.begun.elapsed() > TRIAL_TIME {
            let _ = self.child.kill();
        }
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// The result of an ended trial.
    ///
    /// # Errors
    /// The reasons why the program cannot go on, a line each.
    pub fn end(mut self) -> Result<Successor, Vec<String>> {
        let status = self.child.wait().map_err(|e| vec![e.to_string()])?;
        let said = read_all(&mut self.said);
        let Ok(result) = serde_json::from_str::<TrialResult>(&said) else {
            let errors = read_all(&mut self.errors);
            let last = errors.lines().last().unwrap_or("it said nothing");
            let program = self.program.display();
            return Err(vec![format!(
                "{program} cannot continue ({status}): {last}"
            )]);
        };
        if !result.problems.is_empty() {
            return Err(result.problems);
        }
        Ok(Successor {
            program: self.program,
            result,
        })
    }
}

fn read_all(file: &mut File) -> String {
    let mut bytes = Vec::new();
    let read = file.rewind().and_then(|()| file.read_to_end(&mut bytes));
    read.map_or_else(
        |e| e.to_string(),
        |_| String::from_utf8_lossy(&bytes).into_owned(),
    )
}

/// A command to start `program` with this process's own arguments.
pub fn command(program: &Path) -> Command {
    let mut arguments = std::env::args_os();
    let mut command = Command::new(program);
    command.arg0(arguments.next().unwrap_or_default());
    command.args(arguments);
    command
}

/// This process's own program. If its file was replaced since: /proc/self/exe.
pub fn own_program() -> PathBuf {
    let own = Path::new("/proc/self/exe");
    let identity = |path: &Path| fs::metadata(path).ok().map(|meta| (meta.dev(), meta.ino()));
    match fs::read_link(own) {
        Ok(path) if identity(&path).is_some_and(|id| Some(id) == identity(own)) => path,
        _ => own.to_owned(),
    }
}

/// Runs in the program on trial: reports whether it could go on.
///
/// # Errors
/// The result cannot be written.
pub fn run(args: &RunArgs, hand_over: HandOver) -> Result<(), Failure> {
    let fits = hand_over.inherited.is_some();
    let result = match try_all(args, hand_over) {
        Ok(config) => TrialResult {
            fits,
            config,
            problems: Vec::new(),
        },
        Err(failure) => TrialResult {
            fits,
            config: None,
            problems: std::iter::once(failure.to_string())
                .chain(failure.others)
                .collect(),
        },
    };
    Ok(result.tell()?)
}

fn try_all(args: &RunArgs, hand_over: HandOver) -> Result<Option<Text>, Failure> {
    host::check_requirements()?;
    let text = load_text(args.config.as_deref())?;
    let config = Config::of(text.as_ref())?;
    let Some(inherited) = hand_over.inherited else {
        let prepared = Prepared::new(config, args, None)?;
        Pilot::load(&prepared.abi, prepared.config.paths_max)?;
        return Ok(text);
    };
    if !inherited.keys.has_room_for(config.paths_max) {
        return Err(other_size(text.as_ref(), inherited.keys.capacity()));
    }
    let prepared = Prepared::new(config, args, Some(&inherited.numbers))?;
    let legacy = Legacy::take(&inherited.pilot, inherited.keys)?;
    Pilot::inherit(&prepared.abi, &legacy)?;
    Ok(text)
}

fn other_size(text: Option<&Text>, capacity: u32) -> Failure {
    let place = text.map_or_else(String::new, |text| {
        let is_key = |line: &str| line.trim_start().starts_with("paths_max");
        match text.text.lines().position(is_key) {
            Some(before) => format!("{}:{}: ", text.file, before + 1),
            None => format!("{}: ", text.file),
        }
    });
    Failure::new(
        Kind::Usage,
        format!("{place}`paths_max` cannot change while tcpilot runs, it has room for {capacity}"),
        "restart it, or leave that as it is",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_size_is_refused_with_its_line() {
        let text = Text {
            file: "t.toml".to_owned(),
            text: "arms = [\"reno\"]\n  paths_max = 64\n".to_owned(),
        };
        let line = other_size(Some(&text), 16384).to_string();
        assert!(
            line.starts_with("t.toml:2: `paths_max` cannot change"),
            "{line}"
        );
        assert!(other_size(None, 1).to_string().starts_with("`paths_max`"));
    }

    #[test]
    fn the_own_program_is_the_file_that_runs() {
        assert_eq!(own_program(), std::env::current_exe().unwrap());
    }
}
