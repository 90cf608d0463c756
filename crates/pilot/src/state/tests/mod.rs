//! Saving and loading lose no knowledge.

mod damage;
mod knowledge;

use std::fs;
use std::process::{Command, Stdio};

use super::*;

const NOW: u64 = 1_700_000_000;
const WEEK: u64 = 7 * 86400;

#[allow(clippy::needless_update, reason = "another figure needs no line here")]
fn path(i: u32) -> StoredPath {
    let algorithm = |name: &str, cost| StoredAlgorithm {
        name: name.to_owned(),
        cost,
        samples: i,
        chosen: i + 1,
        greedy: i,
        max_delivery_rate: 125_000 * u64::from(i),
        min_rtt_us: 900 + i,
        ..Default::default()
    };
    StoredPath {
        netns: if i % 2 == 0 {
            "host".to_owned()
        } else {
            "blue".to_owned()
        },
        prefix: tcpilot_core::Prefix::around(
            std::net::Ipv4Addr::from(0x0a00_0000 + i * 256).into(),
            24,
        ),
        policy: "default".to_owned(),
        updated_unix_s: NOW - u64::from(i),
        min_rtt_us: 900 + i,
        srtt_us: 1000 + i,
        max_delivery_rate: 125_000 * u64::from(i),
        sent_packets: 1 << 40,
        lost_packets: 3,
        instances: i,
        connections: u64::from(i) * 2,
        algorithms: vec![algorithm("cubic", 1_710_535), algorithm("bbr", u64::MAX)],
        ..Default::default()
    }
}

fn paths(n: u32) -> Vec<StoredPath> {
    (1..=n).map(path).collect()
}

/// A directory and the state file in it, with these paths.
fn stored(paths: &[StoredPath]) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("state.db");
    let (mut store, aside) = Store::open(&file).unwrap();
    assert_eq!(aside, None);
    store.save(paths, NOW - WEEK, []).unwrap();
    (dir, file)
}

fn load(file: &Path) -> Vec<StoredPath> {
    let (store, aside) = Store::open(file).unwrap();
    assert_eq!(aside, None);
    store.load().unwrap()
}

#[test]
fn saved_paths_load_latest_first() {
    let (_dir, file) = stored(&paths(50));
    assert_eq!(load(&file), paths(50));
}

#[test]
fn path_replaces_only_its_namesake() {
    let (_dir, file) = stored(&paths(3));
    let newer = StoredPath {
        updated_unix_s: NOW,
        instances: 99,
        ..path(2)
    };
    let (mut store, _) = Store::open(&file).unwrap();
    store
        .save(std::slice::from_ref(&newer), NOW - WEEK, [])
        .unwrap();
    assert_eq!(store.load().unwrap(), [newer, path(1), path(3)]);
}

#[test]
fn namespace_and_policy_tell_paths_apart() {
    let other_netns = StoredPath {
        netns: "4026531840".to_owned(),
        ..path(1)
    };
    let other_policy = StoredPath {
        policy: "web".to_owned(),
        ..path(1)
    };
    let (_dir, file) = stored(&[path(1), other_netns, other_policy]);
    assert_eq!(load(&file).len(), 3);
}

#[test]
fn old_paths_are_forgotten_by_a_save() {
    let (_dir, file) = stored(&paths(3));
    let (mut store, _) = Store::open(&file).unwrap();
    assert_eq!(store.load().unwrap().len(), 3);
    store.save(&[], NOW - 2, []).unwrap();
    assert_eq!(store.load().unwrap(), [path(1), path(2)]);
}

#[test]
fn latest_of_too_many_paths_stay() {
    let extra = 5;
    let (_dir, file) = stored(&paths(MAX_PATHS as u32 + extra));
    let loaded = load(&file);
    assert_eq!(loaded.len(), MAX_PATHS);
    assert_eq!(loaded.last(), Some(&path(MAX_PATHS as u32)));
}

#[test]
fn reset_forgets_everything() {
    let (_dir, file) = stored(&paths(3));
    let (mut store, _) = Store::open(&file).unwrap();
    assert_eq!(store.reset().unwrap(), 3);
    assert!(store.load().unwrap().is_empty());
}

#[test]
fn file_is_private_and_alone_at_rest() {
    use std::os::unix::fs::PermissionsExt;
    let (dir, file) = stored(&paths(3));
    assert_eq!(
        fs::metadata(&file).unwrap().permissions().mode() & 0o777,
        0o600
    );
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn a_missing_directory_is_made() {
    let dir = tempfile::tempdir().unwrap();
    Store::open(&dir.path().join("a/b/state.db")).unwrap();
}

#[test]
fn unusable_file_says_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let error = Store::open(dir.path()).unwrap_err().to_string();
    let remedy = "run as root, or name a writable file with --state";
    assert_eq!(
        error,
        format!(
            "{}: Is a directory (os error 21); {remedy}",
            dir.path().display()
        )
    );
    fs::write(dir.path().join("file"), "").unwrap();
    let below = dir.path().join("file/state.db");
    let error = Store::open(&below).unwrap_err().to_string();
    assert_eq!(
        error,
        format!(
            "{}: Not a directory (os error 20); {remedy}",
            below.display()
        )
    );
}

#[test]
fn a_second_process_waits_and_then_says_why() {
    let (_dir, file) = stored(&paths(3));
    let (mut store, _) = Store::open(&file).unwrap();
    let other = Connection::open(&file).unwrap();
    other.execute_batch("BEGIN EXCLUSIVE").unwrap();
    let message = format!(
        "{}: another process is using it; stop that process or name another file with --state",
        file.display()
    );
    assert_eq!(
        store
            .save(&paths(1), NOW - WEEK, [])
            .unwrap_err()
            .to_string(),
        message
    );
    assert_eq!(Store::open(&file).unwrap_err().to_string(), message);
    other.execute_batch("COMMIT").unwrap();
    assert_eq!(load(&file), paths(3));
}

