//! The daemon under test: started with files of its own, and asked over its control socket.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File},
    io::{Read, Write},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use serde_json::Value;

use crate::{
    bpffs::Registrations,
    learner::configured,
    place::places,
    process::{Child, Place, binary},
    until,
};

/// How a daemon ended.
#[derive(Debug)]
pub struct Ended {
    /// Exit status; none: a signal ended it.
    pub status: Option<i32>,
    /// Its log and its last line.
    pub stderr: String,
}

impl Ended {
    /// The lines that are not log lines, such as the reason why it ended.
    pub fn errors(&self) -> Vec<&str> {
        let lines = self.stderr.lines();
        lines.filter(|l| l.starts_with("tcpilot: ")).collect()
    }
}

/// A running daemon, killed on drop.
#[derive(Debug)]
pub struct Daemon {
    child: Child,
    dir: PathBuf,
    log: PathBuf,
    _registrations: Option<Registrations>,
}

impl Daemon {
    /// Starts one on a cgroup with its files in `dir`; does not wait.
    ///
    /// # Panics
    /// When it cannot be started.
    pub fn spawn(place: Place<'_>, cgroup: &Path, dir: &Path, config: &str, more: &[&str]) -> Self {
        let log = dir.join(format!("{}.log", crate::unique()));
        let has_default_algorithms = !config.contains("algorithms = ");
        let registrations = has_default_algorithms.then(Registrations::share);
        fs::write(dir.join("tcpilot.toml"), configured(config)).unwrap();
        let mut command = place.command("tcpilot");
        command.arg("run").arg("--cgroup").arg(cgroup);
        for (option, file) in [
            ("--config", "tcpilot.toml"),
            ("--state", "state.db"),
            ("--socket", "control.sock"),
        ] {
            command.arg(option).arg(dir.join(file));
        }
        command.args(more).env_remove("RUST_LOG");
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let child = command.stderr(File::create(&log).unwrap()).spawn().unwrap();
        Self {
            child: Child(child),
            dir: dir.to_path_buf(),
            log,
            _registrations: registrations,
        }
    }

    /// Waits until it answers. By then it is attached.
    ///
    /// # Panics
    /// When it ends instead, with its log.
    #[must_use]
    pub fn ready(mut self) -> Self {
        until("the daemon answers", || {
            let ended = self.child.0.try_wait().unwrap();
            assert!(ended.is_none(), "{ended:?}: {}", self.log());
            self.try_ask("status").ok()
        });
        self
    }

