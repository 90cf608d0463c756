//! The file of the census: an SQLite database with a row per hour, device, protocol, group and algorithm. It holds no
//! addresses. Rows older than a day are removed at each save if the wall clock has been right for an hour, so the file
//! stays small: at most 8 groups times the models' names for each device and hour.
//!
//! Several processes may keep their devices' census in one file.

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use rusqlite::{Connection, OpenFlags, TransactionBehavior, params};
use tcpilot_kernel::{
    file,
    wall_clock::{Now, WallClock},
};
use tcpilot_show::failure::Failure;

use super::tally::{Kind, Sum};
use crate::link::{Group, Protocol};

/// The hours of a day, the current one included.
const HOURS: i64 = 24;
const HOUR_S: i64 = 3600;
/// Distinguishes our files from others: "TCPc".
const APPLICATION_ID: i64 = 0x5443_5063;
const VERSION: i64 = 2;
const BUSY: Duration = Duration::from_secs(2);
const TABLE: &str = "CREATE TABLE census (
    hour INTEGER NOT NULL, device TEXT NOT NULL, protocol TEXT NOT NULL, flow_group TEXT NOT NULL, algorithm TEXT NOT NULL,
    since INTEGER NOT NULL, flows INTEGER NOT NULL, bytes INTEGER NOT NULL, drops INTEGER NOT NULL,
    PRIMARY KEY (hour, device, protocol, flow_group, algorithm)) WITHOUT ROWID";
/// Version 1 had no protocols: its group of UDP had QUIC, too.
const FROM_VERSION_1: &str = "INSERT INTO census SELECT hour, device,
    CASE flow_group WHEN 'udp' THEN 'udp' ELSE 'tcp' END, flow_group, algorithm, since, flows, bytes, drops
    FROM census_1; DROP TABLE census_1";

/// The census of a day, as the file has it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Day {
    /// The sums.
    pub sums: Vec<(Kind, Sum)>,
    /// When the first row began, in seconds since 1970.
    pub since: Option<i64>,
}

/// The open file.
pub struct Store {
    path: PathBuf,
    db: Connection,
    wall: WallClock,
}

/// Seconds since 1970.
pub fn now_s() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |time| time.as_secs() as i64)
}

fn hour(at_s: i64) -> i64 {
    at_s - at_s.rem_euclid(HOUR_S)
}

fn first_hour(at_s: i64) -> i64 {
    hour(at_s) - (HOURS - 1) * HOUR_S
}

impl Store {
    /// Opens the file to write, or begins it. A damaged file, or one without a census, is renamed
    /// to `FILE.corrupt-SECONDS`, and another one is begun.
    ///
    /// # Errors
    /// The file cannot be used.
    pub fn open(path: &Path) -> Result<Store, Failure> {
        let folder = path
            .parent()
            .filter(|folder| !folder.as_os_str().is_empty());
        if let Some(folder) = folder {
            fs::create_dir_all(folder).map_err(|e| Failure::of_file(path, &e))?;
        }
        let refused = |why: &dyn std::fmt::Display| Failure::of_file(path, why);
        match Store::try_open(path) {
            Ok(store) => Ok(store),
            Err(Trouble::Unusable(error)) => Err(refused(&error)),
            Err(Trouble::NoFile(error)) => Err(refused(&error)),
            Err(Trouble::Damaged(why)) => {
                let mut aside = path.as_os_str().to_owned();
                aside.push(format!(".corrupt-{}", now_s()));
                fs::rename(path, &aside).map_err(|error| refused(&error))?;
                let aside = Path::new(&aside).display();
                tracing::warn!(%why, "the census could not be used: set aside as {aside}");
                Store::try_open(path).map_err(|trouble| refused(&trouble))
            }
        }
    }

    fn try_open(path: &Path) -> Result<Store, Trouble> {
        file::open(path, true).map_err(Trouble::NoFile)?;
        let path_in_folder = file::without_links(path).map_err(Trouble::NoFile)?;
        let flags = OpenFlags::default() | OpenFlags::SQLITE_OPEN_NOFOLLOW;
        let mut db = Connection::open_with_flags(path_in_folder, flags)?;
        db.busy_timeout(BUSY)?;
        db.pragma_update(None, "trusted_schema", false)?;
        let change = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let pragma = |name: &str| change.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
        let marks = (pragma("application_id")?, pragma("user_version")?);
        let count = "SELECT count(*) FROM sqlite_schema";
        let tables: i64 = change.query_row(count, [], |row| row.get(0))?;
        match (marks, tables) {
            ((0, 0), 0) => {
                change.execute_batch(TABLE)?;
                change.pragma_update(None, "application_id", APPLICATION_ID)?;
                change.pragma_update(None, "user_version", VERSION)?;
            }
            ((APPLICATION_ID, 1), _) => {
                change.execute_batch("ALTER TABLE census RENAME TO census_1")?;
                change.execute_batch(TABLE)?;
                change.execute_batch(FROM_VERSION_1)?;
                change.pragma_update(None, "user_version", VERSION)?;
            }
            ((APPLICATION_ID, VERSION), _) => {}
            ((APPLICATION_ID, version), _) => {
                return Err(Trouble::Damaged(format!("its version is {version}")));
            }
            _ => return Err(Trouble::Damaged("it is no census".to_owned())),
        }
        change.commit()?;
        let check: String = db.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
        if check != "ok" {
            return Err(Trouble::Damaged(check));
        }
        let store = Store {
            path: path.to_owned(),
            db,
            wall: WallClock::default(),
        };
        store.day(now_s())?; // reads every row, to notice an unreadable file
        Ok(store)
    }

