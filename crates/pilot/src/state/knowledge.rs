//! The learners' knowledge: a row for each path, and for each node above it; epsilon-greedy's costs of a path are
//! such a row, too.
//!
//! Keys of costs are told apart by their first byte, so changing the learner back and forth loses neither. The
//! learner itself encodes and decodes its rows. Each row has its own version and checksum, so a damaged row is
//! skipped and the others still count.

use std::collections::BTreeSet;

use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};

use tcpilot_learner::{bytes, saved_at_s};

use super::{StateError, Store};

/// The tables. `arms` are the algorithms compared by the rows, the default first, separated by commas. `kept`
/// has the keys written so far by a save of all rows.
pub(super) const SCHEMA: &str = "
    CREATE TABLE IF NOT EXISTS learner (
        policy TEXT PRIMARY KEY NOT NULL,
        arms TEXT NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS knowledge (
        policy TEXT NOT NULL,
        key BLOB NOT NULL,
        row BLOB NOT NULL,
        PRIMARY KEY (policy, key)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS kept (
        policy TEXT NOT NULL,
        key BLOB NOT NULL,
        PRIMARY KEY (policy, key)
    ) STRICT, WITHOUT ROWID;
";

/// A key and its row, as the learner encodes them.
pub type SavedRow = (Vec<u8>, Vec<u8>);

/// Stands for the name of a policy in the table of the learner's rows, for the time of the last save. Names of
/// policies have no slash.
const CLOCK: &str = "/clock";

/// The first byte of a key of saved costs; no key of the estimates begins with it.
pub const OF_COSTS: u8 = b'C';

/// Whether saved costs have this key.
pub fn is_of_costs(key: &[u8]) -> bool {
    key.first() == Some(&OF_COSTS)
}

/// Changes of one policy's knowledge since the last save.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Knowledge {
    /// The policy's name.
    pub policy: String,
    /// The algorithms, the default first.
    pub arms: Vec<String>,
    /// Whether all rows of the policy begin here. The file forgets its former ones once the last part has
    /// been written, so a daemon killed before loses nothing.
    pub is_all: bool,
    /// New or changed keys and rows.
    pub rows: Vec<SavedRow>,
    /// Keys whose rows are forgotten.
    pub gone: Vec<Vec<u8>>,
    /// Whether there are further changes to ask for.
    pub has_more: bool,
}

/// The time of the last save.
#[derive(Clone, Debug, PartialEq)]
pub struct SavedAt {
    /// By the clock of all knowledge, seconds since 1970.
    pub clock_s: f64,
    /// The boot, and the seconds since it; `None` in a file of an older version.
    pub boot: Option<(String, u64)>,
}

/// The keys of both. An older version writes the first one alone, so the second one repeats its value: one that
/// differs is of a former save.
const NOW: &[u8] = b"now";
const SINCE_BOOT: &[u8] = b"at";

impl Knowledge {
    /// The time of a save by the clock of all knowledge, and by the clock of this boot.
    pub fn of_clock(clock_s: f64, boot: &str, boot_s: u64) -> Knowledge {
        let now = bytes::Writer::new().f64(clock_s).clone().finish();
        let since_boot = serde_json::to_vec(&(clock_s.to_bits(), boot, boot_s)).unwrap_or_default();
        Knowledge {
            policy: CLOCK.to_owned(),
            rows: vec![(NOW.to_vec(), now), (SINCE_BOOT.to_vec(), since_boot)],
            ..Knowledge::default()
        }
    }
}

impl Store {
    /// The time of the last save. A file of an older version has the times of its rows only.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn saved_at(&self) -> Result<Option<SavedAt>, StateError> {
        let mut saved_s = None;
        let mut since_boot: Option<(u64, String, u64)> = None;
        self.for_each_row(CLOCK, |key, row| match key {
            NOW => saved_s = bytes::Reader::new(row).and_then(|mut row| row.f64()),
            _ => since_boot = serde_json::from_slice(row).ok(),
        })?;
        if let Some(clock_s) = saved_s {
            let boot = since_boot
                .filter(|(bits, ..)| *bits == clock_s.to_bits())
                .map(|(_, boot, boot_s)| (boot, boot_s));
            return Ok(Some(SavedAt { clock_s, boot }));
        }
        for policy in self.known_policies()? {
            if !policy.contains('/') {
                self.for_each_row(&policy, |key, row| {
                    saved_s = [saved_s, saved_at_s(key, row)]
                        .into_iter()
                        .flatten()
                        .reduce(f64::max);
                })?;
            }
        }
        Ok(saved_s.map(|clock_s| SavedAt {
            clock_s,
            boot: None,
        }))
    }

    /// The policies with saved knowledge.
    pub(super) fn known_policies(&self) -> Result<Vec<String>, StateError> {
        let read = || {
            let mut statement = self
                .db
                .prepare("SELECT policy FROM learner ORDER BY policy")?;
            let policies = statement.query_map([], |row| row.get(0))?;
            policies.collect::<rusqlite::Result<Vec<String>>>()
        };
        read().map_err(|error| self.error(error))
    }

    /// The algorithms compared by the saved knowledge of a policy; `None` without such knowledge.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn known_arms(&self, policy: &str) -> Result<Option<Vec<String>>, StateError> {
        let query = "SELECT arms FROM learner WHERE policy = ?";
        let row = self
            .db
            .query_row(query, [policy], |row| row.get::<_, String>(0));
        let arms = row.optional().map_err(|error| self.error(error))?;
        Ok(arms.map(|arms| arms.split(',').map(str::to_owned).collect()))
    }

    /// The number of saved rows of a policy.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn row_count(&self, policy: &str) -> Result<usize, StateError> {
        let query = "SELECT COUNT(*) FROM knowledge WHERE policy = ?";
        let count = self.db.query_row(query, [policy], |row| row.get(0));
        count.map_err(|error| self.error(error))
    }

    /// Calls `each` with every saved key and row of a policy.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn for_each_row(
        &self,
        policy: &str,
        mut each: impl FnMut(&[u8], &[u8]),
    ) -> Result<(), StateError> {
        let mut read = || {
            let query = "SELECT key, row FROM knowledge WHERE policy = ?";
            let mut statement = self.db.prepare(query)?;
            let mut rows = statement.query([policy])?;
            while let Some(row) = rows.next()? {
                // A value of another type cannot be ours. It counts as empty, and an empty row as damaged.
                let blob = |column: usize| {
                    let value = row.get_ref(column)?;
                    Ok::<_, rusqlite::Error>(value.as_blob().unwrap_or_default())
                };
                each(blob(0)?, blob(1)?);
            }
            Ok(())
        };
        read().map_err(|error| self.error(error))
    }

    /// Writes all changes, or none.
    ///
    /// # Errors
    /// The database cannot be written.
    pub fn save_knowledge(&mut self, all: &[Knowledge]) -> Result<(), StateError> {
        self.write(all, |_| Ok(()))
    }

    /// Writes changes of the learners in one transaction with `others`.
    pub(super) fn write<'a>(
        &mut self,
        all: impl IntoIterator<Item = &'a Knowledge>,
        others: impl FnOnce(&Connection) -> rusqlite::Result<()>,
    ) -> Result<(), StateError> {
        let mut whole = self.whole.clone();
        let result = (|| {
            let transaction = self
                .db
                .transaction_with_behavior(TransactionBehavior::Immediate)?;
            others(&transaction)?;
            all.into_iter()
                .try_for_each(|one| write(&transaction, one, &mut whole))?;
            transaction.commit()
        })();
        // Between two saves nobody needs the pages.
        let _ = self.db.release_memory();
        result.map_err(|error| self.error(error))?;
        self.whole = whole;
        Ok(())
    }
}

