//! The daemon's knowledge on disk: an embedded SQLite database, by default `/var/lib/tcpilot/state.db`.
//!
//! One process writes the database, once a minute, in one transaction. So it uses a rollback journal, not a
//! write-ahead log: between saves there is a single file, ready to be copied, and no shared memory is mapped.
//! After `kill -9` or a power cut the next open finds the last finished save, whole (`synchronous = EXTRA`).
//!
//! A database that cannot be trusted is never repaired, deleted or overwritten. tcpilot renames it and begins
//! a new one, see [`Store::open`].

pub(crate) mod age;
mod boot;
mod check;
mod exchange;
mod knowledge;
mod learned;
mod model;
mod rows;
#[cfg(test)]
pub(crate) mod simulated_disk;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rusqlite::{Connection, ErrorCode, OpenFlags};

pub use super::figures::{StoredAlgorithm, StoredPath};
pub use boot::Boot;
pub use exchange::{Exported, parse};
pub use knowledge::{Knowledge, OF_COSTS, SavedAt, SavedRow, is_of_costs};
pub use rows::MAX_PATHS;

/// The state file if the user names no other.
pub const DEFAULT_FILE: &str = "/var/lib/tcpilot/state.db";

/// The layout of the tables, in `PRAGMA user_version`.
const SCHEMA_VERSION: i64 = 1;
/// Distinguishes our databases from others: "TCPp".
const APPLICATION_ID: i64 = 0x5443_5070;
/// The longest wait for another reading or writing process.
const BUSY_TIMEOUT: Duration = Duration::from_secs(2);

/// Why the state cannot be read or written. Each message has the remedy.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// The file or its directory cannot be used.
    #[error("{}: {source}; run as root, or name a writable file with --state", path.display())]
    Unusable {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// Another process holds the database.
    #[error("{}: another process is using it; stop that process or name another file with --state", .0.display())]
    Busy(PathBuf),
    /// The disk has no room for the new state. The former one is unharmed.
    #[error("{}: the disk is full; free some space, the last save is unharmed", .0.display())]
    Full(PathBuf),
    /// A document to import cannot be used; nothing was changed.
    #[error("not imported, nothing was changed: {0}")]
    Document(String),
    /// An export could not be written.
    #[error("cannot write the export: {0}")]
    Export(#[source] std::io::Error),
    /// The database went bad while it was open. The next start sets it aside.
    #[error("{}: {why}; restart tcpilot to set it aside and begin a new one", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The damage.
        why: String,
    },
    /// Any other error of SQLite.
    #[error("{}: {source}", path.display())]
    Database {
        /// The file.
        path: PathBuf,
        /// SQLite's error.
        source: rusqlite::Error,
    },
}

impl StateError {
    /// Whether the disk has no room for the state.
    pub fn is_full(&self) -> bool {
        match self {
            StateError::Full(_) => true,
            StateError::Unusable { source, .. } => source.kind() == std::io::ErrorKind::StorageFull,
            _ => false,
        }
    }
}

/// A renamed database that could not be trusted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetAside {
    /// Its new name.
    pub path: PathBuf,
    /// The reason not to trust it.
    pub reason: String,
}

impl std::fmt::Display for SetAside {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (reason, path) = (&self.reason, self.path.display());
        write!(
            f,
            "the state could not be used ({reason}): set aside as {path}, starting afresh"
        )
    }
}

/// The open state.
#[derive(Debug)]
pub struct Store {
    path: PathBuf,
    db: Connection,
    /// The policies with an unfinished save of all knowledge, in parts.
    whole: BTreeSet<String>,
}

