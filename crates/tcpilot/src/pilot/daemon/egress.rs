//! Queues that serve by priority, where acknowledgements are to go first: a prio qdisc in place of the
//! kernel's default one, for as long as the daemon runs.
//!
//! A qdisc outlives the process that added it.  So each is written into a journal before it is added,
//! and what a killed daemon left is taken away at the next start.  An interface whose root qdisc is not
//! the kernel's default (its handle is not 0) is somebody's choice, and is left as it is; for the same
//! reason nothing else has to be remembered: where ours is deleted, the kernel puts its default back.

use std::{
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;

/// The handle that ours have, by which they are known again.
const HANDLE: &str = "7c1:";

/// The qdiscs that were added; dropping it deletes them.
pub struct Egress {
    devices: Vec<String>,
    journal: PathBuf,
}

impl Egress {
    /// Takes away what a killed daemon left, then adds a qdisc to each of `devices`; what could not be
    /// done is a sentence each.
    pub fn set_up(devices: &[String], state: &Path) -> (Egress, Vec<String>) {
        let mut journal = state.as_os_str().to_owned();
        journal.push(".qdiscs");
        let mut egress = Egress {
            devices: Vec::new(),
            journal: journal.into(),
        };
        let mut problems = egress.restore();
        for device in devices {
            if let Err(error) = egress.add(device) {
                problems.push(format!(
                    "{device} serves acknowledgements like the rest: {error}"
                ));
            }
        }
        (egress, problems)
    }

    fn restore(&self) -> Vec<String> {
        let left = fs::read_to_string(&self.journal).unwrap_or_default();
        let problems = left.lines().filter_map(|device| delete(device).err());
        let problems = problems.map(|error| error.to_string()).collect();
        let _ = fs::remove_file(&self.journal);
        problems
    }

    fn add(&mut self, device: &str) -> io::Result<()> {
        let (kind, handle) = root_qdisc(device)?;
        if handle != "0:" {
            return Err(io::Error::other(format!(
                "its qdisc {kind} is not the kernel's default, so it is left as it is"
            )));
        }
        self.devices.push(device.to_owned());
        self.write_journal()?;
        tc(&[
            "qdisc", "add", "dev", device, "root", "handle", HANDLE, "prio",
        ])
        .map(|_| ())
    }

    /// On disk before the qdisc is there.
    fn write_journal(&self) -> io::Result<()> {
        let mut file = File::create(&self.journal)?;
        file.write_all((self.devices.join("\n") + "\n").as_bytes())?;
        file.sync_all()
    }
}

impl Drop for Egress {
    fn drop(&mut self) {
        for device in &self.devices {
            if let Err(error) = delete(device) {
                tracing::warn!(device, %error, "the qdisc could not be taken away");
            }
        }
        if !self.devices.is_empty() {
            let _ = fs::remove_file(&self.journal);
        }
    }
}

/// Deletes ours, if it is there.
fn delete(device: &str) -> io::Result<()> {
    match root_qdisc(device) {
        Ok((_, handle)) if handle == HANDLE => {
            tc(&["qdisc", "del", "dev", device, "root"]).map(|_| ())
        }
        _ => Ok(()), // replaced by somebody, or the interface is gone
    }
}

/// Kind and handle of an interface's root qdisc.
fn root_qdisc(device: &str) -> io::Result<(String, String)> {
    let text = tc(&["-j", "qdisc", "show", "dev", device])?;
    let all: Value = serde_json::from_str(&text)?;
    let is_root = |qdisc: &&Value| qdisc["root"].as_bool() == Some(true);
    let root = all.as_array().and_then(|all| all.iter().find(is_root));
    let word = |key: &str| Some(root?.get(key)?.as_str()?.to_owned());
    word("kind")
        .zip(word("handle"))
        .ok_or_else(|| io::Error::other("tc shows no root qdisc"))
}

fn tc(arguments: &[&str]) -> io::Result<String> {
    let output = Command::new("tc").args(arguments).output()?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let message = String::from_utf8_lossy(&output.stderr);
    Err(io::Error::other(format!("tc: {}", message.trim())))
}