/// Writes a part. `whole` has the policies with an unfinished save of all rows.
pub(super) fn write(
    db: &Connection,
    one: &Knowledge,
    whole: &mut BTreeSet<String>,
) -> rusqlite::Result<()> {
    let arms = one.arms.join(",");
    if one.is_all {
        whole.insert(one.policy.clone());
        db.execute("DELETE FROM kept WHERE policy = ?", [&one.policy])?;
        // Rows of other algorithms are useless for these.
        db.execute(
            "DELETE FROM knowledge WHERE policy = ?1
             AND NOT EXISTS (SELECT 1 FROM learner WHERE policy = ?1 AND arms = ?2)",
            params![one.policy, arms],
        )?;
    }
    let is_whole = whole.contains(&one.policy);
    let named = params![one.policy, arms];
    db.execute(
        "INSERT OR REPLACE INTO learner (policy, arms) VALUES (?, ?)",
        named,
    )?;
    let mut delete = db.prepare("DELETE FROM knowledge WHERE policy = ? AND key = ?")?;
    for key in &one.gone {
        delete.execute(params![one.policy, key])?;
    }
    let mut put =
        db.prepare("INSERT OR REPLACE INTO knowledge (policy, key, row) VALUES (?, ?, ?)")?;
    let mut keep = db.prepare("INSERT OR REPLACE INTO kept (policy, key) VALUES (?, ?)")?;
    for (key, row) in &one.rows {
        put.execute(params![one.policy, key, row])?;
        if is_whole {
            keep.execute(params![one.policy, key])?;
        }
    }
    if is_whole && !one.has_more {
        forget_others(db, &one.policy)?;
        whole.remove(&one.policy);
    }
    Ok(())
}

/// Deletes the rows of a policy not written by the save of all.
fn forget_others(db: &Connection, policy: &str) -> rusqlite::Result<()> {
    db.execute(
        "DELETE FROM knowledge WHERE policy = ?1
         AND NOT EXISTS (SELECT 1 FROM kept WHERE policy = ?1 AND kept.key = knowledge.key)",
        [policy],
    )?;
    db.execute("DELETE FROM kept WHERE policy = ?", [policy])
        .map(drop)
}

/// Deletes all knowledge of thompson.
pub(super) fn forget_all(db: &Connection) -> rusqlite::Result<()> {
    db.execute("DELETE FROM knowledge", [])?;
    db.execute("DELETE FROM kept", [])?;
    db.execute("DELETE FROM learner", []).map(drop)
}