    /// Opens an existing file to read.
    ///
    /// # Errors
    /// There is no census in it.
    pub fn read(path: &Path) -> Result<Day, Failure> {
        let refused = |why: &dyn std::fmt::Display| {
            let mut failure = Failure::of_file(path, why);
            failure.remedy = "`tcpilot watch DEV --census` keeps a census".to_owned();
            failure
        };
        fs::metadata(path).map_err(|error| refused(&error))?;
        let db = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY);
        let db = db.map_err(|error| refused(&error))?;
        db.busy_timeout(BUSY).map_err(|error| refused(&error))?;
        let store = Store {
            path: path.to_owned(),
            db,
            wall: WallClock::default(),
        };
        store.day(now_s()).map_err(|error| refused(&error))
    }

    /// Adds the sums of a time to the hour of its end, and removes hours older than a day once the wall clock
    /// has proved right.
    ///
    /// # Errors
    /// The file cannot be written; nothing was added.
    pub fn add(&mut self, more: &[(Kind, Sum)], from_s: i64, at: Now) -> Result<(), Failure> {
        let path = self.path.clone();
        let added = self.try_add(more, from_s, at);
        added.map_err(|error| Failure::of_file(&path, &error))
    }

    fn try_add(&mut self, more: &[(Kind, Sum)], from_s: i64, at: Now) -> rusqlite::Result<()> {
        let at_s = at.unix_s as i64;
        let ages_count = self.wall.may_judge_age(at);
        let change = self
            .db
            .transaction_with_behavior(TransactionBehavior::Immediate)?;
        if ages_count {
            change.execute("DELETE FROM census WHERE hour < ?", [first_hour(at_s)])?;
        }
        for (kind, sum) in more {
            change.execute(
                "INSERT INTO census VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET
                 flows = flows + excluded.flows, bytes = bytes + excluded.bytes, drops = drops + excluded.drops",
                params![
                    hour(at_s),
                    kind.device,
                    kind.protocol.word(),
                    kind.group.word(),
                    kind.algorithm.as_deref().unwrap_or_default(),
                    from_s.max(hour(at_s)),
                    sum.flows as i64,
                    sum.bytes as i64,
                    sum.drops as i64,
                ],
            )?;
        }
        change.commit()
    }

    /// The sums of the hour of `at_s` and the 23 hours before it.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn day(&self, at_s: i64) -> rusqlite::Result<Day> {
        let mut query = self.db.prepare(
            "SELECT device, flow_group, algorithm, sum(flows), sum(bytes), sum(drops), min(since), protocol
             FROM census WHERE hour BETWEEN ? AND ? GROUP BY device, protocol, flow_group, algorithm",
        )?;
        let mut rows = query.query([first_hour(at_s), hour(at_s)])?;
        let mut day = Day::default();
        while let Some(row) = rows.next()? {
            let count = |at: usize| row.get::<_, i64>(at).map(|n| u64::try_from(n).unwrap_or(0));
            let name: String = row.get(2)?;
            let kind = Kind {
                device: row.get(0)?,
                protocol: Protocol::from_word(&row.get::<_, String>(7)?).unwrap_or(Protocol::Tcp),
                group: Group::from_word(&row.get::<_, String>(1)?),
                algorithm: Some(name).filter(|name| !name.is_empty()),
            };
            let (flows, bytes, drops) = (count(3)?, count(4)?, count(5)?);
            day.sums.push((
                kind,
                Sum {
                    flows,
                    bytes,
                    drops,
                },
            ));
            let since = row.get(6)?;
            day.since = Some(day.since.map_or(since, |first| first.min(since)));
        }
        Ok(day)
    }
}

/// Why a file cannot be opened.
#[derive(Debug, thiserror::Error)]
enum Trouble {
    #[error("{0}")]
    Unusable(rusqlite::Error),
    #[error("{0}")]
    NoFile(std::io::Error),
    #[error("{0}")]
    Damaged(String),
}