impl Store {
    /// Opens the state in this file, or begins a new one if the file does not exist.
    ///
    /// A file is set aside if it is no database of ours, if it is damaged, or if a newer tcpilot wrote it.
    /// It is then renamed with its journal to `<file>.corrupt-<seconds since 1970>`, a new one is begun, and
    /// the return value has the new name and the reason.
    ///
    /// # Errors
    /// The file cannot be used, or another process holds it.
    pub fn open(path: &Path) -> Result<(Store, Option<SetAside>), StateError> {
        check::prepare_file(path)?;
        match open_checked(path)? {
            Ok(store) => Ok((store, None)),
            Err(reason) => {
                let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
                let aside = check::set_aside(path, since_1970.unwrap_or_default().as_secs())?;
                check::prepare_file(path)?;
                let store = open_checked(path)?.map_err(|why| StateError::Damaged {
                    path: path.to_owned(),
                    why,
                })?;
                Ok((
                    store,
                    Some(SetAside {
                        path: aside,
                        reason,
                    }),
                ))
            }
        }
    }

    /// The paths, the latest first. [`crate::state::age::is_fresh`] finds their usable measures.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn load(&self) -> Result<Vec<StoredPath>, StateError> {
        rows::all(&self.db).map_err(|error| error.or(self))
    }

    /// Writes these paths, and replaces the ones of the same namespace, prefix and policy. Deletes paths last
    /// used before `oldest_unix_s`, and the oldest of more than [`MAX_PATHS`]. Writes the learners' changes. Does all
    /// of it or nothing: parts of two saves would be read as one.
    ///
    /// # Errors
    /// The database cannot be written.
    pub fn save<'a>(
        &mut self,
        paths: &[StoredPath],
        oldest_unix_s: u64,
        knowledge: impl IntoIterator<Item = &'a Knowledge>,
    ) -> Result<(), StateError> {
        self.write(knowledge, |transaction| {
            rows::upsert(transaction, paths)?;
            rows::forget(transaction, oldest_unix_s)
        })
    }

    /// Forgets everything; returns how many paths there were.
    ///
    /// # Errors
    /// The database cannot be written.
    pub fn reset(&mut self) -> Result<usize, StateError> {
        let result = (|| {
            let transaction = self
                .db
                .transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
            let paths = transaction.execute("DELETE FROM path", [])?;
            knowledge::forget_all(&transaction)?;
            transaction.commit().map(|()| paths)
        })();
        result.map_err(|error| self.error(error))
    }

    fn error(&self, error: rusqlite::Error) -> StateError {
        classify(&self.path, error)
    }
}

/// Opens and checks a file; the inner error is the reason not to trust it.
fn open_checked(path: &Path) -> Result<Result<Store, String>, StateError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let opened = connect(path, flags).and_then(|mut db| {
        db.busy_timeout(BUSY_TIMEOUT)?;
        let verdict = check::check(&mut db)?;
        Ok((db, verdict))
    });
    match opened {
        Ok((db, Ok(()))) => Ok(Ok(Store {
            path: path.to_owned(),
            db,
            whole: BTreeSet::new(),
        })),
        Ok((_, Err(reason))) => Ok(Err(reason)),
        Err(error) => match classify(path, error) {
            StateError::Damaged { why, .. } => Ok(Err(why)),
            other => Err(other),
        },
    }
}

fn connect(path: &Path, flags: OpenFlags) -> rusqlite::Result<Connection> {
    #[cfg(test)]
    if simulated_disk::is_set() {
        return Connection::open_with_flags_and_vfs(path, flags, simulated_disk::NAME);
    }
    Connection::open_with_flags(path, flags)
}

fn classify(path: &Path, error: rusqlite::Error) -> StateError {
    let path = path.to_owned();
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StateError::Busy(path),
        Some(ErrorCode::DiskFull) => StateError::Full(path),
        Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => {
            StateError::Unusable {
                path,
                source: std::io::Error::other(error.to_string()),
            }
        }
        // Unknown is SQLITE_ERROR: our statements are right, so a table or column is wrong. No code means a
        // column of an unexpected type.
        Some(
            ErrorCode::DatabaseCorrupt
            | ErrorCode::NotADatabase
            | ErrorCode::TypeMismatch
            | ErrorCode::Unknown,
        )
        | None => StateError::Damaged {
            path,
            why: error.to_string(),
        },
        // Other errors, such as an I/O error, are the disk's or the file system's: the file may be sound.
        Some(_) => StateError::Database {
            path,
            source: error,
        },
    }
}
