//! Agents that share a folder.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

#[path = "../support/mod.rs"]
mod support;

use std::cell::Cell;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use support::{
    Process, Stops, group, heard, host, know, knowledge, name, output, round, run, settings,
    state_dir, status, wait_until,
};
use tcpilot_fleet::manifest::{self, Mark, Policy};
use tcpilot_fleet::{Manifest, format, shard};
use tcpilot_fleet_agent::agent::Agent;
use tcpilot_fleet_agent::clock::boot_s;
use tcpilot_fleet_agent::forget::forget;
use tcpilot_fleet_agent::key::Key;
use tcpilot_fleet_agent::merge_agent::MergeAgent;
use tcpilot_fleet_agent::merger::{SETS, set_of};
use tcpilot_fleet_agent::settings::Settings;
use tcpilot_fleet_agent::store::Store;
use tcpilot_fleet_agent::store::dir::DirStore;

const TIMEOUT: Duration = Duration::from_secs(5);

/// A fleet's folder, and the agents' folders.
struct Fleet {
    root: tempfile::TempDir,
}

impl Fleet {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("fleet")).unwrap();
        Self { root }
    }

    fn store(&self) -> DirStore {
        DirStore::new(&self.root.path().join("fleet"), TIMEOUT).unwrap()
    }

    /// Settings of a host, and where its states are.
    fn host(&self, host: &str) -> (std::path::PathBuf, Settings) {
        let folder = state_dir(self.root.path(), host);
        settings(&folder, &self.text(host))
    }

    fn text(&self, host: &str) -> String {
        let fleet = self.root.path().join("fleet");
        format!(
            "store = \"dir:{}\"\nplace = \"fra1\"\nhost = \"{host}\"\ninsecure = true\nsay_every_s = 0.1\nhear_every_s = 0.1\npublish_bytes_per_s = 1e9\n",
            fleet.display()
        )
    }

    fn agent(&self, host: &str) -> Agent<DirStore> {
        Agent::new(self.host(host).1, self.store()).unwrap()
    }

    fn folder(&self, host: &str) -> std::path::PathBuf {
        state_dir(self.root.path(), host)
    }
}

#[test]
fn hosts_hear_each_other_and_not_themselves() {
    let fleet = Fleet::new();
    know(&fleet.folder("a"), &knowledge(0..10, 0.3));
    know(&fleet.folder("b"), &knowledge(5..15, 0.3));
    know(&fleet.folder("new"), &knowledge([], 0.0));
    run(async {
        let mut agents = [fleet.agent("a"), fleet.agent("b"), fleet.agent("new")];
        for _ in 0..2 {
            for agent in &mut agents {
                round(agent).await.unwrap();
            }
        }
    });
    let to_a = heard(&fleet.folder("a"));
    let expected: Vec<_> = (5..15).map(group).collect();
    assert_eq!(to_a.keys().copied().collect::<Vec<_>>(), expected);
    let to_new = heard(&fleet.folder("new"));
    assert_eq!(to_new.len(), 15);
    assert!(
        to_new.values().all(|mean| (mean - 0.3).abs() < 0.01),
        "{to_new:?}"
    );
}

#[test]
fn unchanged_knowledge_is_said_and_read_once() {
    let fleet = Fleet::new();
    know(&fleet.folder("a"), &knowledge(0..1000, 0.3));
    know(&fleet.folder("b"), &knowledge([], 0.0));
    run(async {
        let (mut a, mut b) = (fleet.agent("a"), fleet.agent("b"));
        for _ in 0..3 {
            round(&mut a).await.unwrap();
            round(&mut b).await.unwrap();
        }
        let (first, read) = (a.status(boot_s()).said, b.status(boot_s()).heard);
        assert!((4..=6).contains(&first.puts), "{first:?}"); // 1000 groups are four sites
        assert_eq!(read.gets, 3 + first.puts - 1, "{read:?}");
        know(&fleet.folder("a"), &knowledge(0..256, 0.5));
        round(&mut a).await.unwrap();
        round(&mut b).await.unwrap();
        let second = a.status(boot_s()).said;
        assert_eq!(
            second.puts - first.puts,
            5,
            "four changed shards and the manifest"
        );
    });
    assert_eq!(
        heard(&fleet.folder("b")).len(),
        256,
        "left-out groups are forgotten"
    );
}

