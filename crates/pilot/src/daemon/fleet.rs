//! The daemon's part in a fleet: it writes this host's knowledge for the agent `tcpilot-fleet`, and reads what the agent
//! has heard from other hosts. Without `[fleet]` there is nothing of this.
//!
//! The agent's user owns the folder, and this process is root. So folders in it are opened without following links, files
//! are reached through the open folder, and a heard file is bounded and checked like one from a stranger.

use std::{
    collections::BTreeMap,
    io,
    os::unix::fs::MetadataExt as _,
    path::Path,
    time::{Duration, Instant, SystemTime},
};

use tcpilot_config::Hear;
use tcpilot_core::choice_dist::AssignmentSecrets;
use tcpilot_file::Folder;
use tcpilot_fleet::{
    Name, Refusal, Row, State,
    age::left,
    format::{self, ROWS_MAX},
};

use super::learning::{FleetPolicy, Learning};
use crate::figures::FleetStatus;

/// Interval of looks at the agent's files.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// Bytes of the longest file: as many rows as are read, of eight algorithms.
const BYTES_MAX: usize = 16 << 20;

/// Bytes of the longest file with a secret.
const SECRET_BYTES_MAX: usize = 4096;

/// Bytes of the shortest secret.
const SECRET_BYTES_MIN: usize = 16;

/// The fleet's secrets for dividing addresses into hold-out groups; `None` if this host has its own. Hosts that hold a group
/// out at different times would compete on its peers' links while they are compared
/// (docs/understand/decisions/19-effect.md).
pub fn shared_secrets(
    settings: Option<&tcpilot_config::Fleet>,
) -> Result<Option<AssignmentSecrets>, String> {
    let path = settings.map_or("", |settings| settings.secret_file.as_str());
    if path.is_empty() {
        return Ok(None);
    }
    let refused = |why: &dyn std::fmt::Display| {
        format!(
            "this host holds addresses out at times of its own: secret_file {path}: {why}; give it the fleet's \
             secret (docs/use/fleet.md)"
        )
    };
    let read = tcpilot_file::read(Path::new(path), SECRET_BYTES_MAX);
    let (bytes, found) = read.map_err(|error| refused(&error))?;
    if found.mode() & 0o007 != 0 {
        return Err(refused(&"others can read it; run chmod o="));
    }
    let secret = bytes.trim_ascii();
    if secret.len() < SECRET_BYTES_MIN {
        return Err(refused(&format_args!(
            "it is shorter than {SECRET_BYTES_MIN} bytes"
        )));
    }
    // Equal on all hosts, whatever their version: no hash of the standard library's.
    let word = |number: usize| {
        let numbered: Vec<u8> = std::iter::once(number as u8)
            .chain(secret.iter().copied())
            .collect();
        tcpilot_random::first(format::check_sum(&numbered))
    };
    Ok(Some(std::array::from_fn(word)))
}

/// A file: another one of its name differs in one of these.
type Identity = (u64, u64, i64, i64);

/// What was said under a policy.
struct Said {
    updates: u64,
    groups: u64,
}

/// What was heard under a policy.
#[derive(Default)]
struct Heard {
    /// The file, and the period of the sites held back when it was read.
    file: Option<(Identity, u64)>,
    /// The groups that were taken, and when their file was written.
    taken: Option<(u64, SystemTime)>,
    refused: Option<String>,
}

/// See the module's comment.
pub struct Fleet {
    settings: tcpilot_config::Fleet,
    looked: Option<Instant>,
    wrote: Option<Instant>,
    said: BTreeMap<String, Said>,
    said_at: Option<Instant>,
    heard: BTreeMap<String, Heard>,
    refused: BTreeMap<String, u64>,
    /// Why nothing can be exchanged.
    problem: Option<String>,
    /// Why the fleet's secret is not used.
    no_secret: Option<String>,
    /// Why a policy takes no part, by its name.
    unsaid: BTreeMap<String, String>,
    is_tidied: bool,
}

impl Fleet {
    /// Nothing said or heard yet.
    pub fn new(settings: tcpilot_config::Fleet) -> Fleet {
        Fleet {
            no_secret: shared_secrets(Some(&settings)).err(),
            settings,
            looked: None,
            wrote: None,
            said: BTreeMap::new(),
            said_at: None,
            heard: BTreeMap::new(),
            refused: BTreeMap::new(),
            problem: None,
            unsaid: BTreeMap::new(),
            is_tidied: false,
        }
    }

