//! What people see of the agent: a file `status.json`, which it replaces at least every minute.

use std::fmt;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::settings::Engine;
use crate::store::StoreError;
use crate::{clock, hear, say};

/// The agent writes its status again after so many seconds at the latest.
pub const WRITTEN_EVERY_S: f64 = 60.0;

/// Bytes of the longest status.
const BYTES_MAX: usize = 1 << 20;

/// The state of the agent at one moment. Ages are in seconds at that moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// Version of the agent.
    pub version: String,
    /// This host.
    pub host: String,
    /// Its place.
    pub place: String,
    /// Number of the process.
    pub pid: u32,
    /// Seconds from this host's boot to this moment.
    pub at_s: f64,
    /// Seconds since the start.
    pub uptime_s: f64,
    /// Whether it is a merger: `members` are then all hosts of the place, and `merged` is what it says.
    #[serde(default)]
    pub merger: bool,
    /// The engine.
    pub engine: EngineStatus,
    /// This host's own states.
    pub own: Vec<OwnStatus>,
    /// Files of own states that were refused: name and reason.
    pub own_refused: Vec<(String, String)>,
    /// Rows that this host has said.
    pub said_rows: u64,
    /// Age of the last manifest that the engine acknowledged.
    pub said_ago_s: Option<f64>,
    /// Figures of saying.
    pub said: say::Counts,
    /// Figures of hearing.
    pub heard: hear::Counts,
    /// The other hosts.
    pub members: Vec<MemberStatus>,
    /// What the fleet says to this host.
    pub merged: Vec<MergedStatus>,
    /// Why a file could not be written, if so.
    pub file_error: Option<String>,
}

/// The engine as the agent sees it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EngineStatus {
    /// Its address.
    pub store: String,
    /// Whether the last attempt went well.
    pub reached: bool,
    /// Seconds since the last attempt that went well.
    pub reached_ago_s: Option<f64>,
    /// Attempts that failed, by reason.
    pub failed: std::collections::BTreeMap<String, u64>,
    /// The last failure, if the last attempt failed.
    pub error: Option<String>,
    /// What to do about it.
    pub remedy: Option<String>,
    /// Jumps of its clock.
    pub clock_jumps: u64,
}

/// The engine as this process has met it.
#[derive(Debug)]
pub struct EngineLog {
    status: EngineStatus,
    reached_at_s: Option<f64>,
}

impl EngineLog {
    /// Not met yet.
    #[must_use]
    pub fn new(engine: &Engine) -> Self {
        Self {
            status: EngineStatus {
                store: engine.to_string(),
                ..EngineStatus::default()
            },
            reached_at_s: None,
        }
    }

    /// Counts a failure, and logs it when it begins or changes.
    pub fn note(&mut self, done: &Result<(), StoreError>) {
        let status = &mut self.status;
        match done {
            Ok(()) => {
                if status.error.is_some() {
                    tracing::info!("the engine is reached again");
                }
                self.reached_at_s = Some(clock::boot_s());
                (status.error, status.remedy) = (None, None);
            }
            Err(error) => {
                let reason = error.reason().to_owned();
                *status.failed.entry(reason).or_default() += 1;
                if status.error.as_deref() != Some(&error.to_string()) {
                    tracing::warn!("{error}; {}", error.remedy());
                }
                status.error = Some(error.to_string());
                status.remedy = Some(error.remedy().to_owned());
            }
        }
        status.reached = done.is_ok();
    }

    /// For people.
    #[must_use]
    pub fn status(&self, now_s: f64, clock_jumps: u64) -> EngineStatus {
        EngineStatus {
            reached_ago_s: self.reached_at_s.map(|at_s| now_s - at_s),
            clock_jumps,
            ..self.status.clone()
        }
    }
}

/// An own state.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OwnStatus {
    /// Its policy.
    pub policy: String,
    /// Its rows.
    pub rows: u64,
    /// Its age.
    pub age_s: f64,
}

/// Another host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MemberStatus {
    /// Its name.
    pub host: String,
    /// Its place.
    pub place: String,
    /// Version of its software.
    pub version: String,
    /// Age of its manifest; `null` if it was not read since the agent's start.
    pub said_ago_s: Option<f64>,
    /// Rows heard.
    pub rows: u64,
    /// Whether it says something under a policy of this host.
    pub merged: bool,
    /// Trust, 0 to 1; `null` if it is not heard.
    pub trust: Option<f64>,
    /// Why it is not heard, or only with what it said before.
    pub refused: Option<String>,
}

