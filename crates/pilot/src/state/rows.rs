//! Paths as rows: the key in columns, the measures as JSON, and a checksum over both.
//!
//! SQLite checks its own structure but not the content of a row. A flipped bit in a cost would steer
//! connections, so each row has a checksum of its content.

use rusqlite::types::{Type, ValueRef};
use rusqlite::{Connection, Row, params};

use super::{StateError, Store, StoredPath};

/// Maximum number of paths on disk; the latest are kept. It is four times the default of `paths_max`, about
/// 50 MB, so the next start still knows paths evicted by the kernel.
pub const MAX_PATHS: usize = 65536;

/// The tables.
pub(super) const SCHEMA: &str = "
    CREATE TABLE meta (key TEXT PRIMARY KEY, value ANY NOT NULL) STRICT, WITHOUT ROWID;
    CREATE TABLE path (
        netns TEXT NOT NULL,
        prefix TEXT NOT NULL,
        policy TEXT NOT NULL,
        updated_unix_s INTEGER NOT NULL,
        measures TEXT NOT NULL,
        checksum INTEGER NOT NULL,
        PRIMARY KEY (netns, prefix, policy)
    ) STRICT, WITHOUT ROWID;
";

/// Why the rows cannot be read.
pub(super) enum RowsError {
    /// SQLite reports an error.
    Database(rusqlite::Error),
    /// A row has changed since it was written.
    Broken(String),
}

impl From<rusqlite::Error> for RowsError {
    fn from(error: rusqlite::Error) -> RowsError {
        RowsError::Database(error)
    }
}

impl RowsError {
    pub(super) fn or(self, store: &Store) -> StateError {
        match self {
            RowsError::Database(error) => store.error(error),
            RowsError::Broken(why) => StateError::Damaged {
                path: store.path.clone(),
                why,
            },
        }
    }
}

/// All paths, the latest first.
pub(super) fn all(db: &Connection) -> Result<Vec<StoredPath>, RowsError> {
    let mut statement =
        db.prepare("SELECT netns, prefix, policy, updated_unix_s, measures, checksum FROM path")?;
    let mut rows = statement.query([])?;
    let mut paths = Vec::new();
    while let Some(row) = rows.next()? {
        paths.push(read(row)?);
    }
    paths.sort_by_key(|path| std::cmp::Reverse(path.updated_unix_s));
    Ok(paths)
}

fn read(row: &Row<'_>) -> Result<StoredPath, RowsError> {
    let broken = |why: String| RowsError::Broken(format!("a row is damaged: {why}"));
    let text = |column: usize| match row.get_ref(column)? {
        ValueRef::Text(bytes) => std::str::from_utf8(bytes).map_err(|error| {
            rusqlite::Error::FromSqlConversionFailure(column, Type::Text, error.into())
        }),
        other => Err(rusqlite::Error::InvalidColumnType(
            column,
            String::new(),
            other.data_type(),
        )),
    };
    let columns = || Ok::<_, rusqlite::Error>((text(0)?, text(1)?, text(2)?, text(4)?));
    let (netns, prefix, policy, measures) = columns().map_err(|error| broken(error.to_string()))?;
    let numbers = || Ok::<_, rusqlite::Error>((row.get::<_, i64>(3)?, row.get::<_, i64>(5)?));
    let (updated_unix_s, sum) = numbers().map_err(|error| broken(error.to_string()))?;
    if sum != checksum(&[netns, prefix, policy, measures], updated_unix_s) {
        return Err(broken("its checksum is wrong".to_owned()));
    }
    let path: StoredPath =
        serde_json::from_str(measures).map_err(|error| broken(error.to_string()))?;
    path.fault().map_or(Ok(path), |fault| Err(broken(fault)))
}

/// Writes paths, and replaces those with the same key.
pub(super) fn upsert(db: &Connection, paths: &[StoredPath]) -> rusqlite::Result<()> {
    let mut statement = db.prepare(
        "INSERT OR REPLACE INTO path (netns, prefix, policy, updated_unix_s, measures, checksum)
         VALUES (?, ?, ?, ?, ?, ?)",
    )?;
    for path in paths {
        let prefix = path.prefix.to_string();
        let measures = serde_json::to_string(path)
            .map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))?;
        let updated = i64::try_from(path.updated_unix_s).unwrap_or(i64::MAX);
        let sum = checksum(&[&path.netns, &prefix, &path.policy, &measures], updated);
        statement.execute(params![
            path.netns,
            prefix,
            path.policy,
            updated,
            measures,
            sum
        ])?;
    }
    Ok(())
}

/// Deletes rows last updated before this time, and the oldest beyond [`MAX_PATHS`].
pub(super) fn forget(db: &Connection, oldest_unix_s: u64) -> rusqlite::Result<()> {
    let oldest = i64::try_from(oldest_unix_s).unwrap_or(i64::MAX);
    db.execute("DELETE FROM path WHERE updated_unix_s < ?", [oldest])?;
    let count: i64 = db.query_row("SELECT count(*) FROM path", [], |row| row.get(0))?;
    if count <= MAX_PATHS as i64 {
        return Ok(());
    }
    db.execute(
        "DELETE FROM path WHERE (netns, prefix, policy) IN
         (SELECT netns, prefix, policy FROM path ORDER BY updated_unix_s LIMIT ?)",
        [count - MAX_PATHS as i64],
    )?;
    Ok(())
}

/// FNV-1a over the texts, each followed by an end mark, and the time.
fn checksum(texts: &[&str], updated_unix_s: i64) -> i64 {
    let bytes = texts.iter().flat_map(|text| text.bytes().chain([0xff]));
    let bytes = bytes.chain(updated_unix_s.to_le_bytes());
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    hash as i64
}
