//! What must be so after each step, and after each crash.

use std::{
    collections::{BTreeMap, HashSet},
    sync::atomic::Ordering::Relaxed,
};

use tcpilot_learner::{Level, Lineage, learner::key_bytes, lineage::Key, saved_at_s};

use super::world::World;
use crate::{clocks::simulated, daemon::learning::choice_dists::node_key, state::simulated_disk};

/// The class of all records.
const CLASS: u16 = 14;
/// Half-life of a path's samples, in seconds.
const HALF_LIFE_S: f64 = 21_600.0;
/// The learner rounds the time of a row.
const ROUNDED_S: f64 = 0.25;

pub(super) type Outcome = Result<(), String>;

pub(super) fn check(is_right: bool, problem: impl FnOnce() -> String) -> Outcome {
    match is_right {
        true => Ok(()),
        false => Err(problem()),
    }
}
/// The weight of each known path's samples.
pub(super) type Known = BTreeMap<Vec<u8>, f64>;

/// What a daemon knew at a time.
#[derive(Clone, Debug, Default)]
pub(super) struct Snapshot {
    pub(super) paths: Known,
    pub(super) clock_s: f64,
    pub(super) number: u64,
    /// Transactions until then.
    pub(super) whole: usize,
    /// The boot.
    pub(super) boot: u64,
}
impl World {
    pub(super) fn snapshot(&self) -> Snapshot {
        let known = self.host.as_ref().and_then(|host| {
            host.learning.look(|learners| {
                let now_s = learners.clock.now_s();
                let learner = &mut learners.policies[0].learner;
                let keys: Vec<_> = learner.paths().collect();
                let mut weight = |key| learner.view(key, now_s).map_or(0.0, |view| view.own_weight);
                let paths = keys
                    .iter()
                    .map(|key| (key_bytes(key).to_vec(), weight(key)));
                (paths.collect::<Known>(), now_s)
            })
        });
        let (paths, clock_s) = known.unwrap_or_default();
        Snapshot {
            paths,
            clock_s,
            number: self.number.load(Relaxed),
            whole: 0,
            boot: simulated::time().map_or(0, |time| time.boot),
        }
    }

    /// Whether all parts of the file are of one save: the path of the tunings, the learner's rows, and the clock.
    pub(super) fn is_of_one_save(&mut self) -> Outcome {
        let Some(host) = &mut self.host else {
            return Ok(());
        };
        if self.acknowledged.whole == 0 && host.saves.state_file.problem().is_some() {
            return Ok(()); // a full disk has no room for a first file
        }
        let error = |error: crate::state::StateError| error.to_string();
        let store = host.saves.state_file.store().map_err(error)?;
        let number = store
            .load()
            .map_err(error)?
            .first()
            .map_or(0, |path| path.connections);
        let saved_at = store.saved_at().map_err(error)?;
        let saved_s = saved_at.map_or(f64::INFINITY, |saved| saved.clock_s);
        let mut newest_s = 0.0_f64;
        let each = |key: &[u8], row: &[u8]| {
            newest_s = newest_s.max(saved_at_s(key, row).unwrap_or(0.0));
        };
        store.for_each_row("web", each).map_err(error)?;
        let begun_s = self.begins.get(&number).copied().unwrap_or(0.0);
        let least = self.acknowledged.number;
        check(number >= least, || {
            format!("save {number} is in the file, and {least} was the last")
        })?;
        check(
            saved_s >= begun_s - 1e-3 && saved_s >= newest_s - ROUNDED_S,
            || {
                format!(
                    "parts of two saves: the clock {saved_s}, save {number} begun at {begun_s}, a row of {newest_s}"
                )
            },
        )
    }

