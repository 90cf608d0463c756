//! Moves knowledge between the kernel's map and the state file.
//!
//! Only paths of the daemon's own namespace and of named ones are saved, because the number and cookie of an
//! unnamed namespace mean nothing after it is gone. Times are converted between the monotonic clock and the
//! wall clock. Arms and policies are saved by their names, so a changed configuration cannot misread them.

use std::{
    io::{self, Write},
    sync::Arc,
};

use tcpilot_kernel::clock::monotonic_ns;
use tcpilot_show::failure::Failure;

use crate::state::age;
use tcpilot_abi::{tp_path, tp_path_key};
use tcpilot_core::prefix::Prefix;
use tcpilot_kernel::host;

use super::{
    Daemon,
    learning::{Greedy, Learning, policy_settings},
    saving::{Saver, Saves},
};
use crate::{protocol::Reply, state::StoredPath};

impl Saver for Daemon {
    fn saves(&mut self) -> &mut Saves {
        &mut self.saves
    }

    fn learning(&self) -> Option<&Learning> {
        self.learning.as_ref()
    }

    fn collect(&mut self, since_ns: u64) -> Vec<StoredPath> {
        self.netns.refresh();
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

    fn max_age_s(&self) -> u64 {
        self.config.state.max_age_s()
    }
}

impl Daemon {
    /// Fills the table of paths from the state file: tunings need it.
    pub(super) fn restore(&mut self) {
        self.netns.refresh();
        if self.abi.tunes == 0 {
            return;
        }
        if self.saves.state_file.problem().is_some() {
            return; // there is no file to read
        }
        let store = self.saves.state_file.store();
        match store.and_then(|store| store.load()) {
            Ok(paths) => {
                self.put(&paths);
                // Only paths used from now on are saved. The file knows when the others were last used, and
                // the kernel's clock cannot express a time before the boot.
                self.saves.saved_ns = monotonic_ns().saturating_add(1);
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

    /// Puts stored paths into the map, the oldest first, to be evicted first. Only tunings have that map.
    fn put(&self, paths: &[StoredPath]) {
        if self.abi.tunes == 0 {
            return;
        }
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

    /// The present time by the clock of all knowledge, seconds since 1970.
    fn now_unix_s(&self) -> u64 {
        self.saves.state_file.clock().now_s().max(0.0) as u64
    }

    /// `state export`: writes the state while it reads it, because it may be long.
    pub(super) fn export(&mut self, out: &mut dyn Write) -> io::Result<()> {
        if let Err(error) = self.save() {
            return Reply::Error(error).write(out);
        }
        let store = self.saves.state_file.store().map_err(io::Error::other)?;
        out.write_all(b"{\"ok\":")?;
        store.export_json(out).map_err(io::Error::other)?;
        out.write_all(b"}")
    }

    /// `state import`: adds paths to the file and the map. It saves first, so other paths lose nothing.
    pub(super) fn import(&mut self, paths: &[StoredPath]) -> Result<usize, String> {
        self.save()?;
        let store = self.saves.state_file.store();
        store
            .and_then(|store| store.import(paths))
            .map_err(|e| e.to_string())?;
        let max_age_s = self.max_age_s();
        let (now_s, ages_count) = (self.now_unix_s(), self.saves.state_file.ages_count());
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
        let restored = self.saves.read_learners(&all, secrets)?;
        self.learning = Some(Learning::open(ends.into(), restored, &self.config));
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
        let store = self.saves.state_file.store();
        store
            .and_then(|store| store.reset())
            .map_err(|e| e.to_string())?;
        self.pilot.clear_paths().map_err(|e| e.to_string())?;
        (self.saves.saved_ns, self.saves.saving) = (0, None);
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
