//! Saves of the daemon, and the reading of the last one: the order of the steps, and what follows from a step that
//! failed. The module knows neither the kernel's maps nor threads, so a test runs it with a simulated disk
//! (`schedules`).

use std::time::{Duration, Instant};

use tcpilot_core::choice_dist::AssignmentSecrets;
use tcpilot_kernel::clock::TICK_NS;

use super::{
    learning::{Counts, Learning, PolicySettings, Restored},
    manager,
    state_file::StateFile,
};
use crate::{
    clocks,
    state::{Knowledge, StateError, StoredPath},
};

/// Interval at which old paths of the learner are looked for.
const FORGET_EVERY: Duration = Duration::from_secs(86_400);

/// The state file, and how far saves have come.
pub struct Saves {
    pub state_file: StateFile,
    /// Start of the last complete save, by CLOCK_MONOTONIC: later changes are still to be saved.
    pub saved_ns: u64,
    /// Start of the present save.
    pub saving: Option<u64>,
    /// When the learner last forgot its old paths; `None` while their age does not count.
    forgot: Option<Instant>,
}

impl Saves {
    /// No save yet.
    pub fn new(state_file: StateFile) -> Saves {
        Saves {
            state_file,
            saved_ns: 0,
            saving: None,
            forgot: None,
        }
    }

    /// Reads the saved learners of these policies. If the file cannot be read, they begin without knowledge.
    ///
    /// # Errors
    /// Those of [`Restored::read`] without a file.
    pub fn read_learners(
        &mut self,
        all: &[PolicySettings],
        secrets: AssignmentSecrets,
    ) -> Result<Restored, StateError> {
        let clock = self.state_file.clock().clone();
        let read = |store| Restored::read(all.to_vec(), store, secrets, clock.clone());
        let stored = match self.state_file.problem() {
            Some(_) => read(None), // there is no file to read, as already reported
            None => self.state_file.store().and_then(|store| read(Some(store))),
        };
        stored.or_else(|error| {
            tracing::warn!(%error, "starting without what was learned before");
            read(None)
        })
    }
}

/// A daemon that saves.
pub trait Saver {
    /// Its state file.
    fn saves(&mut self) -> &mut Saves;
    /// Its learner, if it works in the daemon.
    fn learning(&self) -> Option<&Learning>;
    /// The paths of the tunings used since then.
    fn collect(&mut self, since_ns: u64) -> Vec<StoredPath>;
    /// Older paths of the tunings are deleted.
    fn max_age_s(&self) -> u64;

    /// Saves the paths changed since the last save, or all if the file is a new one.
    ///
    /// # Errors
    /// A sentence with the reason.
    fn save(&mut self) -> Result<(), String> {
        self.begin_save()?;
        while self.saves().saving.is_some() {
            manager::alive();
            self.go_on_saving()?;
        }
        Ok(())
    }

    /// Begins a save, and does a part. With very many paths a save takes a while, so the daemon answers
    /// questions between the parts.
    ///
    /// # Errors
    /// A sentence with the reason.
    fn begin_save(&mut self) -> Result<(), String> {
        let now_ns = clocks::monotonic_ns();
        let saves = self.saves();
        let since_ns = match saves.state_file.is_lost() {
            true => 0,
            false => saves.saved_ns.saturating_sub(TICK_NS),
        };
        let paths = self.collect(since_ns);
        self.save_part(now_ns, &paths, since_ns == 0)
    }

    /// Does the next part of an unfinished save, if there is one.
    ///
    /// # Errors
    /// A sentence with the reason.
    fn go_on_saving(&mut self) -> Result<(), String> {
        let saves = self.saves();
        match saves.saving {
            // The parts so far are gone with their file.
            Some(_) if saves.state_file.is_lost() => self.begin_save(),
            Some(begun_ns) => self.save_part(begun_ns, &[], false),
            None => Ok(()),
        }
    }

    /// Writes these paths, and a part of the learner's knowledge.
    ///
    /// # Errors
    /// A sentence with the reason.
    fn save_part(&mut self, begun_ns: u64, paths: &[StoredPath], all: bool) -> Result<(), String> {
        let knowledge: Option<Vec<Knowledge>> = match self.learning() {
            Some(learning) => learning.unsaved(all),
            None => Some(Vec::new()),
        };
        let has_more = knowledge.iter().flatten().any(|known| known.has_more);
        let max_age_s = self.max_age_s();
        let file = &mut self.saves().state_file;
        let saved = file.save(paths, knowledge.as_deref(), clocks::now(), max_age_s);
        if all && saved.is_ok() {
            file.has_all();
        }
        self.forget_old();
        self.saves().saving = (has_more && saved.is_ok()).then_some(begun_ns);
        match &saved {
            Ok(()) if has_more => {}
            Ok(()) => self.saves().saved_ns = begun_ns,
            Err(_) => self.learning().into_iter().for_each(Learning::not_saved),
        }
        saved
    }

    /// Lets the learner forget its old paths now and then, if their age counts.
    fn forget_old(&mut self) {
        let saves = self.saves();
        if !saves.state_file.ages_count() {
            saves.forgot = None;
            return;
        }
        let now = clocks::instant();
        let is_due = |last: Instant| now.saturating_duration_since(last) >= FORGET_EVERY;
        if saves.forgot.is_none_or(is_due) {
            saves.forgot = Some(now);
            self.learning().into_iter().for_each(Learning::forget_old);
        }
    }

    /// Saves everything for another program that takes this daemon's place. Later records wait in the ring for it:
    /// this program could not save them. Returns the learner's counts.
    ///
    /// # Errors
    /// What was learned is not saved. The other program would find choice distributions without the knowledge behind
    /// them, and nobody would change these again.
    fn prepare_hand_over(&mut self) -> Result<Option<Counts>, String> {
        self.set_resting(true);
        self.save()?;
        manager::alive();
        Ok(self.learning().and_then(Learning::counts))
    }

    /// Stops reading records, or goes on.
    fn set_resting(&self, is_resting: bool) {
        if let Some(learning) = self.learning() {
            learning.rest(is_resting);
        }
    }
}
