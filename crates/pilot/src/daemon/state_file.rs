//! Keeps the state file while the daemon runs. The disk may be full, the file may vanish or be replaced, and
//! the clock that determines the age of rows may be wrong.

use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use tcpilot_core::choice_dist::AssignmentSecrets;

use super::learning;
use crate::state::{Knowledge, StateError, Store, StoredPath};

/// The state file, open or not.
pub struct StateFile {
    path: PathBuf,
    open: Option<Open>,
    clock: Clock,
    problem: Option<String>,
}

struct Open {
    store: Store,
    /// Device and inode number, to notice another file of the same name.
    file: (u64, u64),
}

/// The time of two clocks, in seconds.
#[derive(Clone, Copy, Debug)]
pub struct Now {
    /// Time since 1970, set by people and time servers.
    pub unix_s: u64,
    /// Time since the boot, set by nobody.
    pub boot_s: u64,
}

impl StateFile {
    /// Opens the file. A full disk is no error: the file is then opened later.
    ///
    /// # Errors
    /// Those of [`Store::open`], except for a full disk.
    pub fn open(path: &Path) -> Result<StateFile, StateError> {
        let mut state_file = StateFile {
            path: path.to_owned(),
            open: None,
            clock: Clock::default(),
            problem: None,
        };
        match state_file.open_file() {
            Err(error) if error.is_full() => state_file.note(Err(&error)),
            result => result?,
        }
        Ok(state_file)
    }

    fn open_file(&mut self) -> Result<(), StateError> {
        let (store, set_aside) = Store::open(&self.path)?;
        if let Some(aside) = set_aside {
            tracing::warn!("{aside}");
        }
        let file = identity(&self.path).unwrap_or_default();
        self.open = Some(Open { store, file });
        Ok(())
    }

    /// The open store. If the file is gone, this opens a new one; ask [`StateFile::is_lost`] before, because
    /// everything has to be saved then.
    ///
    /// # Errors
    /// Those of [`Store::open`].
    pub fn store(&mut self) -> Result<&mut Store, StateError> {
        if self.is_lost() {
            self.open = None;
            self.open_file()?;
        }
        match &mut self.open {
            Some(open) => Ok(&mut open.store),
            None => Err(StateError::Full(self.path.clone())),
        }
    }

    /// The secrets for dividing addresses into hold-out groups: from the file, or else new ones.
    pub fn secrets(&mut self) -> AssignmentSecrets {
        let store = self.store().ok();
        let known = store.and_then(|store| learning::secrets(Some(&*store)).ok());
        known.unwrap_or_else(|| learning::secrets(None).unwrap_or_default())
    }

    /// Whether no file is open, or another file or none has its name now.
    pub fn is_lost(&self) -> bool {
        let open = self.open.as_ref();
        open.is_none_or(|open| identity(&self.path) != Some(open.file))
    }

    /// Writes paths, and the knowledge of the learner in the daemon. Logs when an error begins and ends.
    ///
    /// # Errors
    /// A sentence with the reason.
    pub fn save(
        &mut self,
        paths: &[StoredPath],
        knowledge: &[Knowledge],
        now: Now,
        max_age_s: u64,
    ) -> Result<(), String> {
        let max_age_s = self.clock.max_age_s(now, max_age_s);
        let result = self.store().and_then(|store| {
            store.save(paths, now.unix_s, max_age_s)?;
            store.save_knowledge(knowledge)
        });
        if matches!(result, Err(StateError::Damaged { .. })) {
            self.open = None; // the next save opens it again, and sets it aside
        }
        self.note(result.as_ref().copied());
        self.problem.clone().map_or(Ok(()), Err)
    }

    fn note(&mut self, result: Result<(), &StateError>) {
        let problem = result
            .err()
            .map(|error| format!("what was learned is not saved: {error}"));
        if problem != self.problem {
            match &problem {
                Some(problem) => tracing::warn!("{problem}; will try again"),
                None => tracing::info!("what was learned is saved again"),
            }
        }
        self.problem = problem;
    }

    /// Why the last save failed.
    pub fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    let meta = fs::metadata(path).ok()?;
    Some((meta.dev(), meta.ino()))
}

/// The age of rows follows the wall clock. The clock may be wrong if it was set within the last hour, or if
/// the daemon has not watched it for an hour yet. No row is forgotten then.
#[derive(Debug, Default)]
struct Clock {
    /// The time of the boot by the wall clock, and since when it has been stable, in seconds since the boot.
    seen: Option<(u64, u64)>,
}

impl Clock {
    const STEADY_S: u64 = 3600;
    /// Smaller changes come from a time server correcting a drift.
    const DRIFT_S: u64 = 60;

    fn max_age_s(&mut self, now: Now, max_age_s: u64) -> u64 {
        let boot_unix_s = now.unix_s.saturating_sub(now.boot_s);
        let (boot, since) = *self.seen.get_or_insert((boot_unix_s, now.boot_s));
        if boot.abs_diff(boot_unix_s) > Clock::DRIFT_S {
            self.seen = Some((boot_unix_s, now.boot_s));
            return u64::MAX;
        }
        if now.boot_s.saturating_sub(since) < Clock::STEADY_S {
            return u64::MAX;
        }
        max_age_s
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const YEAR: u64 = 365 * 86400;

    fn now(unix_s: u64, boot_s: u64) -> Now {
        Now { unix_s, boot_s }
    }

    #[test]
    fn nothing_is_forgotten_under_a_doubtful_clock() {
        let mut clock = Clock::default();
        let mut max_age = |unix_s, boot_s| clock.max_age_s(now(unix_s, boot_s), 7);
        assert_eq!(max_age(YEAR, 100), u64::MAX);
        assert_eq!(max_age(YEAR + 3600, 3700), 7);
        assert_eq!(max_age(2 * YEAR + 3660, 3760), u64::MAX);
        assert_eq!(max_age(YEAR + 3720, 3820), u64::MAX);
        assert_eq!(max_age(YEAR + 7320, 7420), 7);
    }

    #[test]
    fn a_file_that_vanished_is_made_anew() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lib/state.db");
        let mut state_file = StateFile::open(&path).unwrap();
        state_file.save(&[], &[], now(YEAR, 1), 7).unwrap();
        assert!(!state_file.is_lost());
        fs::remove_dir_all(path.parent().unwrap()).unwrap();
        assert!(state_file.is_lost());
        state_file.save(&[], &[], now(YEAR, 2), 7).unwrap();
        assert!(path.exists() && !state_file.is_lost());
        // A file in place of the folder keeps the folder from being recreated.
        fs::remove_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path.parent().unwrap(), "").unwrap();
        let problem = state_file.save(&[], &[], now(YEAR, 3), 7).unwrap_err();
        assert!(
            problem.starts_with("what was learned is not saved: "),
            "{problem}"
        );
        assert_eq!(state_file.problem(), Some(problem.as_str()));
    }

    #[test]
    fn a_file_that_was_replaced_is_written_too() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state.db");
        let mut state_file = StateFile::open(&path).unwrap();
        fs::write(dir.path().join("other"), "garbage").unwrap();
        fs::rename(dir.path().join("other"), &path).unwrap();
        state_file.save(&[], &[], now(YEAR, 1), 7).unwrap();
        assert!(
            Store::open(&path).unwrap().1.is_none(),
            "it is a state again"
        );
    }
}
