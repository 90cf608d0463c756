//! The results of the comparison, and the open blocks, in the state file. The secrets, `Past`, each policy
//! and each group have a row. The rows are in the learner's table, under a name that no policy can have.

use std::{
    collections::HashMap,
    hash::{BuildHasher, RandomState},
};

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use tcpilot_core::choice_dist::AssignmentSecrets;
use tcpilot_proof::{
    Trial,
    trial::{Group, Host},
};

use super::{Effect, Past};
use crate::state::{Knowledge, SavedRow, StateError, Store};

/// Stands for a policy's name. Names of policies have no slash.
pub const POLICY: &str = "/effect";

const SECRETS: &[u8] = b"secrets";
const PAST: &[u8] = b"past";
/// First byte of the key of a policy's row. The policy's name follows; it is empty for all policies together.
const HOST: u8 = b'h';
/// First byte of the key of a group's row. The group's number and the policy's name follow.
const GROUP: u8 = b'g';

/// A group with its addresses.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Named {
    #[serde(default)]
    name: String,
    #[serde(flatten)]
    group: Group,
}

/// The content of the file.
#[derive(Debug, Default)]
pub struct Saved {
    /// The secrets that decide a group's assignment bucket and its hold-out times.
    pub(super) secrets: AssignmentSecrets,
    pub(super) past: Past,
    hosts: HashMap<String, Host>,
    groups: HashMap<String, HashMap<u64, Group>>,
    names: HashMap<u64, String>,
    /// The number of damaged rows.
    damaged: usize,
    pub(super) is_new: bool,
}

/// The secrets of this host, new ones if the file has none.
///
/// # Errors
/// The database cannot be read.
pub fn secrets(store: Option<&Store>) -> Result<AssignmentSecrets, StateError> {
    Saved::read(store, POLICY).map(|saved| saved.secrets)
}

impl Saved {
    /// Reads everything under a name; the result is new if there is no file.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn read(store: Option<&Store>, policy: &str) -> Result<Saved, StateError> {
        let mut saved = Saved::default();
        if let Some(store) = store {
            store.for_each_row(policy, |key, row| saved.add(key, row))?;
        }
        Ok(saved.checked())
    }

    /// The same from rows.
    #[cfg(test)]
    pub fn of(rows: impl IntoIterator<Item = SavedRow>) -> Saved {
        let mut saved = Saved::default();
        rows.into_iter()
            .for_each(|(key, row)| saved.add(&key, &row));
        saved.checked()
    }

    fn add(&mut self, key: &[u8], row: &[u8]) {
        if self.take(key, row).is_none() {
            self.damaged += 1;
        }
    }

    /// If the secrets are missing, makes new ones and forgets the rest: it means nothing without them.
    fn checked(mut self) -> Saved {
        let saved = &mut self;
        if saved.damaged > 0 {
            let damaged = saved.damaged;
            tracing::warn!(
                "{damaged} rows of what was shown of the effect were damaged and are forgotten"
            );
        }
        if saved.secrets == AssignmentSecrets::default() {
            self = Saved {
                secrets: new_secrets(),
                is_new: true,
                ..Saved::default()
            };
        }
        self
    }

    /// Keeps the state if it has these secrets, already known to the programs; else a new state with them.
    pub fn with_secrets(self, secrets: AssignmentSecrets) -> Saved {
        if self.secrets == secrets {
            return self;
        }
        Saved {
            secrets,
            is_new: true,
            ..Saved::default()
        }
    }

    /// A trial without guards; `number` is that of the present period.
    pub(super) fn trial(&mut self, name: &str, number: u64) -> Trial {
        let host = self.hosts.remove(name).unwrap_or_default();
        Trial::restore(host, self.groups.remove(name).unwrap_or_default(), number)
    }

    fn take(&mut self, key: &[u8], row: &[u8]) -> Option<()> {
        match key {
            SECRETS => self.secrets = read(row)?,
            PAST => self.past = read(row)?,
            [HOST, policy @ ..] => {
                let policy = String::from_utf8(policy.to_vec()).ok()?;
                self.hosts.insert(policy, read(row)?);
            }
            [GROUP, rest @ ..] => {
                let (number, policy) = rest.split_first_chunk::<8>()?;
                let number = u64::from_be_bytes(*number);
                let policy = String::from_utf8(policy.to_vec()).ok()?;
                let Named { name, group } = read(row)?;
                if !name.is_empty() {
                    self.names.insert(number, name);
                }
                self.groups.entry(policy).or_default().insert(number, group);
            }
            _ => return None,
        }
        Some(())
    }
}

