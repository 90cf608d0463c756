//! The state file: a full disk, a vanished file, imports, and content that does not fit.

use std::{
    fs,
    path::Path,
    thread,
    time::{SystemTime, UNIX_EPOCH},
};

use serde_json::{Value, json};
use tcpilot_tests::{FAR, Lab, Place, until};

use crate::{ALWAYS_BBR, tuning::tuned};

/// Runs `f` on a thread with a small file system of its own at `dir`; a daemon started by it sees this one,
/// too.
fn with_small_disk(dir: &Path, f: impl FnOnce() + Send) {
    let target = std::ffi::CString::new(dir.to_str().unwrap()).unwrap();
    let enter = move || {
        let none = std::ptr::null();
        // SAFETY: plain system calls about this thread's mounts; all texts end with 0.
        unsafe {
            assert_eq!(libc::unshare(libc::CLONE_NEWNS), 0);
            let private = libc::MS_REC | libc::MS_PRIVATE;
            assert_eq!(
                libc::mount(none, c"/".as_ptr(), none, private, none.cast()),
                0
            );
            let (kind, size) = (c"tmpfs".as_ptr(), c"size=128k".as_ptr());
            assert_eq!(libc::mount(kind, target.as_ptr(), kind, 0, size.cast()), 0);
        }
        f();
    };
    thread::scope(|scope| scope.spawn(enter).join().unwrap());
}

#[test]
fn full_disk_pauses_saving_until_space_returns() {
    let lab = Lab::new();
    let disk = lab.dir.path().join("disk");
    fs::create_dir(&disk).unwrap();
    std::os::unix::fs::symlink("disk/state.db", lab.dir.path().join("state.db")).unwrap();
    let often = format!("{ALWAYS_BBR}\n[state]\nsave_interval_s = 1\n");
    with_small_disk(&disk, || {
        let filling = disk.join("filling");
        let full = fs::write(&filling, vec![0; 1 << 20]).unwrap_err();
        assert_eq!(full.kind(), std::io::ErrorKind::StorageFull);
        let pilot = lab.pilot(&often);
        lab.upload(FAR, 1, 100_000);
        pilot.wait_closed(1);
        let degraded = pilot.status()["degraded"].to_string();
        assert!(degraded.contains("the disk is full"), "{degraded}");
        fs::remove_file(&filling).unwrap();
        until("it saves", || {
            pilot.log().contains("is saved again").then_some(())
        });
        assert_eq!(
            pilot.log().matches("the disk is full").count(),
            1,
            "{}",
            pilot.log()
        );
        assert_eq!(pilot.end(libc::SIGKILL).status, None);
        let pilot = lab.pilot(&often);
        assert_eq!(pilot.path(FAR)["connections"], 1);
        assert_eq!(pilot.end(libc::SIGTERM).status, Some(0));
    });
}

#[test]
fn reload_on_full_disk_is_refused() {
    let lab = Lab::new();
    let disk = lab.dir.path().join("disk");
    fs::create_dir(&disk).unwrap();
    std::os::unix::fs::symlink("disk/state.db", lab.dir.path().join("state.db")).unwrap();
    with_small_disk(&disk, || {
        let filling = disk.join("filling");
        let pilot = lab.pilot(ALWAYS_BBR);
        fs::write(&filling, vec![0; 1 << 20]).unwrap_err();
        lab.upload(FAR, 1, 100_000);
        pilot.wait_closed(1);
        pilot.signal(libc::SIGHUP);
        pilot.wait_for_take_overs(0, 1);
        let problem = pilot.status()["take_overs"]["problems"][0].to_string();
        assert!(problem.contains("the disk is full"), "{problem}");
        assert_eq!(pilot.path(FAR)["connections"], 1);
        fs::remove_file(&filling).unwrap();
        pilot.signal(libc::SIGHUP);
        pilot.wait_for_take_overs(1, 1);
        assert_eq!(pilot.path(FAR)["connections"], 1);
        lab.upload(FAR, 1, 100_000);
        pilot.wait_closed(2);
        assert_eq!(pilot.end(libc::SIGTERM).status, Some(0));
    });
}

