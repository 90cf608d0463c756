//! What one program tells the next, when a daemon becomes another program: in a file in memory, as JSON,
//! whose descriptor an environment variable names.
//!
//! The other program may be of another version. So the layout of what lies in the kernel's maps is
//! compared first, and the rest is read only if both agree on that.

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
use tcpilot_kernel::{Descriptors, Keys, cc::KeptDescriptor, inherited};

use super::{learning::Counts, rules::CgroupIds};
use crate::{failure::Failure, pilot::config::Text, pilot::figures::TakeOvers};

/// Names the descriptor of the file.
const VARIABLE: &str = "TCPILOT_HAND_OVER";

/// What the next program gets.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct HandOver {
    /// Of the maps: see [`LAYOUT`].
    pub layout: String,
    /// It is only to try whether it could go on, and to say so.
    pub trial: bool,
    /// How often that was done before.
    pub times: TakeOvers,
    /// Without, it starts anew.
    #[serde(skip_deserializing)]
    pub estate: Option<Estate>,
}

/// All that a daemon has.
#[derive(Debug, Serialize, Deserialize)]
pub struct Estate {
    /// The configuration to use, as the trial has read it; none: the defaults, or yet to be read.
    pub config: Option<Text>,
    /// The pilot's.
    pub pilot: Descriptors,
    /// The pilot's.
    pub keys: Keys,
    /// The control socket, and its lock.
    pub control: Option<[i32; 2]>,
    /// Congestion controls of ours.
    pub kept: Vec<KeptDescriptor>,
    /// What the numbers in the maps mean.
    pub numbers: Numbers,
    /// Of each cgroup that a rule names: the ids that it has had.
    pub cgroups: Vec<(String, CgroupIds)>,
    /// When the daemon was started, by CLOCK_MONOTONIC.
    pub started_ns: u64,
    /// What changed since is to be saved, by the same clock.
    pub saved_ns: u64,
    /// Trouble that was told, by its word.
    pub told: Vec<String>,
    /// What the guard has switched off.
    pub off: Vec<super::tunings::Off>,
    /// What the learners in the daemon have counted.
    #[serde(default)]
    pub counts: Option<Counts>,
}

/// Names by their numbers.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Numbers {
    /// Algorithms.
    pub arms: Vec<String>,
    /// Policies of the file.
    pub policies: Vec<String>,
}

impl HandOver {
    /// For a program that starts anew, or with what is added.
    pub fn new(times: TakeOvers) -> HandOver {
        HandOver {
            layout: LAYOUT.to_owned(),
            times,
            ..HandOver::default()
        }
    }

    /// Tells it to the program that `command` will start; the file's descriptor has to be left to it.
    ///
    /// # Errors
    /// The kernel's.
    pub fn tell(&self, command: &mut Command) -> io::Result<File> {
        let mut file = memory("tcpilot hand-over")?;
        serde_json::to_writer(&file, self)?;
        file.rewind()?;
        command.env(VARIABLE, file.as_raw_fd().to_string());
        Ok(file)
    }

    /// What a former program told this one; to be called once.
    ///
    /// # Errors
    /// It cannot be read, or is nothing of the kind.
    pub fn received() -> Result<Option<HandOver>, Failure> {
        let Some(number) = std::env::var_os(VARIABLE) else {
            return Ok(None);
        };
        let number = number.to_str().and_then(|n| n.parse().ok()).unwrap_or(-1);
        // It was called by another program's file, which may not have a name any more.
        let _ = rustix::thread::set_name(c"tcpilot");
        let mut text = String::new();
        File::from(inherited(number)?).read_to_string(&mut text)?;
        Ok(Some(parse(&text)?))
    }
}

/// A file in memory, that ends with its last descriptor.
///
/// # Errors
/// The kernel's.
pub fn memory(name: &str) -> io::Result<File> {
    Ok(File::from(memfd_create(name, MemfdFlags::CLOEXEC)?))
}

fn parse(text: &str) -> io::Result<HandOver> {
    let mut value: Value = serde_json::from_str(text)?;
    let estate = value.get_mut("estate").map(Value::take);
    let mut hand_over: HandOver = serde_json::from_value(value)?;
    if hand_over.layout == LAYOUT {
        // Another version may tell other things.
        hand_over.estate = estate.and_then(|estate| serde_json::from_value(estate).ok());
    }
    Ok(hand_over)
}

/// What a trial has shown.
#[derive(Debug, Serialize, Deserialize)]
pub struct Verdict {
    /// Whether the new program understands what the old one leaves; else it can only start anew.
    pub fits: bool,
    /// The configuration that was read.
    pub config: Option<Text>,
    /// Why it cannot go on, a line each; none: it can.
    pub problems: Vec<String>,
}

impl Verdict {
    /// Tells it to the program that asked for the trial.
    ///
    /// # Errors
    /// The kernel's.
    pub fn tell(&self) -> io::Result<()> {
        let mut out = io::stdout().lock();
        serde_json::to_writer(&mut out, self)?;
        out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(layout: &str) -> String {
        let estate = Estate {
            config: None,
            pilot: Descriptors::default(),
            keys: Keys {
                buckets: 8,
                hold_out_seed: u64::MAX,
                hash_secrets: [u64::MAX; 9],
                ticks_per_s: 250,
                tuned: true,
                tabled: true,
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
            estate: Some(estate),
            ..HandOver::new(TakeOvers::default())
        };
        serde_json::to_string(&hand_over).unwrap()
    }

    #[test]
    fn what_is_told_is_received() {
        let estate = parse(&told(LAYOUT)).unwrap().estate.unwrap();
        assert_eq!(estate.keys.hash_secrets, [u64::MAX; 9]);
        assert_eq!(estate.cgroups, [("a.slice".to_owned(), [7, 6, 5, 0, 0])]);
        assert_eq!(estate.control, Some([3, 4]));
    }

    #[test]
    fn of_another_version_nothing_is_taken_but_the_counts() {
        let other = told("tcpilot-layout-0000000000000000");
        assert!(parse(&other).unwrap().estate.is_none());
        let mut unknown: Value = serde_json::from_str(&told(LAYOUT)).unwrap();
        unknown["estate"]["keys"] = Value::Null;
        assert!(parse(&unknown.to_string()).unwrap().estate.is_none());
    }

    #[test]
    fn nonsense_is_refused() {
        assert!(parse("7").is_err() && parse("").is_err());
    }
}
