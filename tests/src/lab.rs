//! One test's laboratory: a cgroup, two namespaces, a traffic server, and a folder.

use std::{
    io::{BufRead, BufReader},
    process::{Output, Stdio},
};

use serde_json::Value;
use tempfile::TempDir;

use crate::{
    Actor, Cgroup, Daemon, Pair, folder,
    process::{Child, Place},
};

/// The near end's address.
pub const NEAR: &str = "10.77.0.1";
/// The far end's address.
pub const FAR: &str = "10.77.0.2";
/// The traffic server's port, at the far end.
pub const PORT: u16 = 5201;

/// A running traffic client, killed on drop.
pub type Running = Child;

/// See above. Fields are dropped in their order: processes first.
#[derive(Debug)]
pub struct Lab {
    _server: Child,
    /// The steered cgroup.
    pub cgroup: Cgroup,
    /// The two ends.
    pub net: Pair,
    /// The folder for the daemon's files.
    pub dir: TempDir,
}

impl Lab {
    /// A new laboratory. Its traffic server listens at the far end, outside of the cgroup.
    ///
    /// # Panics
    /// When something cannot be made.
    pub fn new() -> Self {
        let net = Pair::new();
        Self {
            _server: serve(Place::outside(&net.far), PORT),
            cgroup: Cgroup::new(),
            net,
            dir: folder(),
        }
    }

    /// A traffic server at the far end and in the cgroup: its connections are accepted ones.
    pub fn serve_in_cgroup(&self, port: u16) -> Running {
        serve(Place::new(&self.net.far, &self.cgroup), port)
    }

    /// Starts the daemon on the cgroup, and waits until it is attached.
    pub fn pilot(&self, config: &str) -> Daemon {
        self.pilot_with(config, &[])
    }

    /// The same with further arguments.
    pub fn pilot_with(&self, config: &str, more: &[&str]) -> Daemon {
        self.spawn_pilot(Place::here(), config, more).ready()
    }

    /// The same without waiting, in a place of the caller's choice.
    pub fn spawn_pilot(&self, place: Place<'_>, config: &str, more: &[&str]) -> Daemon {
        Daemon::spawn(place, self.cgroup.path(), self.dir.path(), config, more)
    }

    /// The near end, in the cgroup.
    pub fn near(&self) -> Place<'_> {
        Place::new(&self.net.near, &self.cgroup)
    }

    /// An application at the near end, in the cgroup.
    pub fn actor(&self) -> Actor {
        Actor::new(self.near())
    }

    /// Starts a flowgen client at the near end, in the cgroup.
    ///
    /// # Panics
    /// When it cannot be started.
    pub fn start(&self, arguments: &str) -> Running {
        let mut command = self.near().command("flowgen");
        command.args(arguments.split(' ')).stdout(Stdio::null());
        Child(command.spawn().unwrap())
    }

    /// Runs a flowgen client. It may fail.
    ///
    /// # Panics
    /// When it cannot be started.
    pub fn try_run(&self, place: Place<'_>, arguments: &str) -> Output {
        let mut command = place.command("flowgen");
        command.args(arguments.split(' ')).output().unwrap()
    }

    /// Runs a flowgen client at the near end, in the cgroup, to its end; returns its reports.
    ///
    /// # Panics
    /// When it fails.
    pub fn run(&self, arguments: &str) -> Vec<Value> {
        let output = self.try_run(self.near(), arguments);
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "flowgen {arguments}: {message}");
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    /// Uploads to an address, so often, so many bytes each time.
    pub fn upload(&self, to: &str, count: u32, bytes: u32) {
        let to = if to.contains(':') {
            format!("[{to}]")
        } else {
            to.to_owned()
        };
        self.run(&format!(
            "bulk --to {to}:{PORT} --bytes {bytes} --count {count}"
        ));
    }
}

impl Default for Lab {
    fn default() -> Self {
        Self::new()
    }
}

/// Starts flowgen's server, and waits until it listens.
///
/// # Panics
/// When it does not.
pub fn serve(place: Place<'_>, port: u16) -> Child {
    serve_with(place, port, &[])
}

/// The same, with further options.
///
/// # Panics
/// When it does not listen.
pub fn serve_with(place: Place<'_>, port: u16, more: &[&str]) -> Child {
    let mut command = place.command("flowgen");
    command.args(["serve", "--listen", &format!("[::]:{port}")]);
    command.args(more);
    let mut child = Child(command.stdout(Stdio::piped()).spawn().unwrap());
    let mut line = String::new();
    let mut stdout = BufReader::new(child.0.stdout.take().unwrap());
    stdout.read_line(&mut line).unwrap();
    assert!(line.starts_with("listening "), "{line}");
    child
}
