//! The message from one program to the next when a daemon becomes another program. It is JSON in a file in
//! memory, and an environment variable has the number of the file's descriptor.
//!
//! The other program may be of another version. So it first compares the layout of the kernel's maps, and
//! reads the rest only if both programs use the same layout.

use std::{
    fs::File,
    io::{self, Read, Seek, Write},
    os::fd::AsRawFd,
    process::Command,
};

use rustix::fs::{MemfdFlags, memfd_create};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tcpilot_abi::LAYOUT;
use tcpilot_config::Text;
use tcpilot_kernel::{Descriptors, Keys, cc::KeptDescriptor, inherited};
use tcpilot_show::failure::Failure;

use super::{learning::Counts, rules::CgroupIds};
use crate::figures::Upgrades;

/// The environment variable with the number of the file's descriptor.
const VARIABLE: &str = "TCPILOT_HAND_OVER";

/// The message to the next program.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct HandOver {
    /// The layout of the maps, see [`LAYOUT`].
    pub layout: String,
    /// Whether this is a trial: the next program only tests its ability to go on, and reports the result.
    pub trial: bool,
    /// The counts of earlier upgrades.
    pub times: Upgrades,
    /// The descriptor of the socket for scrapers.
    #[serde(default)]
    pub listener: Option<i32>,
    /// The former daemon's state. Without it the next program starts from the state file.
    #[serde(skip_deserializing, rename = "estate")]
    pub inherited: Option<Inherited>,
}

/// Everything handed over by a daemon.
#[derive(Debug, Serialize, Deserialize)]
pub struct Inherited {
    /// The configuration to use, as the trial read it. `None` means the defaults; a trial then reads the
    /// configuration itself.
    pub config: Option<Text>,
    /// The descriptors of the pilot's maps and links.
    pub pilot: Descriptors,
    /// The sizes, seeds and secrets of the pilot's maps.
    pub keys: Keys,
    /// The descriptors of the control socket and its lock.
    pub control: Option<[i32; 2]>,
    /// tcpilot's own registered congestion controls.
    pub kept: Vec<KeptDescriptor>,
    /// The names of the numbers in the maps.
    pub numbers: Numbers,
    /// Each cgroup of a rule, with all its ids so far.
    pub cgroups: Vec<(String, CgroupIds)>,
    /// When the daemon was started, by CLOCK_MONOTONIC.
    pub started_ns: u64,
    /// Start of the last save, by the same clock: later changes are still to be saved.
    pub saved_ns: u64,
    /// The words of the reported troubles.
    pub told: Vec<String>,
    /// The tunings switched off by the guard.
    pub off: Vec<super::tunings::Off>,
    /// The counts of the learners in the daemon.
    #[serde(default)]
    pub counts: Option<Counts>,
}

/// Names by their numbers.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Numbers {
    /// The algorithms.
    pub arms: Vec<String>,
    /// The policies of the file.
    pub policies: Vec<String>,
}

impl HandOver {
    /// A message without state, for a program starting from the state file, or for the caller to complete.
    pub fn new(times: Upgrades) -> HandOver {
        HandOver {
            layout: LAYOUT.to_owned(),
            times,
            ..HandOver::default()
        }
    }

    /// Prepares the message for the program of `command`. The caller must let the program inherit the
    /// descriptor of the returned file.
    ///
    /// # Errors
    /// The file cannot be made or written.
    pub fn tell(&self, command: &mut Command) -> io::Result<File> {
        let mut file = memory("tcpilot hand-over")?;
        serde_json::to_writer(&file, self)?;
        file.rewind()?;
        command.env(VARIABLE, file.as_raw_fd().to_string());
        Ok(file)
    }