/// Puts a made-up host's state with a shard of these bytes.
async fn put_raw(store: &DirStore, shard_bytes: &[u8], number: u16, sequence: u64) {
    let mut marks = vec![Mark::default(); usize::from(shard::SHARDS)];
    marks[usize::from(number)] = Mark {
        sequence,
        bytes: shard_bytes.len() as u32,
    };
    let manifest = Manifest {
        boot: 1,
        sequence: 1,
        software: "9.9".into(),
        policies: vec![Policy {
            name: name("bulk"),
            rows: 1,
            marks,
        }],
    };
    let host = host("x");
    let key = Key::shard(&host, &name("bulk"), number);
    store.put(&key, shard_bytes).await.unwrap();
    let bytes = manifest::encode(&manifest);
    store.put(&Key::manifest(&host), &bytes).await.unwrap();
}

/// A shard with one row, changed and sealed again.
fn shard_with(change: impl Fn(&mut Vec<u8>)) -> Vec<u8> {
    let mut state = knowledge([0], 0.3);
    (state.boot, state.sequence) = (1, 1);
    let mut bytes = format::encode(&state);
    bytes.truncate(bytes.len() - 8);
    change(&mut bytes);
    let sum = format::check_sum(&bytes);
    [bytes, sum.to_le_bytes().to_vec()].concat()
}

/// Bad shards by the reason for which they are refused, with the number under which they are put.
fn bad_shards() -> Vec<(&'static str, Vec<u8>, u16)> {
    let number = shard::shard_of(&group(0), shard::SHARDS);
    let row = shard_with(|_| ()).len() - 8 - 19; // a row of two algorithms has 19 bytes with its family
    let whole = shard_with(|_| ());
    let two_rows = {
        let mut state = knowledge([0, 1], 0.3);
        (state.boot, state.sequence) = (1, 1);
        let bytes = format::encode(&state);
        let (head, rows) = bytes[..bytes.len() - 8].split_at(row);
        let swapped = [head, &rows[19..], &rows[..19]].concat();
        let sum = format::check_sum(&swapped);
        [swapped, sum.to_le_bytes().to_vec()].concat()
    };
    let other_reward = {
        let mut state = knowledge([0], 0.3);
        (state.boot, state.sequence, state.reward) = (1, 1, 8);
        format::encode(&state)
    };
    vec![
        ("version", [&[1], &whole[1..]].concat(), number),
        (
            "damaged",
            [&whole[..40], &[9], &whole[41..]].concat(),
            number,
        ),
        ("cut_off", whole[..5].to_vec(), number),
        ("unordered", two_rows, number),
        ("private", shard_with(|b| b[row + 1] = 10), number),
        (
            "not_finite",
            shard_with(|b| b[row + 11..row + 15].copy_from_slice(&[0, 0, 0xc0, 0x7f])),
            number,
        ),
        (
            "implausible",
            shard_with(|b| b[row + 15..row + 19].copy_from_slice(&[0, 0, 0, 0x43])),
            number,
        ),
        ("misplaced", whole.clone(), (number + 1) % shard::SHARDS),
        ("too_large", vec![1; 131_073], number),
        ("reward", other_reward, number),
    ]
}

#[test]
fn bad_states_are_refused_by_reason() {
    let fleet = Fleet::new();
    know(&fleet.folder("reader"), &knowledge([], 0.0));
    let number = shard::shard_of(&group(0), shard::SHARDS);
    let whole = shard_with(|_| ());
    let cases = bad_shards();
    run(async {
        let mut reader = fleet.agent("reader");
        for (reason, bytes, number) in &cases {
            if *reason == "too_large" {
                put_raw(&fleet.store(), &whole, *number, 1).await;
                let path = fleet.root.path().join("fleet");
                let key = Key::shard(&host("x"), &name("bulk"), *number).to_string();
                fs::write(path.join(key), bytes).unwrap();
            } else {
                put_raw(&fleet.store(), bytes, *number, 1).await;
            }
            round(&mut reader).await.unwrap();
            let refused = reader.status(boot_s()).heard.refused;
            assert_eq!(refused.get(*reason), Some(&1), "{reason}: {refused:?}");
        }
        let mut good = knowledge([0], 0.3);
        (good.boot, good.sequence) = (1, 2);
        put_raw(&fleet.store(), &format::encode(&good), number, 2).await;
        round(&mut reader).await.unwrap();
        assert_eq!(reader.status(boot_s()).members[0].refused, None);
    });
    assert_eq!(heard(&fleet.folder("reader")).len(), 1);
}