impl From<rusqlite::Error> for Trouble {
    fn from(error: rusqlite::Error) -> Trouble {
        use rusqlite::ErrorCode as Code;
        match error.sqlite_error_code() {
            Some(Code::DatabaseCorrupt | Code::NotADatabase) => Trouble::Damaged(error.to_string()),
            Some(Code::Unknown) => Trouble::Damaged(error.to_string()), // its table has other columns
            _ => Trouble::Unusable(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(name: &str) -> Kind {
        Kind {
            device: "eth0".to_owned(),
            protocol: Protocol::Quic,
            group: Group::LossDelay,
            algorithm: Some(name.to_owned()),
        }
    }

    fn sum(bytes: u64) -> Sum {
        let drops = 2;
        Sum {
            flows: 1,
            bytes,
            drops,
        }
    }

    /// This time by the wall clock, of a host that booted an hour before noon.
    fn at(unix_s: i64) -> Now {
        Now {
            unix_s: unix_s as u64,
            boot_s: (unix_s - NOON + HOUR_S) as u64,
        }
    }

    #[test]
    fn a_wrong_clock_deletes_no_census() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("census.db");
        let years = |years: i64| NOON + years * 365 * 24 * HOUR_S;
        for year in [0, -50, -3, 2, 60] {
            let mut store = Store::open(&path).unwrap();
            for boot_s in [60, 120] {
                let unix_s = years(year) + boot_s;
                let now = Now {
                    unix_s: unix_s as u64,
                    boot_s: boot_s as u64,
                };
                store
                    .add(&[(kind("veno"), sum(10))], unix_s - 60, now)
                    .unwrap();
            }
        }
        let day = Store::open(&path).unwrap().day(NOON + HOUR_S).unwrap();
        assert_eq!(day.sums[0].1.bytes, 20);
    }

    const NOON: i64 = 1_800_000_000 - 1_800_000_000 % HOUR_S;

    #[test]
    fn sums_survive_for_one_day() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/census.db");
        let mut store = Store::open(&path).unwrap();
        for (hours, bytes) in [(0, 10), (0, 20), (5, 300), (24, 4000)] {
            let from_s = NOON + hours * HOUR_S + 9;
            let sums = [(kind("veno"), sum(bytes))];
            store.add(&sums, from_s, at(from_s + 50)).unwrap();
        }
        drop(store);
        let store = Store::open(&path).unwrap();
        let day = store.day(NOON + 24 * HOUR_S + 100).unwrap();
        assert_eq!(day.since, Some(NOON + 5 * HOUR_S + 9));
        let expected = Sum {
            flows: 2,
            bytes: 4300,
            drops: 4,
        };
        assert_eq!(day.sums, [(kind("veno"), expected)]);
        let rows: i64 = store
            .db
            .query_row("SELECT count(*) FROM census", [], |row| row.get(0))
            .unwrap();
        assert_eq!(rows, 2, "the first hour is gone from the file");
    }

    #[test]
    fn census_files_without_protocols_are_continued() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("census.db");
        let old = Connection::open(&path).unwrap();
        old.execute_batch(&format!(
            "CREATE TABLE census (hour INTEGER NOT NULL, device TEXT NOT NULL, flow_group TEXT NOT NULL,
             algorithm TEXT NOT NULL, since INTEGER NOT NULL, flows INTEGER NOT NULL, bytes INTEGER NOT NULL,
             drops INTEGER NOT NULL, PRIMARY KEY (hour, device, flow_group, algorithm)) WITHOUT ROWID;
             INSERT INTO census VALUES ({NOON}, 'eth0', 'loss', 'reno', {NOON}, 1, 70, 2);
             INSERT INTO census VALUES ({NOON}, 'eth0', 'udp', '', {NOON}, 1, 30, 0);
             PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = 1"
        ))
        .unwrap();
        drop(old);
        let mut store = Store::open(&path).unwrap();
        store
            .add(&[(kind("veno"), sum(9))], NOON, at(NOON + 5))
            .unwrap();
        let found = Store::open(&path).unwrap().day(NOON + 9).unwrap().sums;
        let found = found.iter().map(|(k, s)| (k.protocol, k.group, s.bytes));
        let expected = [
            (Protocol::Quic, Group::LossDelay, 9),
            (Protocol::Tcp, Group::Loss, 70),
            (Protocol::Udp, Group::Udp, 30),
        ];
        assert_eq!(found.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn other_files_are_set_aside() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("census.db");
        for content in [
            "no database at all, but long enough to be one".repeat(100),
            String::new(),
        ] {
            fs::write(&path, &content).unwrap();
            let mut store = Store::open(&path).unwrap();
            store
                .add(&[(kind("veno"), sum(1))], NOON - 5, at(NOON))
                .unwrap();
        }
        let names = fs::read_dir(folder.path()).unwrap().flatten();
        let names: Vec<_> = names
            .map(|e| e.file_name().into_string().unwrap())
            .collect();
        let aside = names.iter().filter(|name| name.contains(".corrupt-"));
        assert_eq!(aside.count(), 1, "{names:?}");
    }

    #[test]
    fn without_a_census_there_is_nothing_to_read() {
        let folder = tempfile::tempdir().unwrap();
        let failure = Store::read(&folder.path().join("census.db")).unwrap_err();
        assert!(failure.to_string().contains("keeps a census"), "{failure}");
    }
}
