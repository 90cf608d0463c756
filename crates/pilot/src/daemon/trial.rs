//! The trial: before a daemon becomes another program, it starts the program as a child. The child reads the
//! configuration, loads its BPF programs with the maps in use, reports success or failure, and ends. The
//! daemon goes on meanwhile, and goes on as before if anything failed.
//!
//! The trial gets the maps, but neither the links nor the locks. So if the daemon dies, nothing keeps its
//! programs attached.

use std::{
    fs,
    io::{self, Read},
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
        unix::{fs::MetadataExt, process::CommandExt},
    },
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{Receiver, channel},
    },
    time::{Duration, Instant},
};

use rustix::process::{Pid, PidfdFlags, pidfd_open};
use tcpilot_config::{Config, Text};
use tcpilot_kernel::{Legacy, Pilot, host, try_program};
use tcpilot_show::failure::{Failure, Kind};

use super::{
    Prepared,
    inherited::{HandOver, TrialResult},
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
    said: Reader,
    errors: Reader,
    begun: Instant,
}

/// The most bytes of a result: it has the configuration, which is at most 1 MiB.
const RESULT_BYTES_MAX: usize = 4 << 20;
/// The most bytes kept of what a trial logs.
const LOG_BYTES_MAX: usize = 64 << 10;
/// The longest line that this daemon logs about a trial, and the most of them.
const LINE_CHARS_MAX: usize = 1000;
const LINES_MAX: usize = 64;
/// Time for the rest of a trial's output. A process of its own might keep the pipe open.
const REST_TIME: Duration = Duration::from_secs(1);

/// The end of an output, and the number of bytes before it.
#[derive(Default)]
struct Kept {
    bytes: Vec<u8>,
    dropped: u64,
}

/// A thread that reads an output to its end, and keeps the last part.
struct Reader {
    kept: Arc<Mutex<Kept>>,
    ended: Receiver<()>,
}

impl Reader {
    fn begin(mut output: impl Read + Send + 'static, bytes_max: usize) -> io::Result<Reader> {
        let kept = Arc::new(Mutex::new(Kept::default()));
        let (end, ended) = channel();
        let kept_by_thread = Arc::clone(&kept);
        let read = move || {
            let mut part = [0; 16 << 10];
            while let Ok(count @ 1..) = output.read(&mut part) {
                let mut kept = kept_by_thread
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner);
                kept.bytes
                    .extend_from_slice(part.get(..count).unwrap_or_default());
                let surplus = kept.bytes.len().saturating_sub(bytes_max);
                kept.bytes.drain(..surplus);
                kept.dropped += surplus as u64;
            }
            let _ = end.send(()); // nobody waits any more
        };
        std::thread::Builder::new()
            .name("trial".to_owned())
            .spawn(read)?;
        Ok(Reader { kept, ended })
    }

    fn end(self) -> (String, u64) {
        let _ = self.ended.recv_timeout(REST_TIME);
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        (
            String::from_utf8_lossy(&kept.bytes).into_owned(),
            kept.dropped,
        )
    }
}

/// The beginning of a line, and how much more there is.
fn shortened(line: &str) -> String {
    match line.char_indices().nth(LINE_CHARS_MAX) {
        Some((at, _)) => format!("{}… ({} bytes more)", &line[..at], line.len() - at),
        None => line.to_owned(),
    }
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
        let mut command = command(program);
        command.stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let told = hand_over.tell(&mut command)?;
        // The child inherits these descriptors, but no links: those would keep the daemon attached.
        let maps = hand_over.inherited.iter().flat_map(|e| e.pilot.all());
        let left: Vec<i32> = maps.chain([told.as_raw_fd()]).collect();
        let mut child = try_program(command, &left)?;
        let (said, errors) = (child.stdout.take(), child.stderr.take());
        let no_pipe = || io::Error::other("no pipe to the trial");
        let said = Reader::begin(said.ok_or_else(no_pipe)?, RESULT_BYTES_MAX)?;
        let errors = Reader::begin(errors.ok_or_else(no_pipe)?, LOG_BYTES_MAX)?;
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
        let (said, _) = self.said.end();
        let Ok(result) = serde_json::from_str::<TrialResult>(&said) else {
            let (errors, dropped) = self.errors.end();
            let last = shortened(errors.lines().last().unwrap_or("it said nothing"));
            let program = self.program.display();
            let before = match dropped {
                0 => String::new(),
                bytes => format!(" (after {bytes} bytes that were not kept)"),
            };
            return Err(vec![format!(
                "{program} cannot continue ({status}): {last}{before}"
            )]);
        };
        if !result.problems.is_empty() {
            let problems = result.problems.iter().take(LINES_MAX);
            return Err(problems.map(|problem| shortened(problem)).collect());
        }
        Ok(Successor {
            program: self.program,
            result,
        })
    }
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
    fn endless_output_is_bounded_and_counted() {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("chatty");
        let text = "#!/bin/sh\nhead -c 10000000 /dev/zero | tr '\\0' x >&2\nexit 1\n";
        fs::write(&program, text).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        fs::set_permissions(&program, mode).unwrap();
        let hand_over = HandOver::new(Default::default());
        let mut trial = loop {
            match Trial::begin(&program, &hand_over) {
                // A child of another test has it open for an instant.
                Err(error) if error.kind() == io::ErrorKind::ExecutableFileBusy => {}
                begun => break begun.unwrap(),
            }
        };
        while !trial.is_over() {
            std::thread::sleep(Duration::from_millis(10));
        }
        assert!(trial.errors.kept.lock().unwrap().bytes.len() <= LOG_BYTES_MAX);
        let problems = trial.end().err().unwrap();
        let [problem] = &problems[..] else {
            panic!("{problems:?}")
        };
        assert!(problem.len() < 2 * LINE_CHARS_MAX, "{}", problem.len());
        let counted = format!("after {} bytes", 10_000_000 - LOG_BYTES_MAX);
        assert!(problem.contains(&counted), "{problem}");
    }

    #[test]
    fn the_own_program_is_the_file_that_runs() {
        assert_eq!(own_program(), std::env::current_exe().unwrap());
    }
}