    /// The message of the former program, if there is one. Call this only once.
    ///
    /// # Errors
    /// The message cannot be read, or is none of ours.
    pub fn received() -> Result<Option<HandOver>, Failure> {
        let Some(number) = std::env::var_os(VARIABLE) else {
            return Ok(None);
        };
        let number = number.to_str().and_then(|n| n.parse().ok()).unwrap_or(-1);
        // The process still has the name of the former program's file, and this file may be gone.
        let _ = rustix::thread::set_name(c"tcpilot");
        let mut text = String::new();
        File::from(inherited(number)?).read_to_string(&mut text)?;
        Ok(Some(parse(&text)?))
    }
}

/// A file in memory. It is gone when its last descriptor is closed.
///
/// # Errors
/// The kernel cannot make the file.
pub fn memory(name: &str) -> io::Result<File> {
    Ok(File::from(memfd_create(name, MemfdFlags::CLOEXEC)?))
}

fn parse(text: &str) -> io::Result<HandOver> {
    let mut value: Value = serde_json::from_str(text)?;
    let inherited = value.get_mut("estate").map(Value::take);
    let mut hand_over: HandOver = serde_json::from_value(value)?;
    if hand_over.layout == LAYOUT {
        // Another version may hand over other things, and then the inherited state is not used.
        hand_over.inherited =
            inherited.and_then(|inherited| serde_json::from_value(inherited).ok());
    }
    Ok(hand_over)
}

/// The result of a trial.
#[derive(Debug, Serialize, Deserialize)]
pub struct TrialResult {
    /// Whether the new program understands the old one's state; else it can only start from the state file.
    pub fits: bool,
    /// The configuration read by the trial.
    pub config: Option<Text>,
    /// The reasons why the program cannot go on, a line each; empty if it can.
    pub problems: Vec<String>,
}

impl TrialResult {
    /// Writes the result to standard output, for the parent of the trial.
    ///
    /// # Errors
    /// Standard output cannot be written.
    pub fn tell(&self) -> io::Result<()> {
        let mut out = io::stdout().lock();
        serde_json::to_writer(&mut out, self)?;
        out.flush()
    }
}

#[cfg(test)]
mod tests {
    use tcpilot_kernel::LearnerKeys;

    use super::*;

    fn told(layout: &str) -> String {
        let inherited = Inherited {
            config: None,
            pilot: Descriptors::default(),
            keys: Keys {
                buckets: 8,
                hold_out_seed: u64::MAX,
                hash_secrets: [u64::MAX; 9],
                ticks_per_s: 250,
                tuned: true,
                tabled: true,
                learner: LearnerKeys {
                    kind: 1,
                    choice_dists: 8,
                    conn_starts: 4,
                    secrets: Default::default(),
                },
            },
            control: Some([3, 4]),
            kept: Vec::new(),
            numbers: Numbers::default(),
            cgroups: vec![("a.slice".to_owned(), [7, 6, 5, 0, 0])],
            started_ns: 5,
            saved_ns: 6,
            told: Vec::new(),
            off: Vec::new(),
            counts: None,
        };
        let hand_over = HandOver {
            layout: layout.to_owned(),
            inherited: Some(inherited),
            ..HandOver::new(Upgrades::default())
        };
        serde_json::to_string(&hand_over).unwrap()
    }

    #[test]
    fn message_is_received_as_sent() {
        let inherited = parse(&told(LAYOUT)).unwrap().inherited.unwrap();
        assert_eq!(inherited.keys.hash_secrets, [u64::MAX; 9]);
        assert_eq!(inherited.cgroups, [("a.slice".to_owned(), [7, 6, 5, 0, 0])]);
        assert_eq!(inherited.control, Some([3, 4]));
    }

    #[test]
    fn other_version_passes_only_counts() {
        let other = told("tcpilot-layout-0000000000000000");
        assert!(parse(&other).unwrap().inherited.is_none());
        let mut unknown: Value = serde_json::from_str(&told(LAYOUT)).unwrap();
        unknown["estate"]["keys"] = Value::Null;
        assert!(parse(&unknown.to_string()).unwrap().inherited.is_none());
    }

    #[test]
    fn nonsense_is_refused() {
        assert!(parse("7").is_err() && parse("").is_err());
    }
}