#[test]
fn a_refused_update_leaves_the_former_one() {
    let fleet = Fleet::new();
    know(&fleet.folder("a"), &knowledge(0..3, 0.3));
    know(&fleet.folder("reader"), &knowledge([], 0.0));
    run(async {
        let (mut a, mut reader) = (fleet.agent("a"), fleet.agent("reader"));
        round(&mut a).await.unwrap();
        round(&mut reader).await.unwrap();
        let path = fleet.root.path().join("fleet/h.fra1.a.i");
        let mut manifest = fs::read(&path).unwrap();
        manifest[3] ^= 1;
        fs::write(&path, manifest).unwrap();
        round(&mut reader).await.unwrap();
        let status = reader.status(boot_s());
        assert_eq!(status.heard.refused.get("damaged"), Some(&1));
    });
    assert_eq!(heard(&fleet.folder("reader")).len(), 3);
}

#[test]
fn two_hosts_of_one_name_are_refused_and_told() {
    let fleet = Fleet::new();
    know(&fleet.folder("twin"), &knowledge(0..3, 0.3));
    know(&fleet.folder("reader"), &knowledge([], 0.0));
    let other = fleet.root.path().join("agents/other");
    fs::create_dir_all(other.join("own")).unwrap();
    know(&other, &knowledge(0..3, 0.9));
    let (_, second) = settings(&other, &fleet.text("twin"));
    run(async {
        let mut twins = [
            fleet.agent("twin"),
            Agent::new(second, fleet.store()).unwrap(),
        ];
        let mut reader = fleet.agent("reader");
        for turn in 0..6 {
            round(&mut twins[turn % 2]).await.unwrap();
            round(&mut reader).await.unwrap();
        }
        let status = reader.status(boot_s());
        let reason = status.members[0].refused.clone();
        assert_eq!(reason.as_deref(), Some("two hosts have this name"));
        assert!(status.heard.refused["two_hosts"] >= 1);
        assert!(twins[0].status(boot_s()).said.name_taken >= 2);
        let text = twins[0].status(boot_s()).to_string();
        assert!(text.contains("another host says under this name"), "{text}");
    });
    assert!(heard(&fleet.folder("reader")).is_empty());
}

#[test]
fn a_restart_without_the_engine_keeps_what_was_heard() {
    let fleet = Fleet::new();
    know(&fleet.folder("a"), &knowledge(0..3, 0.3));
    know(&fleet.folder("reader"), &knowledge([], 0.0));
    run(async {
        round(&mut fleet.agent("a")).await.unwrap();
        round(&mut fleet.agent("reader")).await.unwrap();
        for file in fs::read_dir(fleet.root.path().join("fleet")).unwrap() {
            fs::remove_file(file.unwrap().path()).unwrap();
        }
        fs::remove_file(fleet.folder("reader").join("heard/bulk.state")).unwrap();
        round(&mut fleet.agent("reader")).await.unwrap();
    });
    assert_eq!(heard(&fleet.folder("reader")).len(), 3);
}

#[test]
fn everything_is_said_again_when_the_engine_lost_it() {
    let fleet = Fleet::new();
    know(&fleet.folder("a"), &knowledge(0..300, 0.3));
    know(&fleet.folder("reader"), &knowledge([], 0.0));
    run(async {
        let mut a = fleet.agent("a");
        round(&mut a).await.unwrap();
        for file in fs::read_dir(fleet.root.path().join("fleet")).unwrap() {
            fs::remove_file(file.unwrap().path()).unwrap();
        }
        round(&mut a).await.unwrap();
        assert_eq!(a.status(boot_s()).said.said_again, 1);
        round(&mut fleet.agent("reader")).await.unwrap();
    });
    assert_eq!(heard(&fleet.folder("reader")).len(), 300);
}

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