/// A merged state, a file in `heard`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MergedStatus {
    /// Its policy.
    pub policy: String,
    /// Its rows.
    pub rows: u64,
    /// Hosts in it; 0 if mergers say it.
    pub hosts: u64,
    /// Whether mergers say it.
    #[serde(default)]
    pub by_mergers: bool,
}

impl Status {
    /// Reads the agent's file.
    ///
    /// # Errors
    /// There is none, or it is not one; with the remedy.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        use anyhow::Context as _;
        let (bytes, _) = tcpilot_file::read(path, BYTES_MAX).with_context(|| {
            format!(
                "cannot read {}: start the agent with `tcpilot-fleet run`",
                path.display()
            )
        })?;
        serde_json::from_slice(&bytes)
            .with_context(|| format!("{} is not a status", path.display()))
    }

    /// Whether the agent runs, by the age of its file.
    #[must_use]
    pub fn is_running(&self) -> bool {
        let age_s = clock::boot_s() - self.at_s;
        (0.0..2.5 * WRITTEN_EVERY_S).contains(&age_s)
    }
}

/// A duration for people.
fn ago(seconds: Option<f64>) -> String {
    match seconds {
        None => "never".to_owned(),
        Some(s) if s < 120.0 => format!("{s:.0} s ago"),
        Some(s) if s < 7200.0 => format!("{:.0} min ago", s / 60.0),
        Some(s) => format!("{:.0} h ago", s / 3600.0),
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = if self.is_running() {
            "running"
        } else {
            "not running; this is its last word"
        };
        let what = if self.merger { "merger" } else { "agent" };
        writeln!(f, "{what:<8} {} at {}, {state}", self.host, self.place)?;
        match (&self.engine.error, &self.engine.remedy) {
            (Some(error), Some(remedy)) => writeln!(f, "engine   {error}; {remedy}")?,
            _ => writeln!(
                f,
                "engine   {}, reached {}",
                self.engine.store,
                ago(self.engine.reached_ago_s)
            )?,
        }
        writeln!(
            f,
            "said     {} prefixes, {}",
            self.said_rows,
            ago(self.said_ago_s)
        )?;
        if self.said.name_taken > 0 {
            writeln!(
                f,
                "         another host says under this name ({} times): give one of the two another `host`",
                self.said.name_taken
            )?;
        }
        for (file, reason) in &self.own_refused {
            writeln!(f, "         own/{file} is refused: {reason}")?;
        }
        for merged in &self.merged {
            let (policy, rows) = (&merged.policy, merged.rows);
            let whom = match (merged.by_mergers, merged.hosts) {
                (true, _) => "mergers".to_owned(),
                (false, hosts) => format!("{hosts} hosts"),
            };
            let word = if self.merger { "merged" } else { "heard" };
            writeln!(f, "{word:<8} {policy}: {rows} prefixes from {whom}")?;
        }
        if self.heard.left_out > 0 {
            writeln!(
                f,
                "         {} hosts are left out: start a merger, or divide the place",
                self.heard.left_out
            )?;
        }
        if let Some(error) = &self.file_error {
            writeln!(f, "files    {error}")?;
        }
        if self.members.is_empty() {
            return Ok(());
        }
        write_members(f, &self.members)
    }
}

fn write_members(f: &mut fmt::Formatter<'_>, members: &[MemberStatus]) -> fmt::Result {
    writeln!(
        f,
        "\n{:<24} {:<12} {:>8}  {:>5}  Heard",
        "Host", "Said", "Prefixes", "Trust"
    )?;
    for member in members {
        let trust = member
            .trust
            .map_or("-".to_owned(), |trust| format!("{trust:.2}"));
        let heard = match &member.refused {
            Some(reason) => format!("no: {reason}"),
            None if !member.merged => "no: it says nothing under a policy of this host".to_owned(),
            None if member.trust.is_none() => "no: too far from its place".to_owned(),
            None => "yes".to_owned(),
        };
        writeln!(
            f,
            "{:<24} {:<12} {:>8}  {trust:>5}  {heard}",
            member.host,
            ago(member.said_ago_s),
            member.rows,
        )?;
    }
    Ok(())
}