    /// Its standard error so far.
    ///
    /// # Panics
    /// When the file is not readable.
    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap()
    }

    /// Its control socket.
    pub fn socket(&self) -> PathBuf {
        self.dir.join("control.sock")
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.0.id()
    }

    /// Asks `status`, `paths`, `flows` or `explain ADDRESS` over the control socket: a test asks often, and a
    /// process for each question would take most of its time.
    ///
    /// # Errors
    /// The daemon's own, or the system's when it does not answer.
    ///
    /// # Panics
    /// When the answer is not JSON.
    pub fn try_ask(&self, question: &str) -> Result<Value, String> {
        let request = match question.split_once(' ') {
            Some((word, value)) => serde_json::json!({ word: value }),
            None => Value::from(question),
        };
        let mut answer = String::new();
        let mut socket = UnixStream::connect(self.socket()).map_err(|e| e.to_string())?;
        writeln!(socket, "{request}").map_err(|e| e.to_string())?;
        socket
            .read_to_string(&mut answer)
            .map_err(|e| e.to_string())?;
        if answer.is_empty() {
            return Err("no answer".into()); // it is ending right now
        }
        let mut reply: Value = serde_json::from_str(&answer).unwrap();
        match reply["ok"].take() {
            Value::Null => Err(reply["error"].to_string()),
            value => Ok(value),
        }
    }

    /// Sends a question unchanged, and returns the answer unchanged.
    ///
    /// # Panics
    /// When there is none.
    pub fn raw(&self, question: &Value) -> Value {
        let mut answer = String::new();
        let mut socket = UnixStream::connect(self.socket()).unwrap();
        writeln!(socket, "{question}").unwrap();
        socket.read_to_string(&mut answer).unwrap();
        serde_json::from_str(&answer).unwrap()
    }

    /// Runs `tcpilot <question> --json`.
    ///
    /// # Errors
    /// Its standard error.
    ///
    /// # Panics
    /// When the output is not JSON.
    pub fn try_command(&self, question: &str) -> Result<Value, String> {
        let mut command = Command::new(binary("tcpilot"));
        command.args(question.split(' ')).arg("--json");
        let output = command.arg("--socket").arg(self.socket()).output().unwrap();
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into_owned());
        }
        Ok(serde_json::from_slice(&output.stdout).unwrap())
    }

    /// As [`Daemon::try_command`], but panics on an error.
    ///
    /// # Panics
    /// When it does not.
    pub fn command(&self, question: &str) -> Value {
        self.try_command(question).unwrap()
    }

    /// As [`Daemon::try_ask`], but panics on an error.
    ///
    /// # Panics
    /// When it does not.
    pub fn ask(&self, question: &str) -> Value {
        self.try_ask(question).unwrap()
    }

    /// `tcpilot status`.
    pub fn status(&self) -> Value {
        self.ask("status")
    }

    /// The number of connections opened with this reason.
    ///
    /// # Panics
    /// When there is no such word.
    pub fn opened(&self, why: &str) -> u64 {
        self.status()["connections"][why].as_u64().unwrap()
    }

    /// `tcpilot paths`.
    ///
    /// # Panics
    /// When the answer is no list.
    pub fn paths(&self) -> Vec<Value> {
        self.ask("paths").as_array().unwrap().clone()
    }

    /// The known places: the paths to a prefix as one, since each class of handshakes has its own.
    ///
    /// # Panics
    /// When it does not answer.
    pub fn places(&self) -> Vec<Value> {
        places(self.paths())
    }

    /// The places' prefixes, sorted.
    pub fn prefixes(&self) -> Vec<String> {
        let mut all: Vec<String> = self.places().iter().map(|p| text(&p["prefix"])).collect();
        all.sort();
        all
    }

    /// The only place of this prefix.
    ///
    /// # Panics
    /// When there is none, or more.
    pub fn path(&self, prefix: &str) -> Value {
        let mut all = self.places();
        all.retain(|p| p["prefix"] == prefix);
        assert_eq!(all.len(), 1, "{prefix} in {:?}", self.prefixes());
        all.remove(0)
    }

    /// The last decisions about an address, the newest first.
    ///
    /// # Panics
    /// When there is no list of them.
    pub fn decisions(&self, address: &str) -> Vec<Value> {
        let known = self.ask(&format!("explain {address}"));
        let paths = known["paths"].as_array().unwrap();
        let of = |path: &Value| path["decisions"].as_array().unwrap().clone();
        let mut all: Vec<Value> = paths.iter().flat_map(of).collect();
        let age_s = |decision: &Value| decision["age_s"].as_f64().unwrap();
        all.sort_by(|a, b| age_s(a).total_cmp(&age_s(b)));
        all
    }

    /// The tunings of an address; null if it has none.
    ///
    /// # Panics
    /// When it does not answer.
    pub fn tuned(&self, address: &str) -> Value {
        let known = self.ask(&format!("explain {address}"));
        let paths = known["paths"].as_array().unwrap();
        let mut tuned = paths.iter().map(|path| &path["tuning"]);
        tuned
            .find(|tuning| !tuning.is_null())
            .cloned()
            .unwrap_or_default()
    }

    /// Waits until exactly so many steered connections have ended.
    ///
    /// # Panics
    /// When they do not, or were more.
    pub fn wait_closed(&self, count: u64) {
        let closed = until(&format!("{count} connections were closed"), || {
            let closed = self.status()["closed"].as_u64().unwrap();
            (closed >= count).then_some(closed)
        });
        assert_eq!(closed, count);
    }

    /// Sends it a signal, and does not wait.
    pub fn signal(&self, signal: i32) {
        self.child.signal(signal);
    }

    /// Runs `tcpilot run --upgrade` of this program.
    ///
    /// # Panics
    /// When it cannot be started.
    pub fn taken_over_by(&self, program: &Path) -> Output {
        let mut command = Command::new(program);
        command.args(["run", "--upgrade", "--socket"]);
        command.arg(self.socket()).output().unwrap()
    }

    /// Upgrades the daemon to the same program.
    ///
    /// # Panics
    /// When it does not.
    pub fn take_over(&self) {
        let output = self.taken_over_by(&binary("tcpilot"));
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{message}: {}", self.log());
    }

    /// The numbers of upgrades done and refused; an error if the question came during one.
    fn try_take_overs(&self) -> Result<(u64, u64), String> {
        let status = self.try_ask("status")?;
        let count = |word: &str| status["take_overs"][word].as_u64().unwrap_or_default();
        Ok((count("done"), count("refused")))
    }

    /// The numbers of upgrades done and refused.
    ///
    /// # Panics
    /// When it does not answer.
    pub fn take_overs(&self) -> (u64, u64) {
        self.try_take_overs().unwrap()
    }

    /// Waits until these numbers were done and refused.
    ///
    /// # Panics
    /// When there were others.
    pub fn wait_for_take_overs(&self, done: u64, refused: u64) {
        let now = until("the daemon was upgraded, or refused to be", || {
            let now = self.try_take_overs().ok()?;
            (now.0 + now.1 >= done + refused).then_some(now)
        });
        assert_eq!(now, (done, refused), "{}", self.log());
    }

    /// Changes its configuration file.
    ///
    /// # Panics
    /// When the file is not writable.
    pub fn configure(&self, config: &str) {
        fs::write(self.dir.join("tcpilot.toml"), configured(config)).unwrap();
    }

    /// The daemon's notes on each open connection, by its addresses.
    ///
    /// # Panics
    /// When it does not answer.
    pub fn remembered(&self) -> BTreeMap<String, [Value; 4]> {
        let flows = self.ask("flows");
        let flows = flows.as_array().unwrap();
        let of = |flow: &Value| {
            let name = format!("{} {}", flow["local"], flow["remote"]);
            let fields =
                ["algorithm", "why", "charged_to", "side"].map(|field| flow[field].clone());
            (name, fields)
        };
        flows.iter().map(of).collect()
    }

    /// Ends it by a signal, and waits.
    pub fn end(mut self, signal: i32) -> Ended {
        self.child.signal(signal);
        self.ended()
    }

    /// Waits for its end.
    pub fn ended(&mut self) -> Ended {
        let status = self.child.wait().code();
        Ended {
            status,
            stderr: self.log(),
        }
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// The arm of a path by its name.
///
/// # Panics
/// When there is none.
pub fn arm<'a>(path: &'a Value, name: &str) -> &'a Value {
    let arms = path["algorithms"].as_array().unwrap();
    arms.iter().find(|arm| arm["name"] == name).unwrap()
}

/// Compares a path's algorithms with those of before. The expected rates fade with time, so they may differ by a tenth.
///
/// # Panics
/// When they differ.
pub fn assert_same_arms(before: &Value, after: &Value) {
    let arms = |path: &Value| path["algorithms"].as_array().unwrap().clone();
    let (mut before, mut after) = (arms(before), arms(after));
    for (old, new) in before.iter_mut().zip(&mut after) {
        for field in ["expected_rate", "expected_rate_low", "expected_rate_high"] {
            let (old, new) = (old[field].take(), new[field].take());
            let same = match (old.as_f64(), new.as_f64()) {
                (Some(old), Some(new)) => (new / old - 1.0).abs() < 0.1,
                _ => old == new,
            };
            assert!(same, "{field}: {old}, then {new}");
        }
    }
    assert_eq!(before, after);
}

/// The names of an object's fields.
///
/// # Panics
/// When it is no object.
pub fn keys(value: &Value) -> BTreeSet<&str> {
    value
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect()
}