    /// Whether `now` has all that was known before, as far as it has not faded.
    pub(super) fn has_all(before: &Snapshot, now: &Snapshot, what: &str) -> Outcome {
        let left = (-(now.clock_s - before.clock_s).max(0.0) / HALF_LIFE_S).exp2();
        for (key, weight) in &before.paths {
            let there = now.paths.get(key).copied();
            check(
                there.is_some_and(|there| there >= 0.9 * weight * left - 1e-3),
                || format!("{what}: of a path's {weight} samples there are {there:?} ({key:?})"),
            )?;
        }
        Ok(())
    }

    /// `whole`: the transactions before the crash.
    pub(super) fn look_after_restart(&mut self, away_s: u64, whole: usize) -> Outcome {
        let name = self.name();
        let since = self.acknowledged.whole.saturating_sub(1);
        let is_whole = simulated_disk::with(|disk| {
            let now = disk.hash_of(&name);
            let since_last = disk.whole.get(since..whole).unwrap_or_default();
            since_last.contains(&now) || self.acknowledged.whole == 0
        });
        check(is_whole, || {
            let count = whole - since;
            format!("the file is none of the {count} states since the last acknowledged one")
        })?;
        let now = self.snapshot();
        self.has_evidence(&now)?;
        if self.is_aged {
            return Ok(());
        }
        self.is_of_one_save()?;
        let mut before = self.acknowledged.clone();
        before.paths.retain(|key, _| {
            let is_private = key[4..8] != [0; 4];
            !is_private || self.of_boot.contains(key)
        });
        World::has_all(&before, &now, "after a restart")?;
        if let Some((clock_s, _)) = self.clock {
            // Only after a reboot the time since the save comes from a wall clock.
            let unsure_s = match self.acknowledged.boot == now.boot {
                true => 2.0,
                false => 3601.0,
            };
            let most_s = clock_s + away_s as f64 + unsure_s;
            check(now.clock_s >= self.acknowledged.clock_s - 1e-3, || {
                "the clock went back".to_owned()
            })?;
            check(
                self.acknowledged.number == 0 || now.clock_s <= most_s,
                || format!("the clock went on by {} s", now.clock_s - clock_s),
            )?;
        }
        Ok(())
    }

    /// Whether all that is known was seen, in this boot if it is of a namespace.
    pub(super) fn has_evidence(&self, now: &Snapshot) -> Outcome {
        for (key, weight) in &now.paths {
            let most = self.sent.get(key).copied().unwrap_or(0);
            check(*weight <= f64::from(most) + 1e-3, || {
                format!("a path has {weight} samples of {most} ({key:?})")
            })?;
            let is_private = key[4..8] != [0; 4];
            check(!is_private || self.of_boot.contains(key), || {
                format!("a path of a namespace that ended with its boot is known ({key:?})")
            })?;
        }
        Ok(())
    }

    /// Whether each choice distribution is of a known path, or of a node above one.
    pub(super) fn rows_have_evidence(&self) -> Outcome {
        let Some(host) = &self.host else {
            return Ok(());
        };
        let known = host.learning.look(|learners| {
            let mut known = HashSet::new();
            let policy = &learners.policies[0];
            for path in policy.learner.paths() {
                for level in Level::ALL {
                    let node = Lineage::of_key(&path.key).node(level);
                    let key = node_key(&node, policy.settings.policy);
                    known.insert(tcpilot_abi::to_bytes(&key).to_vec());
                }
            }
            // What classes have learned from paths of ended namespaces stays.
            for level in [Level::Class, Level::Global] {
                let of = Key {
                    class: CLASS,
                    ..Key::default()
                };
                let key = node_key(&Lineage::of_key(&of).node(level), policy.settings.policy);
                known.insert(tcpilot_abi::to_bytes(&key).to_vec());
            }
            known
        });
        let known = known.unwrap_or_default();
        let dists = self.kernel.dists.0.lock().unwrap();
        let orphan = dists.keys().find(|key| !known.contains(*key));
        check(orphan.is_none(), || {
            format!("a choice distribution has no evidence: {orphan:?}")
        })
    }
}