#[test]
fn a_state_that_comes_later_is_heard_at_once() {
    let fleet = Fleet::new();
    let (path, _) = fleet.host("b");
    let text = fs::read_to_string(&path).unwrap();
    let seldom = text.replace("hear_every_s = 0.1", "hear_every_s = 7200");
    fs::write(&path, seldom).unwrap();
    let mut a = fleet.agent("a");
    know(&fleet.folder("a"), &knowledge(0..3, 0.5));
    run(round(&mut a)).unwrap();
    let _b = Process::start(&path);
    let folder = fleet.folder("b");
    wait_until("it runs", || {
        status(&folder).is_some_and(|s| s.uptime_s > 1.5)
    });
    know(&folder, &knowledge(5..6, 0.5));
    wait_until("the other host is heard", || heard(&folder).len() == 3);
}

#[test]
fn a_forgotten_host_is_heard_after_its_restart() {
    let fleet = Fleet::new();
    know(&fleet.folder("a"), &knowledge(0..10, 0.3));
    know(&fleet.folder("b"), &knowledge([], 0.0));
    run(async {
        let (mut a, mut b) = (fleet.agent("a"), fleet.agent("b"));
        round(&mut a).await.unwrap();
        round(&mut b).await.unwrap();
        assert_eq!(heard(&fleet.folder("b")).len(), 10);
        forget(&fleet.store(), &host("a")).await.unwrap();
        round(&mut a).await.unwrap();
        round(&mut b).await.unwrap();
        assert_eq!(heard(&fleet.folder("b")).len(), 0);
        let refused = b.status(boot_s()).members[0].refused.clone().unwrap();
        assert!(refused.starts_with("forgotten"), "{refused}");
        drop(b);
        let mut b = fleet.agent("b");
        round(&mut b).await.unwrap();
        assert_eq!(heard(&fleet.folder("b")).len(), 0, "nor after a restart");
        drop(a);
        round(&mut fleet.agent("a")).await.unwrap();
        round(&mut b).await.unwrap();
        assert_eq!(heard(&fleet.folder("b")).len(), 10);
    });
}

#[test]
fn forgetting_an_unknown_host_is_refused() {
    let fleet = Fleet::new();
    let unknown = run(async { forget(&fleet.store(), &host("a")).await.unwrap_err() });
    assert!(
        unknown.to_string().contains("nothing of h.fra1.a"),
        "{unknown}"
    );
}

#[test]
fn one_agent_has_a_state_folder() {
    let fleet = Fleet::new();
    know(&fleet.folder("a"), &knowledge([], 0.0));
    let (path, _) = fleet.host("a");
    let _first = Process::start(&path);
    wait_until("the first runs", || status(&fleet.folder("a")).is_some());
    let (is_good, text) = output(&path, "run");
    assert!(
        !is_good && text.contains("another tcpilot-fleet has"),
        "{text}"
    );
    let (is_good, text) = output(&path, "status");
    assert!(is_good && text.contains("a at fra1, running"), "{text}");
}

#[test]
fn status_says_why_a_host_is_not_merged() {
    let fleet = Fleet::new();
    know(&fleet.folder("a"), &knowledge(0..3, 0.3));
    run(async {
        round(&mut fleet.agent("a")).await.unwrap();
        let mut stranger = fleet.agent("stranger");
        round(&mut stranger).await.unwrap();
        let text = stranger.status(boot_s()).to_string();
        assert!(
            text.contains("no: it says nothing under a policy of this host"),
            "{text}"
        );
        know(&fleet.folder("stranger"), &knowledge([], 0.0));
        round(&mut stranger).await.unwrap();
        let text = stranger.status(boot_s()).to_string();
        assert!(
            text.contains("heard    bulk: 3 prefixes from 1 hosts"),
            "{text}"
        );
        assert!(text.contains("  1.00  yes"), "{text}");
    });
}

