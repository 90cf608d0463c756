//! Keeps the state file while the daemon runs. The disk may be full, the file may vanish or be replaced, and
//! the clock that determines the age of rows may be wrong.

use std::{
    fmt::Display,
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use tcpilot_core::choice_dist::AssignmentSecrets;
use tcpilot_kernel::wall_clock::{Now, WallClock};

use super::learning::{self, Clock};
use crate::state::{Boot, Knowledge, StateError, Store, StoredPath};

/// The state file, open or not.
pub struct StateFile {
    path: PathBuf,
    open: Option<Open>,
    /// A new file was made in place of a lost one, and does not have everything yet.
    lacks: bool,
    /// Shows the time by which the age of everything in the file counts.
    clock: Clock,
    wall: WallClock,
    ages_count: bool,
    problem: Option<String>,
}

struct Open {
    store: Store,
    /// Device and inode number, to notice another file of the same name.
    file: (u64, u64),
}

impl StateFile {
    /// Opens the file. A full disk is no error: the file is then opened later.
    ///
    /// # Errors
    /// Those of [`Store::open`], except for a full disk.
    pub fn open(path: &Path, now: Now) -> Result<StateFile, StateError> {
        let mut state_file = StateFile {
            path: path.to_owned(),
            open: None,
            lacks: false,
            clock: Clock::new(now.unix_s as f64),
            wall: WallClock::default(),
            ages_count: false,
            problem: None,
        };
        match state_file.open_file() {
            Err(error) if error.is_full() => state_file.note(Some(&error)),
            result => result?,
        }
        let store = state_file.open.as_ref().map(|open| &open.store);
        let saved_at = store.and_then(|store| store.saved_at().ok().flatten());
        state_file.clock = Clock::resume(saved_at, &Boot::present().id, now);
        state_file.wall.may_judge_age(now);
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

    /// The open store. If the file is gone, this opens a new one, which is lost until everything is saved.
    ///
    /// # Errors
    /// Those of [`Store::open`].
    pub fn store(&mut self) -> Result<&mut Store, StateError> {
        if self.is_gone() {
            self.open = None;
            self.lacks = true;
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

    /// Whether the file does not have what was saved before: everything has to be saved.
    pub fn is_lost(&self) -> bool {
        self.lacks || self.is_gone()
    }

    /// Everything was saved.
    pub fn has_all(&mut self) {
        self.lacks = false;
    }

    /// Whether no file is open, or another file or none has its name now.
    fn is_gone(&self) -> bool {
        let open = self.open.as_ref();
        open.is_none_or(|open| identity(&self.path) != Some(open.file))
    }

    /// The clock of everything in the file.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Whether anything may be dropped for its age, as of the last save.
    pub fn ages_count(&self) -> bool {
        self.ages_count
    }

    /// Writes paths, and the knowledge of the learner in the daemon; `None` if the learner does not answer: then the
    /// save is not complete. Logs when an error begins and ends.
    ///
    /// # Errors
    /// A sentence with the reason.
    pub fn save(
        &mut self,
        paths: &[StoredPath],
        knowledge: Option<&[Knowledge]>,
        now: Now,
        max_age_s: u64,
    ) -> Result<(), String> {
        self.ages_count = self.wall.may_judge_age(now);
        let mut oldest_unix_s = 0;
        if self.ages_count {
            self.clock.catch_up(now.unix_s as f64);
            oldest_unix_s = (self.clock.now_s() as u64).saturating_sub(max_age_s);
        }
        let boot = Boot::present();
        let now_s = self.clock.now_s();
        let mut last = vec![Knowledge::of_clock(now_s, &boot.id, now.boot_s)];
        let is_complete = knowledge.is_some_and(|all| all.iter().all(|one| !one.has_more));
        let result = self.store().and_then(|store| {
            // Until all rows of another boot are replaced, the file is of that boot.
            if is_complete || store.saved_boot()?.is_none() {
                last.push(Knowledge::of_boot(&boot));
            }
            let all = knowledge.unwrap_or_default().iter().chain(&last);
            store.save(paths, oldest_unix_s, all)
        });
        if matches!(result, Err(StateError::Damaged { .. })) {
            self.open = None; // the next save opens it again, and sets it aside
        }
        let silent = knowledge.is_none().then_some("the learner does not answer");
        match &result {
            Err(error) => self.note(Some(error)),
            Ok(()) => self.note(silent.as_ref().map(|silent| silent as &dyn Display)),
        }
        self.problem.clone().map_or(Ok(()), Err)
    }

    fn note(&mut self, error: Option<&dyn Display>) {
        let problem = error.map(|error| format!("what was learned is not saved: {error}"));
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

#[cfg(test)]
mod tests {
    use super::*;

    const YEAR: u64 = 365 * 86400;

    fn now(unix_s: u64, boot_s: u64) -> Now {
        Now { unix_s, boot_s }
    }

    #[test]
    fn a_file_that_vanished_is_made_anew() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lib/state.db");
        let mut state_file = StateFile::open(&path, now(YEAR, 1)).unwrap();
        state_file.save(&[], Some(&[]), now(YEAR, 1), 7).unwrap();
        assert!(!state_file.is_lost());
        fs::remove_dir_all(path.parent().unwrap()).unwrap();
        assert!(state_file.is_lost());
        state_file.save(&[], Some(&[]), now(YEAR, 2), 7).unwrap();
        assert!(path.exists() && state_file.is_lost(), "it may lack paths");
        state_file.has_all();
        assert!(!state_file.is_lost());
        // A file in place of the folder keeps the folder from being recreated.
        fs::remove_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path.parent().unwrap(), "").unwrap();
        let problem = state_file
            .save(&[], Some(&[]), now(YEAR, 3), 7)
            .unwrap_err();
        assert!(
            problem.starts_with("what was learned is not saved: "),
            "{problem}"
        );
        assert_eq!(state_file.problem(), Some(problem.as_str()));
    }

    #[test]
    fn a_file_made_anew_by_a_reader_is_lost_until_all_is_saved() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state.db");
        let mut state_file = StateFile::open(&path, now(YEAR, 1)).unwrap();
        fs::remove_file(&path).unwrap();
        state_file.store().unwrap();
        assert!(path.exists() && state_file.is_lost());
    }

    #[test]
    fn a_file_that_was_replaced_is_written_too() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state.db");
        let mut state_file = StateFile::open(&path, now(YEAR, 1)).unwrap();
        fs::write(dir.path().join("other"), "garbage").unwrap();
        fs::rename(dir.path().join("other"), &path).unwrap();
        state_file.save(&[], Some(&[]), now(YEAR, 1), 7).unwrap();
        assert!(
            Store::open(&path).unwrap().1.is_none(),
            "it is a state again"
        );
    }
}
