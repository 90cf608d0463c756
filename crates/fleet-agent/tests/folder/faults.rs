//! Kills between any two steps and at random moments, and a full disk.

use std::cell::Cell;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use tcpilot_fleet::manifest;
use tcpilot_fleet_agent::agent::Agent;
use tcpilot_fleet_agent::clock::boot_s;

use crate::fleet::Fleet;
use crate::support::{
    Process, Stops, heard, know, knowledge, round, run, settings, status, wait_until,
};

/// Whether a reader hears all of the host, as it was before or as it is now.
async fn reads_whole(fleet: &Fleet, after: u32) -> usize {
    let folder = fleet.root.path().join(format!("agents/reader-{after}"));
    fs::create_dir_all(folder.join("own")).unwrap();
    know(&folder, &knowledge([], 0.0));
    let (_, settings) = settings(&folder, &fleet.text("reader"));
    let mut reader = Agent::new(settings, fleet.store()).unwrap();
    reader.hear(boot_s()).await.unwrap();
    let status = reader.status(boot_s());
    assert!(status.heard.refused.is_empty(), "{after} calls: {status:?}");
    heard(&folder).len()
}

#[test]
fn a_writer_killed_between_any_two_steps_harms_nothing() {
    let fleet = Fleet::new();
    let folder = fleet.folder("a");
    // Ten sites; at each step of each start another agent is killed, and the next begins anew.
    for killed_after in 0..24 {
        let mean = 0.1 + 0.2 * f64::from(killed_after % 2);
        know(&folder, &knowledge((0..10).map(|i| i << 8), mean));
        let store = fleet.store();
        run(async {
            let stops = Stops {
                store: &store,
                calls_left: Cell::new(killed_after),
            };
            let mut agent = Agent::new(fleet.host("a").1, stops).unwrap();
            let saying = agent.say(boot_s());
            let done = tokio::time::timeout(Duration::from_millis(300), saying).await;
            let heard = reads_whole(&fleet, killed_after).await;
            // Only a host that has never finished may be unheard, and one that is in the middle of a new boot.
            assert!(
                heard == 0 || heard == 10,
                "{killed_after} calls: {heard} groups"
            );
            assert!(done.is_err() || heard == 10, "{killed_after} calls, done");
        });
        let mut agent = fleet.agent("a");
        run(agent.say(boot_s())).unwrap();
        let heard = run(reads_whole(&fleet, 1000 + killed_after));
        assert_eq!(heard, 10, "{killed_after} calls");
    }
}

#[test]
fn a_reader_killed_between_any_two_steps_keeps_what_it_heard() {
    let fleet = Fleet::new();
    let folder = fleet.folder("reader");
    know(&folder, &knowledge([], 0.0));
    let mut writer = fleet.agent("a");
    for killed_after in 0..16 {
        let mean = 0.1 + 0.3 * f64::from(killed_after % 2);
        know(
            &fleet.folder("a"),
            &knowledge((0..10).map(|i| i << 8), mean),
        );
        run(round(&mut writer)).unwrap();
        let store = fleet.store();
        run(async {
            let stops = Stops {
                store: &store,
                calls_left: Cell::new(killed_after),
            };
            let mut agent = Agent::new(fleet.host("reader").1, stops).unwrap();
            let hearing = agent.hear(boot_s());
            let _ = tokio::time::timeout(Duration::from_millis(300), hearing).await;
        });
        let after_kill = heard(&folder);
        assert!(after_kill.is_empty() || after_kill.len() == 10);
        run(round(&mut fleet.agent("reader"))).unwrap();
        let means = heard(&folder);
        assert_eq!(means.len(), 10);
        assert!(
            means.values().all(|found| (found - mean).abs() < 0.02),
            "{means:?}"
        );
    }
}

#[test]
fn a_process_killed_at_random_moments_harms_nothing() {
    let fleet = Fleet::new();
    know(&fleet.folder("reader"), &knowledge([], 0.0));
    let (reader, _) = fleet.host("reader");
    let (writer, _) = fleet.host("a");
    let folder = fleet.folder("a");
    for turn in 0..40 {
        let mean = 0.1 + 0.3 * f64::from(turn % 2);
        know(&folder, &knowledge((0..20).map(|i| i << 8), mean));
        let (a, b) = (Process::start(&writer), Process::start(&reader));
        std::thread::sleep(Duration::from_millis(20 + 17 * (turn % 11) as u64));
        a.kill();
        b.kill();
        let means = heard(&fleet.folder("reader"));
        assert!(means.is_empty() || means.len() == 20, "{}", means.len());
    }
    let (_a, _b) = (Process::start(&writer), Process::start(&reader));
    wait_until("the last state is heard", || {
        let means = heard(&fleet.folder("reader"));
        means.len() == 20 && means.values().all(|mean| (mean - 0.4).abs() < 0.05)
    });
    for folder in [fleet.folder("a"), fleet.folder("reader")] {
        let half = fs::read_dir(&folder).unwrap().flatten();
        let half =
            half.filter(|entry| entry.file_name().to_string_lossy().starts_with(".tcpilot-"));
        assert!(half.count() <= 1, "only what is being written now");
    }
}

/// Starts the agent in a mount namespace of its own, whose `folder` is a file system of this size.
fn start_on_small_disk(settings: &Path, folder: &Path, size: &str) -> Process {
    let mut command = Command::new("unshare");
    let script = "mount -t tmpfs -o size=$3 tmpfs \"$2\" && exec \"$0\" --config \"$1\" run";
    command.args(["--user", "--map-root-user", "--mount", "sh", "-c", script]);
    command
        .arg(env!("CARGO_BIN_EXE_tcpilot-fleet"))
        .arg(settings);
    command.arg(folder).arg(size).process_group(0);
    Process(command.stderr(std::process::Stdio::null()).spawn().unwrap())
}

#[test]
fn a_full_disk_is_told_and_overcome() {
    let fleet = Fleet::new();
    let folder = fleet.folder("a");
    let (path, _) = fleet.host("a");
    // 10,000 prefixes of two algorithms are 170 kB.
    know(&folder, &knowledge((0..100).map(|i| i << 8), 0.3));
    let disk = fleet.root.path().join("fleet");
    let process = start_on_small_disk(&path, &disk, "512k");
    let inside = format!("/proc/{}/root{}", process.0.id(), disk.display());
    let inside = Path::new(&inside);
    wait_until("the manifest is there", || {
        inside.join("h.fra1.a.i").exists()
    });
    let before = fs::read(inside.join("h.fra1.a.i")).unwrap();
    // Somebody fills the disk; then much is to be said.
    let ballast = inside.join("ballast");
    let mut size = 512 * 1024;
    while size > 4096 && fs::write(&ballast, vec![1; size]).is_err() {
        size -= 4096;
    }
    know(
        &folder,
        &knowledge(
            (0..100).flat_map(|i| (0..40).map(move |j| (i << 8) + j)),
            0.3,
        ),
    );
    wait_until("the agent says that there is no room", || {
        let status = status(&folder);
        status.is_some_and(|status| status.engine.failed.contains_key("full"))
    });
    let after = fs::read(inside.join("h.fra1.a.i")).unwrap();
    manifest::decode(&after).unwrap();
    assert_eq!(
        manifest::decode(&before).unwrap().boot,
        manifest::decode(&after).unwrap().boot
    );
    fs::remove_file(&ballast).unwrap();
    wait_until("the agent goes on", || {
        let status = status(&folder);
        status.is_some_and(|status| status.engine.reached && status.said_rows == 4000)
    });
    drop(process);
}