    /// Does what is due; called once a second.
    pub fn turn(&mut self, learning: &Learning) {
        if self.looked.is_some_and(|at| at.elapsed() < LOOK_EVERY) {
            return;
        }
        self.looked = Some(Instant::now());
        // Without an answer the learner has other problems, which are reported elsewhere.
        let Some(policies) = learning.fleet_policies() else {
            return;
        };
        let exchanged = self.exchange(learning, &policies);
        let problem = exchanged.err().map(|(place, error)| {
            format!(
                "nothing is exchanged with the fleet: {}{place}: {error}; start tcpilot-fleet and let this \
                 service use its folder (docs/use/fleet.md), or correct `dir` in [fleet]",
                self.settings.dir
            )
        });
        if let Some(text) = problem.as_ref().filter(|_| problem != self.problem) {
            tracing::warn!("{text}");
        }
        self.problem = problem;
    }

    fn exchange(
        &mut self,
        learning: &Learning,
        policies: &[FleetPolicy],
    ) -> Result<(), (&'static str, io::Error)> {
        let top = Folder::open(Path::new(&self.settings.dir)).map_err(|e| ("", e))?;
        let own = top.sub("own").map_err(|e| ("/own", e))?;
        self.say(&own, learning, policies)
            .map_err(|e| ("/own", e))?;
        if self.settings.hear == Hear::Off {
            return Ok(());
        }
        let heard = top.sub("heard").map_err(|e| ("/heard", e))?;
        for (number, policy) in policies.iter().enumerate() {
            if policy.can_hear && policy.algorithms.len() > 1 {
                self.hear(&heard, learning, number, policy)
                    .map_err(|e| ("/heard", e))?;
            }
        }
        Ok(())
    }

    /// Writes this host's knowledge, if it is due.
    fn say(
        &mut self,
        own: &Folder,
        learning: &Learning,
        policies: &[FleetPolicy],
    ) -> io::Result<()> {
        if !self.is_tidied {
            tidy(own, policies)?;
            self.is_tidied = true;
        }
        let every = Duration::from_secs(self.settings.say_every_s.into());
        if self.wrote.is_some_and(|at| at.elapsed() < every) {
            return Ok(());
        }
        for (number, policy) in policies.iter().enumerate() {
            let said = self.said.get(&policy.name);
            if policy.algorithms.len() < 2
                || said.is_some_and(|said| said.updates == policy.updates)
            {
                continue;
            }
            let Some(rows) = learning.own_rows(number) else {
                return Ok(());
            };
            let state = match state_of(policy, rows) {
                Ok(state) => state,
                Err(why) => {
                    self.unsaid.insert(policy.name.clone(), why);
                    continue;
                }
            };
            own.replace(
                &file_of(policy),
                tcpilot_file::GROUP,
                &format::encode(&state),
            )?;
            let said = Said {
                updates: policy.updates,
                groups: state.rows().len() as u64,
            };
            self.said.insert(policy.name.clone(), said);
            self.said_at = Some(Instant::now());
        }
        self.wrote = Some(Instant::now());
        Ok(())
    }

    /// Reads the others' knowledge under a policy, if the file is another one than before, or other sites are held back. A
    /// file that is refused changes nothing: what was heard before goes on to age.
    fn hear(
        &mut self,
        folder: &Folder,
        learning: &Learning,
        number: usize,
        policy: &FleetPolicy,
    ) -> io::Result<()> {
        let name = file_of(policy);
        let found = match folder.metadata(&name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            found => (identity(&found?), policy.period),
        };
        let known = self.heard.entry(policy.name.clone()).or_default();
        if known.file == Some(found) {
            return Ok(());
        }
        known.file = Some(found);
        let (state, written) = match read(folder, &name, policy) {
            Ok(read) => read,
            Err((reason, text)) => {
                tracing::warn!("{}/heard/{name} is refused: {text}", self.settings.dir);
                known.refused = Some(text);
                *self.refused.entry(reason).or_default() += 1;
                return Ok(());
            }
        };
        known.refused = None;
        let since_s = written.elapsed().map_or(0.0, |since| since.as_secs_f64());
        let left = left(f64::from(state.age_s) + since_s);
        let mut rows = match left {
            Some(_) => state.rows().to_vec(),
            None => Vec::new(),
        };
        // If there is not room for all, those that say most come first.
        rows.sort_by(|a, b| trace(b).total_cmp(&trace(a)));
        match learning.hear(number, rows, left.unwrap_or_default()) {
            Some(heard) => {
                tracing::debug!(policy = policy.name, ?heard, "heard the fleet");
                known.taken = Some((heard.taken, written));
            }
            None => known.file = None, // again at the next look
        }
        Ok(())
    }

