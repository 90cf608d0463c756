//! This host's own knowledge: files `own/POLICY.state`, each the bytes of a state. The daemon replaces them.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use tcpilot_fleet::age::OLDEST_S;
use tcpilot_fleet::format::{self, ROWS_MAX};
use tcpilot_fleet::manifest::POLICIES_MAX;
use tcpilot_fleet::{Name, State};

use crate::clock::unix_s;
use crate::say::Own;

/// Bytes of the longest file: 65,536 rows of eight algorithms.
const BYTES_MAX: usize = 16 << 20;

/// A file as it was read.
struct Read {
    /// Device, number, and time of the last change: another file has others.
    file: (u64, u64, i64, i64),
    state: State,
    age_s: f64,
    at_s: f64,
}

/// The folder of own states.
pub struct OwnStates {
    folder: PathBuf,
    read: BTreeMap<Name, Read>,
    /// Files that were refused, with the reason.
    pub refused: BTreeMap<String, String>,
}

impl OwnStates {
    /// The folder, which exists.
    #[must_use]
    pub fn new(folder: PathBuf) -> Self {
        Self {
            folder,
            read: BTreeMap::new(),
            refused: BTreeMap::new(),
        }
    }

    /// Reads new files. What was read from a former file stays if the new one is refused, and ages.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn read(&mut self, now_s: f64) -> io::Result<()> {
        self.refused.clear();
        let mut found = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let name = entry?.file_name();
            let Some(file) = name.to_str() else { continue };
            let Some(policy) = file.strip_suffix(".state") else {
                continue;
            };
            match Name::new(policy) {
                _ if found.len() == POLICIES_MAX => {
                    let text = format!("only {POLICIES_MAX} policies are said");
                    self.refused.insert(file.to_owned(), text);
                }
                Ok(policy) => found.push(policy),
                Err(_) => {
                    let text = "policies of a fleet have lower-case letters, digits and hyphens";
                    self.refused.insert(file.to_owned(), text.to_owned());
                }
            }
        }
        self.read.retain(|policy, _| found.contains(policy));
        for policy in found {
            let name = format!("{policy}.state");
            if let Err(error) = self.read_file(&policy, &self.folder.join(&name), now_s) {
                self.refused.insert(name, error.to_string());
            }
        }
        Ok(())
    }

    fn read_file(&mut self, policy: &Name, path: &Path, now_s: f64) -> io::Result<()> {
        let (bytes, found) = tcpilot_file::read(path, BYTES_MAX)?;
        let file = (found.dev(), found.ino(), found.mtime(), found.mtime_nsec());
        if self.read.get(policy).is_some_and(|read| read.file == file) {
            return Ok(());
        }
        let state = format::decode(&bytes, ROWS_MAX)
            .map_err(|refusal| io::Error::new(ErrorKind::InvalidData, refusal))?;
        let written = found.modified()?.duration_since(UNIX_EPOCH);
        let since_s = unix_s() - written.unwrap_or_default().as_secs_f64();
        // A wall clock that was set makes nothing too old to count.
        let age_s = (f64::from(state.age_s) + since_s.max(0.0)).min(OLDEST_S);
        let at_s = now_s;
        let read = Read {
            file,
            state,
            age_s,
            at_s,
        };
        self.read.insert(policy.clone(), read);
        Ok(())
    }

    /// The policies of the states.
    pub fn policies(&self) -> impl Iterator<Item = &Name> {
        self.read.keys()
    }

    /// The states, with their ages now.
    #[must_use]
    pub fn states(&self, now_s: f64) -> BTreeMap<Name, Own> {
        let own = |read: &Read| Own {
            state: read.state.clone(),
            age_s: read.age_s + (now_s - read.at_s).max(0.0),
        };
        let states = self.read.iter();
        states
            .map(|(name, read)| (name.clone(), own(read)))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_file_leaves_the_former_state() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("bulk.state");
        let state = State::new(7, vec!["cubic".into(), "bbr".into()]).unwrap();
        let mut own = OwnStates::new(folder.path().to_owned());
        tcpilot_file::replace(&path, 0o600, &format::encode(&state)).unwrap();
        own.read(10.0).unwrap();
        tcpilot_file::replace(&path, 0o600, b"\x09damaged").unwrap();
        fs::write(folder.path().join("Bulk.state"), "").unwrap();
        own.read(40.0).unwrap();
        assert_eq!(own.refused.len(), 2, "{:?}", own.refused);
        let states = own.states(40.0);
        let age_s = states[&Name::new("bulk").unwrap()].age_s;
        assert!((30.0..32.0).contains(&age_s), "{age_s}");
        fs::remove_file(&path).unwrap();
        own.read(50.0).unwrap();
        assert!(own.states(50.0).is_empty());
    }
}
