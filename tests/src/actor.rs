//! The test's side of the `actor` binary.

use std::{
    io::{BufRead, BufReader, Write},
    process::{ChildStdin, ChildStdout, Stdio},
};

use crate::{
    Cgroup,
    process::{Child, Place},
};

/// A process with one connection, under the test's orders.
#[derive(Debug)]
pub struct Actor {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl Actor {
    /// Starts one.
    ///
    /// # Panics
    /// When it cannot be started.
    pub fn new(place: Place<'_>) -> Self {
        let mut command = place.command("actor");
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        Self {
            stdin: child.stdin.take().unwrap(),
            stdout: BufReader::new(child.stdout.take().unwrap()),
            child: Child(child),
        }
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.0.id()
    }

    /// Moves the process to a cgroup; its connection stays in the cgroup of its opening.
    ///
    /// # Panics
    /// When the kernel refuses.
    pub fn move_to(&self, cgroup: &Cgroup) {
        let pid = self.child.0.id().to_string();
        cgroup.open_procs().write_all(pid.as_bytes()).unwrap();
    }

    /// Sends it a line (see `src/bin/actor.rs`), and returns the answer.
    ///
    /// # Errors
    /// The line and the system's error.
    ///
    /// # Panics
    /// When the actor died.
    pub fn try_tell(&mut self, line: &str) -> Result<String, String> {
        self.order(line);
        self.answer()
    }

    /// As [`Actor::try_tell`], but panics on an error.
    ///
    /// # Panics
    /// When the order fails.
    pub fn tell(&mut self, line: &str) -> String {
        self.try_tell(line).unwrap()
    }

    /// Sends it a line without waiting for the answer.
    ///
    /// # Panics
    /// When the actor died.
    pub fn order(&mut self, line: &str) {
        writeln!(self.stdin, "{line}").unwrap();
    }

    /// Waits for the answer to a line.
    ///
    /// # Errors
    /// As [`Actor::try_tell`].
    ///
    /// # Panics
    /// When the actor died.
    pub fn answer(&mut self) -> Result<String, String> {
        let mut answer = String::new();
        self.stdout.read_line(&mut answer).unwrap();
        match answer.trim_end().split_once(' ') {
            Some(("error", message)) => Err(message.to_owned()),
            Some((_, value)) => Ok(value.to_owned()),
            None => Ok(String::new()),
        }
    }
}