fn new_secrets() -> AssignmentSecrets {
    #[cfg(test)]
    if crate::clocks::simulated::time().is_some() {
        return [7; 7];
    }
    let random = RandomState::new();
    std::array::from_fn(|number| random.hash_one(number))
}

/// Reads a row: a checksum, then JSON. JSON alone would not show a flipped bit in a number.
fn read<T: DeserializeOwned>(row: &[u8]) -> Option<T> {
    let (sum, text) = row.split_first_chunk::<8>()?;
    (u64::from_le_bytes(*sum) == checksum(text)).then_some(())?;
    serde_json::from_slice(text).ok()
}

fn written(value: &impl Serialize) -> Vec<u8> {
    let text = serde_json::to_vec(value).unwrap_or_default();
    let mut row = checksum(&text).to_le_bytes().to_vec();
    row.extend(text);
    row
}

/// FNV-1a, 64 bits.
fn checksum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

fn host_key(policy: &str) -> Vec<u8> {
    [&[HOST], policy.as_bytes()].concat()
}

fn group_key(policy: &str, number: u64) -> Vec<u8> {
    [&[GROUP], &number.to_be_bytes()[..], policy.as_bytes()].concat()
}

impl Effect {
    pub(super) fn restore(&mut self, saved: Saved) {
        let Saved {
            past,
            hosts,
            mut groups,
            names,
            is_new,
            ..
        } = saved;
        let now_s = self.now_s();
        self.past = past;
        if is_new || self.past.since_s == 0 {
            self.past.since_s = now_s;
        }
        // A wrong clock must not make a trial endless.
        let longest_s = now_s.saturating_add(super::super::LONGEST_TRIAL_S);
        self.past.trial_until_s = self.past.trial_until_s.min(longest_s);
        self.past.since_s = self.past.since_s.min(now_s);
        let number = self.schedule.number(now_s);
        for (policy, mut host) in hosts {
            let mut groups = groups.remove(&policy).unwrap_or_default();
            if let Some(limits) = &self.terms.limits {
                host.guard.resume(now_s, limits);
                for group in groups.values_mut() {
                    group.guard.resume(now_s, limits);
                }
            }
            let trial = Trial::restore(host, groups, number);
            if policy.is_empty() {
                self.whole = trial;
            } else {
                self.policies.insert(policy, trial);
            }
        }
        self.names = names;
        self.unsaved_all = is_new;
    }

    /// The rows to save: all, or those changed since the last call.
    pub fn unsaved(&mut self, all: bool) -> Knowledge {
        let all = all || std::mem::take(&mut self.unsaved_all);
        let whole = std::iter::once(("", &mut self.whole));
        let policies = self.policies.iter_mut();
        let policies = policies.map(|(name, trial)| (name.as_str(), trial));
        let trials = whole.chain(policies);
        rows(
            POLICY,
            (&self.secrets, &self.past),
            trials,
            Some(&self.names),
            all,
        )
    }
}

/// The rows of trials, saved under the name `policy`.
pub(super) fn rows<'a>(
    policy: &str,
    (secrets, past): (&AssignmentSecrets, &Past),
    trials: impl Iterator<Item = (&'a str, &'a mut Trial)>,
    names: Option<&HashMap<u64, String>>,
    all: bool,
) -> Knowledge {
    let mut knowledge = Knowledge {
        policy: policy.to_owned(),
        is_all: all,
        rows: vec![
            (SECRETS.to_vec(), written(secrets)),
            (PAST.to_vec(), written(past)),
        ],
        ..Knowledge::default()
    };
    for (name, trial) in trials {
        let row: SavedRow = (host_key(name), written(&trial.host));
        knowledge.rows.push(row);
        for (number, group) in trial.unsaved(all) {
            let key = group_key(name, number);
            match group {
                None => knowledge.gone.push(key),
                Some(group) => {
                    let known = names.and_then(|names| names.get(&number));
                    let named = Named {
                        name: known.cloned().unwrap_or_default(),
                        group: group.clone(),
                    };
                    knowledge.rows.push((key, written(&named)));
                }
            }
        }
    }
    knowledge
}
