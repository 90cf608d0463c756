//! Checks whether a database can be trusted, and sets aside one that cannot.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rusqlite::{Connection, TransactionBehavior};

use super::{APPLICATION_ID, SCHEMA_VERSION, StateError, knowledge, rows};

/// Memory for pages, in KiB. A save touches each page once, so more would not help.
const CACHE_KIB: i64 = 256;

/// Ensures that the file exists and is readable and writable. It names the host's peers, so only its owner
/// may read it.
pub(super) fn prepare_file(path: &Path) -> Result<(), StateError> {
    let unusable = |source| StateError::Unusable {
        path: path.to_owned(),
        source,
    };
    if let Some(directory) = path
        .parent()
        .filter(|directory| !directory.as_os_str().is_empty())
    {
        match fs::DirBuilder::new()
            .recursive(true)
            .mode(0o755)
            .create(directory)
        {
            // The parent exists and is no directory: opening the file gives the better error.
            Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(unusable(error)),
            _ => (),
        }
    }
    let options = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .mode(0o600)
        .to_owned();
    let file = options.open(path).map_err(unusable)?;
    if !file.metadata().map_err(unusable)?.is_file() {
        return Err(unusable(std::io::Error::new(
            ErrorKind::InvalidInput,
            "it is not a regular file",
        )));
    }
    Ok(())
}

/// Sets the connection up and checks the whole database. The inner error is the reason not to trust it. An
/// empty file gets its tables.
pub(super) fn check(db: &mut Connection) -> rusqlite::Result<Result<(), String>> {
    db.pragma_update(None, "cache_size", -CACHE_KIB)?;
    db.pragma_update(None, "cell_size_check", true)?;
    db.pragma_update(None, "trusted_schema", false)?;
    // Not FULL: a power cut could bring the journal of a finished transaction back, and with it the state before.
    db.pragma_update(None, "synchronous", "EXTRA")?;
    db.pragma_update_and_check(None, "journal_mode", "DELETE", |_| Ok(()))?;
    // Writers wait for each other here, so two simultaneous starts do not both create the tables.
    let transaction = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let pragma =
        |name: &str| transaction.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    let (version, application) = (pragma("user_version")?, pragma("application_id")?);
    let objects: i64 =
        transaction.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    if (version, application, objects) == (0, 0, 0) {
        transaction.execute_batch(rows::SCHEMA)?;
        transaction.execute_batch(knowledge::SCHEMA)?;
        transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
        transaction.pragma_update(None, "user_version", SCHEMA_VERSION)?;
        transaction.execute(
            "INSERT INTO meta VALUES ('created_by', ?)",
            [env!("CARGO_PKG_VERSION")],
        )?;
        return transaction.commit().map(Ok);
    }
    // The file itself is writable, so wrong version bytes in its header make it read-only.
    if transaction.is_readonly("main")? {
        return Ok(Err("its header is damaged".to_owned()));
    }
    if application != APPLICATION_ID {
        return Ok(Err("it is a database of another program".to_owned()));
    }
    if version > SCHEMA_VERSION {
        return Ok(Err(format!(
            "a newer tcpilot wrote it: schema {version}, this one knows {SCHEMA_VERSION}"
        )));
    }
    if version != SCHEMA_VERSION {
        return Ok(Err(format!("there is no schema {version}")));
    }
    let found: String = transaction.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
    if found != "ok" {
        return Ok(Err(format!(
            "the database is damaged: {}",
            found.replace('\n', " ")
        )));
    }
    match rows::all(&transaction) {
        Ok(_) => {
            transaction.execute_batch(knowledge::SCHEMA)?; // a file of an older tcpilot lacks these tables
            transaction.commit().map(Ok)
        }
        Err(rows::RowsError::Broken(why)) => Ok(Err(why)),
        Err(rows::RowsError::Database(error)) => Err(error),
    }
}

/// Renames the file, and its journal with it, to an unused name; returns the new name.
pub(super) fn set_aside(path: &Path, now_unix_s: u64) -> Result<PathBuf, StateError> {
    let unusable = |source| StateError::Unusable {
        path: path.to_owned(),
        source,
    };
    let names = (0..1000).map(|i| match i {
        0 => with_suffix(path, &format!(".corrupt-{now_unix_s}")),
        _ => with_suffix(path, &format!(".corrupt-{now_unix_s}-{i}")),
    });
    for aside in names {
        // Creating a file fails if the name exists; renaming would overwrite the file.
        match OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&aside)
        {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => continue,
            Err(error) => return Err(unusable(error)),
            Ok(_) => (),
        }
        move_with_journal(path, &aside).map_err(unusable)?;
        return Ok(aside);
    }
    Err(unusable(std::io::Error::new(
        ErrorKind::AlreadyExists,
        "too many files set aside beside it",
    )))
}

/// Renames a database and its journal. A database without its journal would look sound although it is not.
/// So the journal has both names until the database has its new one: a crash, or an error, leaves the pair
/// together under the former name or under the new one.
///
/// If the former name of the journal outlives the database, SQLite removes it: it never uses a journal for a
/// database without pages, and [`prepare_file`] makes such a one.
fn move_with_journal(path: &Path, aside: &Path) -> std::io::Result<()> {
    let (journal, beside) = (
        with_suffix(path, "-journal"),
        with_suffix(aside, "-journal"),
    );
    let has_journal = match copy(&journal, &beside) {
        Err(error) if error.kind() == ErrorKind::NotFound => false,
        copied => copied.map(|()| true)?,
    };
    sync_folder(path)?;
    if let Err(error) = fs::rename(path, aside) {
        let _ = fs::remove_file(beside);
        let _ = fs::remove_file(aside);
        return Err(error);
    }
    if has_journal {
        sync_folder(path)?;
        fs::remove_file(journal)?;
    }
    Ok(())
}

/// Gives a file a second name, or if the file system knows no such names, copies it.
fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    match fs::hard_link(from, to) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            fs::copy(from, to)?;
            File::open(to)?.sync_all()
        }
        linked => linked,
    }
}

/// Writes the changes of names in a file's folder to disk before later ones.
fn sync_folder(path: &Path) -> std::io::Result<()> {
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    PathBuf::from(name)
}