#[test]
fn vanished_state_is_recreated_and_failed_save_reported() {
    let lab = Lab::new();
    let file = lab.dir.path().join("state.db");
    let pilot = lab.pilot(ALWAYS_BBR);
    lab.upload(FAR, 1, 100_000);
    pilot.wait_closed(1);
    state(&lab, "show"); // saves
    fs::remove_file(&file).unwrap();
    assert_eq!(pilot.end(libc::SIGTERM).status, Some(0));
    let pilot = lab.pilot(ALWAYS_BBR);
    assert_eq!(pilot.path(FAR)["connections"], 1);
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    let ended = pilot.end(libc::SIGTERM);
    assert_eq!(ended.status, Some(1));
    let [line] = ended.errors()[..] else {
        panic!("{}", ended.stderr)
    };
    assert!(
        line.contains("not saved") && line.contains("state.db"),
        "{line}"
    );
}

/// Runs `tcpilot state …` on the files of a daemon, running or not; returns the output.
pub fn state(lab: &Lab, arguments: &str) -> String {
    try_state(lab, arguments).unwrap_or_else(|message| panic!("{arguments}: {message}"))
}

/// The same; returns the message if it fails.
pub fn try_state(lab: &Lab, arguments: &str) -> Result<String, String> {
    let mut command = Place::here().command("tcpilot");
    command.arg("state").args(arguments.split(' '));
    for (option, file) in [("--state", "state.db"), ("--socket", "control.sock")] {
        command.arg(option).arg(lab.dir.path().join(file));
    }
    let output = command.output().unwrap();
    match output.status.success() {
        true => Ok(String::from_utf8(output.stdout).unwrap()),
        false => Err(String::from_utf8(output.stderr).unwrap()),
    }
}

/// A path of the state file, as the tunings save it.
pub fn stored_path(prefix: &str, updated_unix_s: u64) -> Value {
    json!({"netns": "host", "prefix": prefix, "policy": "default", "updated_unix_s": updated_unix_s,
        "min_rtt_us": 0, "srtt_us": 0, "max_delivery_rate": 0, "sent_packets": 0, "lost_packets": 0,
        "instances": 1, "connections": 1, "algorithms": []})
}

pub fn import(lab: &Lab, paths: &[Value]) {
    let file = lab.dir.path().join("import.json");
    fs::write(
        &file,
        json!({"tcpilot_state": 1, "paths": paths}).to_string(),
    )
    .unwrap();
    state(lab, &format!("import {}", file.display()));
}

/// The time of the system's clock.
pub fn now_unix_s() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_secs()
}

/// Only tunings have a table of paths, extended by a running daemon.
#[test]
fn an_import_changes_no_other_path() {
    let lab = Lab::new();
    let pilot = lab.pilot(&tuned("\"initial-window\""));
    lab.upload(FAR, 1, 100_000);
    pilot.wait_closed(1);
    state(&lab, "show"); // saves
    lab.upload(FAR, 2, 100_000);
    pilot.wait_closed(3);
    // More than fit into a question.
    let paths: Vec<Value> = (0..2500)
        .map(|i| stored_path(&format!("11.{}.{}.0/24", i / 256, i % 256), now_unix_s()))
        .collect();
    import(&lab, &paths);
    let export: Value = serde_json::from_str(&state(&lab, "export")).unwrap();
    let paths = export["paths"].as_array().unwrap();
    for (prefix, connections) in [(FAR, 3), ("11.0.9.0/24", 1), ("11.9.9.0/24", 1)] {
        let path = paths.iter().find(|path| path["prefix"] == prefix);
        assert_eq!(path.unwrap()["connections"], connections, "{prefix}");
    }
}

#[test]
fn unused_path_keeps_its_last_use_time() {
    let lab = Lab::new();
    // Before this host was booted, on most hosts.
    let then = now_unix_s() - 6 * 86400;
    import(&lab, &[stored_path("192.0.2.0/24", then)]);
    let pilot = lab.pilot(&tuned("\"initial-window\""));
    assert!(pilot.log().contains("stored=1 paths=1"), "{}", pilot.log());
    assert_eq!(pilot.end(libc::SIGTERM).status, Some(0));
    let export: Value = serde_json::from_str(&state(&lab, "export")).unwrap();
    assert_eq!(export["paths"][0]["updated_unix_s"], then);
}

#[test]
fn it_says_how_many_stored_paths_found_room() {
    let lab = Lab::new();
    let paths: Vec<Value> = (0..200)
        .map(|i| stored_path(&format!("11.0.{i}.0/24"), now_unix_s()))
        .collect();
    import(&lab, &paths);
    let pilot = lab.pilot(&format!("paths_max = 64\n{}", tuned("\"initial-window\"")));
    let log = pilot.log();
    let told = log.split("stored=200 paths=").nth(1);
    let there = told.and_then(|rest| rest.split_whitespace().next()?.parse().ok());
    assert!(matches!(there, Some(1..=64)), "{log}");
}