#[test]
fn check_says_that_a_folder_gives_no_rights() {
    let fleet = Fleet::new();
    let (path, _) = fleet.host("a");
    let (is_good, text) = output(&path, "check");
    assert!(
        is_good && text.contains("warn  a folder gives no rights by host"),
        "{text}"
    );
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace("insecure = true\n", "")).unwrap();
    let (is_good, text) = output(&path, "check");
    assert!(
        !is_good && text.contains("FAIL  a folder gives no rights by host"),
        "{text}"
    );
    let (is_good, text) = output(&path, "run");
    assert!(!is_good && text.contains("set insecure = true"), "{text}");
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

#[test]
fn more_hosts_than_sixteen_are_left_out_aloud() {
    let fleet = Fleet::new();
    know(&fleet.folder("reader"), &knowledge([], 0.0));
    run(async {
        for i in 0..20 {
            let name = format!("h{i}");
            know(&fleet.folder(&name), &knowledge([i], 0.3));
            round(&mut fleet.agent(&name)).await.unwrap();
        }
        let mut reader = fleet.agent("reader");
        round(&mut reader).await.unwrap();
        let status = reader.status(boot_s());
        assert_eq!((status.members.len(), status.heard.left_out), (16, 4));
    });
    assert_eq!(heard(&fleet.folder("reader")).len(), 16);
}

#[test]
fn a_liar_among_five_moves_little() {
    let fleet = Fleet::new();
    know(&fleet.folder("reader"), &knowledge([], 0.0));
    run(async {
        for i in 0..5 {
            let name = format!("h{i}");
            let mean = if i == 0 { 3.0 } else { 0.3 };
            know(&fleet.folder(&name), &knowledge(0..50, mean));
            round(&mut fleet.agent(&name)).await.unwrap();
        }
        let mut reader = fleet.agent("reader");
        round(&mut reader).await.unwrap();
        let status = reader.status(boot_s());
        let liar = status.members.iter().find(|member| member.host == "h0");
        assert!(
            liar.unwrap().trust.is_none_or(|trust| trust < 0.1),
            "{liar:?}"
        );
    });
    let means = heard(&fleet.folder("reader"));
    assert!(
        means.values().all(|mean| (mean - 0.3).abs() < 0.1),
        "{means:?}"
    );
}

/// A place of seven hosts whose readers hear two hosts themselves. Each host knows the groups of all, and ten of its own.
struct Large {
    fleet: Fleet,
}

const LARGE: [&str; 7] = ["h0", "h1", "h2", "h3", "h4", "h5", "h6"];

/// Groups that only this host knows, in a site of their own.
fn only_of(number: u32) -> std::ops::Range<u32> {
    256 * (number + 1)..256 * (number + 1) + 10
}

impl Large {
    fn new() -> Self {
        let fleet = Fleet::new();
        let large = Self { fleet };
        for (i, name) in (0u32..).zip(LARGE) {
            let groups = (0..50).chain(only_of(i));
            know(&large.fleet.folder(name), &knowledge(groups, 0.3));
            run(large.agent(name).say(boot_s())).unwrap();
        }
        large
    }

    /// An agent that hears two hosts themselves.
    fn agent(&self, name: &str) -> Agent<DirStore> {
        let text = self.fleet.text(name) + "hosts_max = 2\n";
        let (_, settings) = settings(&self.fleet.folder(name), &text);
        Agent::new(settings, self.fleet.store()).unwrap()
    }

    /// A merger's round: what it has put.
    fn merge(&self, name: &str) -> u64 {
        let mut merger = MergeAgent::new(self.fleet.host(name).1, self.fleet.store()).unwrap();
        run(merger.round(boot_s())).unwrap();
        let status = merger.status(boot_s());
        assert_eq!((status.members.len(), status.merged[0].hosts), (7, 7));
        assert_eq!(status.merged[0].rows, 50 + 70);
        status.said.puts
    }

