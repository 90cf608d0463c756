//! Moves knowledge between the kernel's map and the state file.
//!
//! Only paths of the daemon's own namespace and of named ones are saved, because the number and cookie of an
//! unnamed namespace mean nothing after it is gone. Times are converted between the monotonic clock and the
//! wall clock. Arms and policies are saved by their names, so a changed configuration cannot misread them.

use std::{
    io::{self, Write},
    sync::Arc,
    time::{Duration, Instant},
};

use tcpilot_kernel::{
    clock::{TICK_NS, monotonic_ns},
    wall_clock::Now,
};
use tcpilot_show::failure::Failure;

use crate::state::age;
use tcpilot_abi::{tp_path, tp_path_key};
use tcpilot_core::prefix::Prefix;
use tcpilot_kernel::host;

use super::{
    Daemon,
    learning::{Greedy, Learning, Restored, policy_settings},
    manager,
};
use crate::{
    protocol::Reply,
    state::{Knowledge, StoredPath},
};

/// Interval at which old paths of the learner are looked for.
const FORGET_EVERY: Duration = Duration::from_secs(86_400);

impl Daemon {
    /// Fills the table of paths from the state file: tunings need it.
    pub(super) fn restore(&mut self) {
        self.netns.refresh();
        if self.abi.tunes == 0 {
            return;
        }
        if self.state_file.problem().is_some() {
            return; // there is no file to read
        }
        let store = self.state_file.store();
        match store.and_then(|store| store.load()) {
            Ok(paths) => {
                self.put(&paths);
                // Only paths used from now on are saved. The file knows when the others were last used, and
                // the kernel's clock cannot express a time before the boot.
                self.saved_ns = monotonic_ns().saturating_add(1);
                if !paths.is_empty() {
                    let (stored, paths) = (paths.len(), self.path_count());
                    tracing::info!(stored, paths, "took up what was learned before");
                }
            }
            Err(error) => tracing::warn!(%error, "starting without what was learned before"),
        }
    }

    /// The number of paths in the table.
    pub(super) fn path_count(&self) -> u32 {
        self.pilot.counters().paths.try_into().unwrap_or(u32::MAX)
    }

    fn max_age_s(&self) -> u64 {
        self.config.state.max_age_s()
    }

    /// Puts stored paths into the map, the oldest first, to be evicted first.
    fn put(&self, paths: &[StoredPath]) {
        let mut paths: Vec<&StoredPath> = paths.iter().collect();
        paths.sort_by_key(|p| p.updated_unix_s);
        let newest = paths.len().saturating_sub(self.config.paths_max as usize);
        for stored in paths.into_iter().skip(newest) {
            let Some((key, path)) = self.to_kernel(stored) else {
                continue;
            };
            if let Err(error) = self.pilot.put_path(&key, &path) {
                tracing::debug!(%error, "a path could not be taken up");
            }
        }
    }

