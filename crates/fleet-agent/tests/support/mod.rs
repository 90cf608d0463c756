//! What the tests of both engines share: knowledge, agents, and times.
#![allow(dead_code, reason = "each test uses its part")]

use std::collections::BTreeMap;
use std::fs;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use tcpilot_fleet::{Group, Name, Own, State, format};
use tcpilot_fleet_agent::agent::Agent;
use tcpilot_fleet_agent::clock::boot_s;
use tcpilot_fleet_agent::key::{Host, Key};
use tcpilot_fleet_agent::settings::Settings;
use tcpilot_fleet_agent::status::Status;
use tcpilot_fleet_agent::store::{Entry, Store, StoreError};
use tcpilot_learner::gaussian::Information;

/// The folder of an agent, `own` included.
pub fn state_dir(root: &Path, host: &str) -> PathBuf {
    let folder = root.join("agents").join(host);
    fs::create_dir_all(folder.join("own")).unwrap();
    folder
}

pub fn name(name: &str) -> Name {
    Name::new(name).unwrap()
}

pub fn host(host: &str) -> Host {
    Host {
        place: name("fra1"),
        name: name(host),
    }
}

/// Group number `i` of 1.0.0.0/8 and up.
pub fn group(i: u32) -> Group {
    Group::new(0xffff_0100_0000 + (u128::from(i) << 8), 0).unwrap()
}

/// What a host knows: in each of these groups bbr is better than cubic by `mean` nats.
pub fn knowledge(groups: impl IntoIterator<Item = u32>, mean: f64) -> State {
    let mut state = State::new(7, vec!["cubic".into(), "bbr".into()]).unwrap();
    for i in groups {
        let mut own = Own::<1>::default();
        own.add_path(&Information::isotropic(mean, 0.2), 9);
        state.push(own.row(group(i), 0, 0.0).unwrap()).unwrap();
    }
    state
}

/// Gives an agent its own knowledge.
pub fn know(folder: &Path, state: &State) {
    let path = folder.join("own/bulk.state");
    tcpilot_file::replace(&path, 0o600, &format::encode(state)).unwrap();
}

/// What the fleet says to an agent: the mean of each group.
pub fn heard(folder: &Path) -> BTreeMap<Group, f64> {
    let Ok(bytes) = fs::read(folder.join("heard/bulk.state")) else {
        return BTreeMap::new();
    };
    let state = format::decode(&bytes, u32::MAX).unwrap();
    let rows = state.rows().iter();
    rows.map(|row| (row.group, row.said.shift(0) / row.said.precision(0, 0)))
        .collect()
}

pub fn run<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.unwrap().block_on(work)
}

/// Waits until it is so, at most 30 seconds.
pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(
            start.elapsed() < Duration::from_secs(30),
            "{what}: not within 30 s"
        );
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// One time of saying and of hearing.
pub async fn round<S: Store>(agent: &mut Agent<S>) -> Result<(), StoreError> {
    agent.say(boot_s()).await?;
    agent.hear(boot_s()).await
}

/// The process `tcpilot-fleet run`. It is killed at the end.
pub struct Process(pub Child);

impl Process {
    /// Starts it with a file of settings, in the folder of its states.
    pub fn start(settings: &Path) -> Self {
        Self(command(settings, "run").spawn().unwrap())
    }

    pub fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub fn command(settings: &Path, word: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tcpilot-fleet"));
    command.arg("--config").arg(settings).arg(word);
    command.stderr(Stdio::null()).env_remove("RUST_LOG");
    command
}

/// Runs a command to its end: whether it went well, and its output.
pub fn output(settings: &Path, word: &str) -> (bool, String) {
    arguments(settings, &[word])
}

/// Runs a command with arguments to its end.
pub fn arguments(settings: &Path, words: &[&str]) -> (bool, String) {
    let mut command = command(settings, words[0]);
    command.args(&words[1..]);
    let Output {
        status,
        stdout,
        stderr,
    } = command.stderr(Stdio::piped()).output().unwrap();
    let text = [stdout, stderr].concat();
    (status.success(), String::from_utf8(text).unwrap())
}

/// Writes settings to a file, and parses them.
pub fn settings(folder: &Path, text: &str) -> (PathBuf, Settings) {
    let text = format!("{text}state_dir = \"{}\"\n", folder.display());
    let path = folder.join("fleet.toml");
    fs::write(&path, &text).unwrap();
    (path, Settings::parse(&text).unwrap())
}

pub fn status(folder: &Path) -> Option<Status> {
    Status::read(&folder.join("status.json")).ok()
}

/// An engine that stops for ever at a certain call, as if the agent had been killed before it.
pub struct Stops<'a, S> {
    pub store: &'a S,
    pub calls_left: std::cell::Cell<u32>,
}

impl<S> Stops<'_, S> {
    async fn call(&self) {
        match self.calls_left.get() {
            0 => std::future::pending().await,
            left => self.calls_left.set(left - 1),
        }
    }
}

impl<S: Store> Store for Stops<'_, S> {
    async fn put(&self, key: &Key, value: &[u8]) -> Result<(), StoreError> {
        self.call().await;
        self.store.put(key, value).await
    }

    async fn get(&self, key: &Key) -> Result<Option<Entry>, StoreError> {
        self.call().await;
        self.store.get(key).await
    }

    async fn hosts(&self, place: &Name) -> Result<Vec<Host>, StoreError> {
        self.call().await;
        self.store.hosts(place).await
    }
}