    /// The files that mergers write.
    fn merged(&self) -> std::collections::BTreeMap<String, Vec<u8>> {
        let files = fs::read_dir(self.fleet.root.path().join("fleet")).unwrap();
        let files = files
            .flatten()
            .map(|file| (file.file_name().into_string().unwrap(), file.path()));
        let merged = files.filter(|(name, _)| name.starts_with("m.fra1."));
        merged
            .map(|(name, path)| (name, fs::read(path).unwrap()))
            .collect()
    }
}

#[test]
fn hosts_of_a_large_place_hear_its_mergers() {
    let large = Large::new();
    let mut before = large.agent("h1");
    run(before.hear(boot_s())).unwrap();
    assert_eq!(before.status(boot_s()).heard.left_out, 4);
    drop(before);
    large.merge("merge-1");
    for (i, name) in (0u32..).zip(LARGE) {
        let mut agent = large.agent(name);
        run(agent.hear(boot_s())).unwrap();
        let status = agent.status(boot_s());
        let heard_of = &status.merged[0];
        assert_eq!((heard_of.by_mergers, status.heard.left_out), (true, 0));
        assert!(status.members.is_empty());
        // The places' common groups, those of the hosts of other sets, and nothing that it said alone.
        let means = heard(&large.fleet.folder(name));
        let others = (0u32..).zip(LARGE);
        let others = others.filter(|(_, other)| set_of(other) != set_of(name));
        let groups = (0..50).chain(others.flat_map(|(other, _)| only_of(other)));
        let expected: Vec<_> = groups.map(group).collect();
        assert_eq!(
            means.keys().copied().collect::<Vec<_>>(),
            expected,
            "{name}"
        );
        assert!(only_of(i).all(|own| !means.contains_key(&group(own))));
        let common = (0..50).map(|i| means[&group(i)]);
        assert!(
            common.into_iter().all(|mean| (mean - 0.3).abs() < 0.01),
            "{means:?}"
        );
        // Unchanged, it is not read again.
        let gets = status.heard.gets;
        run(agent.hear(boot_s())).unwrap();
        assert_eq!(agent.status(boot_s()).heard.gets, gets + 1);
    }
}

#[test]
fn two_mergers_put_the_same_bytes() {
    let large = Large::new();
    large.merge("merge-1");
    let one = large.merged();
    assert!(one.len() > usize::from(SETS));
    // Later, and from nothing.
    std::thread::sleep(Duration::from_millis(1200));
    for name in one.keys() {
        fs::remove_file(large.fleet.root.path().join("fleet").join(name)).unwrap();
    }
    large.merge("merge-2");
    assert_eq!(large.merged(), one);
    // With all there, a merger puts its manifests only.
    assert_eq!(large.merge("merge-1"), u64::from(SETS));
    assert_eq!(large.merged(), one);
}

#[test]
fn hosts_hear_each_other_again_without_mergers() {
    let large = Large::new();
    large.merge("merge-1");
    let mut agent = large.agent("h0");
    run(round(&mut agent)).unwrap();
    assert!(agent.status(boot_s()).merged[0].by_mergers);
    let two_hours_ago = std::time::SystemTime::now() - Duration::from_secs(7200);
    for name in large.merged().keys().filter(|name| name.ends_with(".i")) {
        let file = fs::File::open(large.fleet.root.path().join("fleet").join(name)).unwrap();
        file.set_modified(two_hours_ago).unwrap();
    }
    run(agent.hear(boot_s())).unwrap();
    let status = agent.status(boot_s());
    assert!(!status.merged[0].by_mergers);
    assert_eq!((status.members.len(), status.heard.left_out), (2, 4));
}

#[test]
fn mergers_drop_a_forgotten_host() {
    let large = Large::new();
    large.merge("merge-1");
    run(forget(&large.fleet.store(), &host("h3"))).unwrap();
    let mut merger = MergeAgent::new(large.fleet.host("merge-1").1, large.fleet.store()).unwrap();
    run(merger.round(boot_s())).unwrap();
    let other = LARGE
        .iter()
        .find(|name| set_of(name) != set_of("h3"))
        .unwrap();
    run(large.agent(other).hear(boot_s())).unwrap();
    let means = heard(&large.fleet.folder(other));
    assert!(only_of(3).all(|own| !means.contains_key(&group(own))));
    assert!(means.contains_key(&group(7)));
}