    /// What people see.
    pub fn status(&self) -> FleetStatus {
        let ago = |at: &Instant| at.elapsed().as_secs_f64();
        let heard = || self.heard.values().filter_map(|heard| heard.taken);
        let last = heard().map(|(_, written)| written).max();
        let since = |at: SystemTime| at.elapsed().map_or(0.0, |since| since.as_secs_f64());
        FleetStatus {
            hear: self.settings.hear.word().to_owned(),
            dir: self.settings.dir.clone(),
            groups_said: self.said.values().map(|said| said.groups).sum(),
            said_ago_s: self.said_at.as_ref().map(ago),
            groups_heard: heard().map(|(taken, _)| taken).sum(),
            heard_ago_s: last.map(since),
            refused: self.refused.clone(),
        }
    }

    /// The present problems, a sentence each.
    pub fn problems(&self) -> impl Iterator<Item = String> + '_ {
        let refused = self.heard.iter().filter_map(|(policy, heard)| {
            let why = heard.refused.as_ref()?;
            Some(format!(
                "the knowledge of other hosts under policy {policy} is refused: {why}"
            ))
        });
        let unsaid = self.unsaid.values().cloned();
        let present = self.problem.iter().chain(&self.no_secret).cloned();
        present.chain(refused).chain(unsaid)
    }
}

fn file_of(policy: &FleetPolicy) -> String {
    format!("{}.state", policy.name)
}

fn identity(found: &std::fs::Metadata) -> Identity {
    (found.dev(), found.ino(), found.mtime(), found.mtime_nsec())
}

/// Removes what a killed daemon left half-written, and the states of policies that are no more.
fn tidy(own: &Folder, policies: &[FleetPolicy]) -> io::Result<()> {
    let known: Vec<String> = policies.iter().map(file_of).collect();
    for name in own.names()? {
        let is_half = name.starts_with(".tcpilot-");
        if is_half || (name.ends_with(".state") && !known.contains(&name)) {
            own.remove(&name)?;
        }
    }
    Ok(())
}

/// How much a row says.
fn trace(row: &Row) -> f64 {
    (0..row.said.contrasts())
        .map(|i| row.said.precision(i, i))
        .sum()
}

/// The state that this host says under a policy; the rows that say most if there are too many.
fn state_of(policy: &FleetPolicy, mut rows: Vec<Row>) -> Result<State, String> {
    if Name::new(&policy.name).is_err() {
        return Err(format!(
            "policy {} takes no part in the fleet: names there have lower-case letters, digits and hyphens; rename it",
            policy.name
        ));
    }
    let refused = |refusal: Refusal| {
        let policy = &policy.name;
        format!("policy {policy} takes no part in the fleet: {refusal}")
    };
    let mut state = State::new(policy.reward, policy.algorithms.clone()).map_err(refused)?;
    if rows.len() > ROWS_MAX as usize {
        rows.sort_by(|a, b| trace(b).total_cmp(&trace(a)));
        rows.truncate(ROWS_MAX as usize);
    }
    rows.sort_by_key(|row| row.group);
    for row in rows {
        // A group may have come twice, since the learner went on between two pages.
        match state.push(row) {
            Ok(()) | Err(Refusal::Unordered) => {}
            Err(refusal) => return Err(refused(refusal)),
        }
    }
    Ok(state)
}

/// Reads a heard state with the time of its writing; or a word for counters, and a text.
fn read(
    folder: &Folder,
    name: &str,
    policy: &FleetPolicy,
) -> Result<(State, SystemTime), (String, String)> {
    let unreadable = |error: io::Error| ("unreadable".to_owned(), error.to_string());
    let refused = |refusal: Refusal| (refusal.reason().to_owned(), refusal.to_string());
    let (bytes, found) = folder.read(name, BYTES_MAX).map_err(unreadable)?;
    let state = format::decode(&bytes, ROWS_MAX).map_err(refused)?;
    // The agent writes in this host's terms, so a difference is of a moment: it has not read the newest own state yet.
    if state.reward != policy.reward {
        return Err(refused(Refusal::Reward));
    }
    if state.algorithms() != policy.algorithms {
        return Err(refused(Refusal::Algorithms));
    }
    let written = found.modified().map_err(unreadable)?;
    Ok((state, written))
}

#[cfg(test)]
#[path = "fleet_tests.rs"]
mod tests;