#[test]
fn two_stores_at_once_both_work() {
    let (_dir, file) = stored(&[]);
    let (mut one, _) = Store::open(&file).unwrap();
    let (mut two, _) = Store::open(&file).unwrap();
    one.save(&[path(1)], NOW - WEEK, []).unwrap();
    two.save(&[path(2)], NOW - WEEK, []).unwrap();
    assert_eq!(one.load().unwrap(), paths(2));
}

#[test]
fn an_export_is_imported_as_it_was() {
    let (_dir, file) = stored(&paths(5));
    let mut document = Vec::new();
    assert_eq!(
        Store::open(&file)
            .unwrap()
            .0
            .export_json(&mut document)
            .unwrap(),
        5
    );
    let document = String::from_utf8(document).unwrap();
    assert!(document.starts_with("{\"tcpilot_state\":1,\"paths\":[{"));
    let (_dir, file) = stored(&[path(7)]);
    let (mut store, _) = Store::open(&file).unwrap();
    store.import_all(&parse(&document).unwrap()).unwrap();
    assert_eq!(store.load().unwrap(), [paths(5), vec![path(7)]].concat());
}

#[test]
fn an_export_of_an_older_version_is_read() {
    let text = serde_json::to_string(&[path(9)]).unwrap();
    let text = text.replace("\"algorithms\"", "\"arms\"");
    let document = format!("{{\"tcpilot_state\":1,\"paths\":{text}}}");
    assert_eq!(parse(&document).unwrap().paths, [path(9)]);
}

fn import(store: &mut Store, text: &str) -> Result<(), StateError> {
    store.import_all(&parse(text)?)
}

#[test]
#[allow(clippy::too_many_lines, reason = "a list of mistakes")]
fn an_import_with_anything_wrong_changes_nothing() {
    let (_dir, file) = stored(&paths(3));
    let (mut store, _) = Store::open(&file).unwrap();
    let document = |paths: &[StoredPath]| {
        format!(
            "{{\"tcpilot_state\":1,\"paths\":{}}}",
            serde_json::to_string(paths).unwrap()
        )
    };
    let good = document(&[path(9)]);
    let mut too_fast = path(9);
    too_fast.algorithms[1].max_delivery_rate = u64::MAX;
    let mut misnamed = path(9);
    misnamed.algorithms[0].name = "sixteen-letters-".to_owned();
    for (text, why) in [
        (
            String::new(),
            "this is no export of tcpilot: EOF while parsing a value at line 1 column 0",
        ),
        (
            "[]".to_owned(),
            "this is no export of tcpilot: invalid length 0, expected struct ReadDocument with 3 elements at line 1 column 2",
        ),
        (
            good.replace("state\":1", "state\":3"),
            "version 3 of the export, this tcpilot reads 1 and 2",
        ),
        (
            document(&[path(9), path(9)]),
            "path 10.0.9.0/24 stands there twice",
        ),
        (
            document(&[path(8), too_fast]),
            "path 10.0.9.0/24: algorithm bbr has an impossible delivery rate",
        ),
        (
            document(&[path(8), misnamed]),
            "path 10.0.9.0/24: `sixteen-letters-` cannot be an algorithm",
        ),
        (
            document(&[StoredPath {
                netns: String::new(),
                ..path(9)
            }]),
            "path 10.0.9.0/24: `netns` and `policy` must be names",
        ),
    ] {
        let error = import(&mut store, &text).unwrap_err().to_string();
        assert_eq!(error, format!("not imported, nothing was changed: {why}"));
    }
    for cut in 0..good.len() {
        assert!(import(&mut store, &good[..cut]).is_err(), "{cut}");
    }
    let misspelt = good.replace("instances", "instanses");
    assert!(import(&mut store, &misspelt).is_err());
    let with_host = good.replace("10.0.9.0/24", "10.0.9.1/24");
    assert!(import(&mut store, &with_host).is_err());
    let bad = StoredPath {
        netns: String::new(),
        ..path(9)
    };
    assert!(store.import(&[path(8), bad]).is_err());
    assert_eq!(store.load().unwrap(), paths(3));
}

const WRITER_FILE: &str = "TCPILOT_TEST_WRITER_FILE";

/// Not a test of its own: the next test kills this process.
#[test]
fn writer_that_is_killed() {
    let Some(file) = std::env::var_os(WRITER_FILE) else {
        return;
    };
    let (mut store, _) = Store::open(Path::new(&file)).unwrap();
    for instances in 0.. {
        let all: Vec<StoredPath> = paths(400)
            .into_iter()
            .map(|path| StoredPath { instances, ..path })
            .collect();
        store.save(&all, NOW - WEEK, []).unwrap();
    }
}

#[test]
fn killed_writer_never_leaves_a_mixture() {
    let (_dir, file) = stored(&[]);
    for round in 0..8u64 {
        let mut writer = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "state::tests::writer_that_is_killed"])
            .env(WRITER_FILE, &file)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_millis(150 + 23 * round));
        writer.kill().unwrap();
        writer.wait().unwrap();
        let loaded = load(&file);
        assert!(loaded.is_empty() || loaded.len() == 400, "{}", loaded.len());
        assert!(
            loaded
                .iter()
                .all(|path| path.instances == loaded[0].instances)
        );
        assert!(round == 0 || !loaded.is_empty());
    }
}