    /// Saves the paths changed since the last save, or all if the file is a new one.
    ///
    /// # Errors
    /// A sentence with the reason.
    pub(super) fn save(&mut self) -> Result<(), String> {
        self.begin_save()?;
        while self.saving.is_some() {
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
    pub(super) fn begin_save(&mut self) -> Result<(), String> {
        self.netns.refresh();
        let now_ns = monotonic_ns();
        let since_ns = match self.state_file.is_lost() {
            true => 0,
            false => self.saved_ns.saturating_sub(TICK_NS),
        };
        let paths = self.collect(since_ns);
        self.save_part(now_ns, &paths, since_ns == 0)
    }

    /// Does the next part of an unfinished save, if there is one.
    ///
    /// # Errors
    /// A sentence with the reason.
    pub(super) fn go_on_saving(&mut self) -> Result<(), String> {
        match self.saving {
            // The parts so far are gone with their file.
            Some(_) if self.state_file.is_lost() => self.begin_save(),
            Some(begun_ns) => self.save_part(begun_ns, &[], false),
            None => Ok(()),
        }
    }

    fn save_part(&mut self, begun_ns: u64, paths: &[StoredPath], all: bool) -> Result<(), String> {
        let knowledge = self.knowledge(all);
        let has_more = knowledge.iter().any(|known| known.has_more);
        let saved = self
            .state_file
            .save(paths, &knowledge, Now::read(), self.max_age_s());
        self.forget_old();
        self.saving = (has_more && saved.is_ok()).then_some(begun_ns);
        match (&saved, &self.learning) {
            (Ok(()), _) if has_more => {}
            (Ok(()), _) => self.saved_ns = begun_ns,
            (Err(_), Some(learning)) => learning.not_saved(),
            (Err(_), None) => {}
        }
        saved
    }

    /// Lets the learner forget its old paths now and then, if their age counts.
    fn forget_old(&mut self) {
        if !self.state_file.ages_count() {
            self.forgot = None;
        } else if self
            .forgot
            .is_none_or(|last| last.elapsed() >= FORGET_EVERY)
        {
            self.forgot = Some(Instant::now());
            self.learning
                .as_ref()
                .inspect(|learning| learning.forget_old());
        }
    }

    /// The present time by the clock of all knowledge, seconds since 1970.
    fn now_unix_s(&self) -> u64 {
        self.state_file.clock().now_s().max(0.0) as u64
    }

    fn knowledge(&self, all: bool) -> Vec<Knowledge> {
        let learning = self.learning.as_ref();
        learning
            .and_then(|learning| learning.unsaved(all))
            .unwrap_or_default()
    }

    fn collect(&self, since_ns: u64) -> Vec<StoredPath> {
        let mut stored = Vec::new();
        let read = self.pilot.for_each_path(|key, path| {
            // The number of an interface means nothing after a reboot.
            let is_lasting = key.egress == 0 && self.netns.is_named(path.netns_inum);
            if path.updated_ns >= since_ns && is_lasting {
                stored.extend(self.to_stored(&key, &path));
            }
        });
        if let Err(error) = read {
            tracing::warn!(%error, "the paths could not be read");
        }
        stored
    }

    /// `state export`: writes the state while it reads it, because it may be long.
    pub(super) fn export(&mut self, out: &mut dyn Write) -> io::Result<()> {
        if let Err(error) = self.save() {
            return Reply::Error(error).write(out);
        }
        let store = self.state_file.store().map_err(io::Error::other)?;
        out.write_all(b"{\"ok\":")?;
        store.export_json(out).map_err(io::Error::other)?;
        out.write_all(b"}")
    }

    /// `state import`: adds paths to the file and the map. It saves first, so other paths lose nothing.
    pub(super) fn import(&mut self, paths: &[StoredPath]) -> Result<usize, String> {
        self.save()?;
        let store = self.state_file.store();
        store
            .and_then(|store| store.import(paths))
            .map_err(|e| e.to_string())?;
        let max_age_s = self.max_age_s();
        let (now_s, ages_count) = (self.now_unix_s(), self.state_file.ages_count());
        let is_young = |path: &&StoredPath| {
            !ages_count || now_s.saturating_sub(path.updated_unix_s) <= max_age_s
        };
        let young: Vec<StoredPath> = paths.iter().filter(is_young).cloned().collect();
        self.put(&young);
        Ok(paths.len())
    }

    /// Restores the learners of the policies from the state file.
    pub(super) fn open_learning(&mut self) -> Result<(), Failure> {
        let mut ends = self.pilot.learner_ends()?;
        let greedy = ends.costs.take().map(|costs| Greedy {
            memory: Arc::new(costs),
            settings: self.abi.learner,
            window_ns: self.abi.window_ns,
        });
        let default = host::default_algorithm();
        let all = policy_settings(
            &self.config,
            &self.abi,
            &self.arms,
            default.as_deref(),
            greedy.as_ref(),
        );
        let secrets = self.abi.assignment_secrets;
        let clock = self.state_file.clock().clone();
        let read = |store| Restored::read(all.clone(), store, secrets, clock.clone());
        let stored = match self.state_file.problem() {
            Some(_) => read(None), // there is no file to read, as already reported
            None => self.state_file.store().and_then(|store| read(Some(store))),
        };
        let restored = match stored {
            Ok(restored) => restored,
            Err(error) => {
                tracing::warn!(%error, "starting without what was learned before");
                read(None)?
            }
        };
        self.learning = Some(Learning::open(ends, restored, &self.config));
        Ok(())
    }

    /// Starts the learner, when the kernel's tick is known.
    pub(super) fn begin_learning(&mut self) -> Result<(), Failure> {
        let ticks_per_s = self.pilot.legacy().1.ticks_per_s;
        match &mut self.learning {
            Some(learning) => Ok(learning.begin(ticks_per_s)?),
            None => Ok(()),
        }
    }

    /// `state reset`.
    pub(super) fn reset(&mut self) -> Result<u32, String> {
        let forgotten = self.learning.as_ref().and_then(Learning::reset);
        let count = self.path_count().saturating_add(forgotten.unwrap_or(0));
        let store = self.state_file.store();
        store
            .and_then(|store| store.reset())
            .map_err(|e| e.to_string())?;
        self.pilot.clear_paths().map_err(|e| e.to_string())?;
        (self.saved_ns, self.saving) = (0, None);
        Ok(count)
    }

    fn to_stored(&self, key: &tp_path_key, path: &tp_path) -> Option<StoredPath> {
        let age_s = monotonic_ns().saturating_sub(path.updated_ns) / 1_000_000_000;
        Some(StoredPath {
            netns: self.netns.name(path.netns_inum),
            prefix: Prefix::from_key(key)?,
            policy: self.policy_name(key.policy),
            updated_unix_s: self.now_unix_s().saturating_sub(age_s),
            ..StoredPath::measured(path)
        })
    }

    fn to_kernel(&self, stored: &StoredPath) -> Option<(tp_path_key, tp_path)> {
        let (netns_inum, netns_cookie) = self.netns.find(&stored.netns)?;
        let mut key = tp_path_key {
            netns_cookie,
            policy: self.config.policy_id(&stored.policy)?,
            ..Default::default()
        };
        stored.prefix.write_key(&mut key);
        let now = monotonic_ns();
        let is_fresh = age::is_fresh(
            stored.updated_unix_s,
            self.now_unix_s(),
            self.config.learner.common.window_s.into(),
        );
        let age_s = self.now_unix_s().saturating_sub(stored.updated_unix_s);
        let epoch = now.checked_div(self.abi.window_ns).unwrap_or(0) as u32;
        let mut path = tp_path {
            epoch,
            // Never 0: this would mark a new entry.
            born_ns: now.max(1),
            updated_ns: now.saturating_sub(age_s.saturating_mul(1_000_000_000)),
            netns_inum,
            ..Default::default()
        };
        stored.put(&mut path, is_fresh);
        Some((key, path))
    }
}
