//! Agents and a real nats-server: rights, certificates, and faults. Without a server in PATH the tests say so and pass.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod server;
#[path = "../support/mod.rs"]
mod support;

use std::cell::Cell;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use server::{Authority, Server, is_missing, merger_rights, rights};
use support::{
    Process, Stops, arguments, command, heard, host, know, knowledge, name, output, round, run,
    settings, state_dir, status, wait_until,
};
use tcpilot_fleet_agent::agent::Agent;
use tcpilot_fleet_agent::clock::boot_s;
use tcpilot_fleet_agent::key::Key;
use tcpilot_fleet_agent::merge_agent::MergeAgent;
use tcpilot_fleet_agent::settings::{Engine, Settings};
use tcpilot_fleet_agent::status::Status;
use tcpilot_fleet_agent::store::nats::NatsStore;
use tcpilot_fleet_agent::store::{Store, StoreError, VALUE_BYTES_MAX};

/// A fleet with a server that knows `a`, `b` and `reader`, and has its bucket.
struct Fleet {
    root: tempfile::TempDir,
    server: Server,
}

fn store(settings: &Settings) -> NatsStore {
    let Engine::Nats {
        servers,
        bucket,
        identity,
    } = &settings.engine
    else {
        panic!("no server in the settings");
    };
    let identity = identity.as_ref();
    NatsStore::new(servers, bucket, identity, &settings.host, settings.timeout)
}

impl Fleet {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let server = Server::start(root.path(), &["a", "b", "reader"]);
        Self { root, server }.with_bucket()
    }

    fn on_disk(size: &'static str) -> Self {
        let root = tempfile::tempdir().unwrap();
        let users = [rights("a"), rights("reader")];
        let server = Server::start_with(root.path(), &users, Some(size));
        Self { root, server }.with_bucket()
    }

    fn with_bucket(self) -> Self {
        let (path, _) = self.host("admin");
        let (is_good, text) = output(&path, "init");
        assert!(is_good, "{text}");
        self
    }

    fn folder(&self, host: &str) -> PathBuf {
        state_dir(self.root.path(), host)
    }

    fn host(&self, host: &str) -> (PathBuf, Settings) {
        settings(&self.folder(host), &self.server.settings(host))
    }

    fn store(&self, host: &str) -> NatsStore {
        store(&self.host(host).1)
    }

    fn agent(&self, host: &str) -> Agent<NatsStore> {
        Agent::new(self.host(host).1, self.store(host)).unwrap()
    }
}

fn key(of: &str, number: u16) -> Key {
    Key::shard(&host(of), &name("bulk"), number)
}

#[test]
fn newest_acknowledged_value_is_read_back() {
    if is_missing() {
        return;
    }
    let fleet = Fleet::new();
    let (a, b) = (fleet.store("a"), fleet.store("b"));
    run(async {
        assert_eq!(b.get(&key("a", 1)).await, Ok(None));
        let before_s = tcpilot_fleet_agent::clock::unix_s();
        for value in [&b"old"[..], &[7; VALUE_BYTES_MAX]] {
            a.put(&key("a", 1), value).await.unwrap();
            let entry = b.get(&key("a", 1)).await.unwrap().unwrap();
            assert_eq!(entry.value, value);
            assert!(
                (entry.written_s - before_s).abs() < 10.0,
                "{}",
                entry.written_s
            );
        }
        let long = a
            .put(&key("a", 1), &[7; VALUE_BYTES_MAX + 1])
            .await
            .unwrap_err();
        assert_eq!(long.reason(), "too_large");
        assert!(a.hosts(&name("fra1")).await.unwrap().is_empty());
        for (store, host_name) in [(&b, "b"), (&a, "a")] {
            let manifest = Key::manifest(&host(host_name));
            store.put(&manifest, b"x").await.unwrap();
        }
        assert_eq!(
            a.hosts(&name("fra1")).await.unwrap(),
            [host("a"), host("b")]
        );
        assert!(a.hosts(&name("fra2")).await.unwrap().is_empty());
    });
}

#[test]
fn a_host_cannot_write_for_another() {
    if is_missing() {
        return;
    }
    let fleet = Fleet::new();
    let a = fleet.store("a");
    run(async {
        let start = Instant::now();
        let refused = a.put(&key("b", 1), b"x").await.unwrap_err();
        assert!(matches!(refused, StoreError::Denied(_)), "{refused}");
        assert!(
            start.elapsed() < Duration::from_millis(900),
            "without waiting for an answer"
        );
        a.put(&key("a", 1), b"x").await.unwrap();
        assert_eq!(a.get(&key("b", 1)).await, Ok(None));
    });
}

#[test]
fn check_proves_both_rights() {
    if is_missing() {
        return;
    }
    let fleet = Fleet::new();
    let (path, _) = fleet.host("a");
    let (is_good, text) = output(&path, "check");
    assert!(is_good, "{text}");
    for line in [
        "ok    connected to nats://127.0.0.1",
        "ok    wrote and read h.fra1.a.check",
        "ok    was refused h.fra1.tcpilot-fleet-check.check",
        "ok    this host's clock differs from the engine's by",
        "ok    0 other hosts of fra1",
    ] {
        assert!(text.contains(line), "{line}:\n{text}");
    }
    // The administrator may write all keys, so it is no host of a fleet.
    let (path, _) = fleet.host("admin");
    let (is_good, text) = output(&path, "check");
    assert!(
        !is_good && text.contains("FAIL  may write h.fra1.tcpilot-fleet-check.check"),
        "{text}"
    );
}

/// What `check` says with these settings.
fn check(root: &Path, text: &str) -> String {
    let folder = state_dir(root, "checked");
    let (path, _) = settings(&folder, text);
    let (is_good, text) = output(&path, "check");
    assert!(!is_good, "{text}");
    assert_eq!(text.trim_end().lines().count(), 1, "{text}");
    text
}

#[test]
fn wrong_certificates_are_named_with_a_remedy() {
    if is_missing() {
        return;
    }
    let fleet = Fleet::new();
    let (server, root) = (&fleet.server, fleet.root.path());
    let (cert, key) = server.authority.issue("a", &[]);
    let foreign = Authority::new(&root.join("foreign"));
    let (foreign_cert, foreign_key) = foreign.issue("a", &[]);
    let ca = server.authority.ca();
    let (unknown_cert, unknown_key) = server.authority.issue("unknown", &[]);

    let text = check(root, &server.settings_with("a", &foreign.ca(), &cert, &key));
    assert!(
        text.contains("the server's certificate is not signed by ca_file"),
        "{text}"
    );
    let text = check(
        root,
        &server.settings_with("a", &ca, &foreign_cert, &foreign_key),
    );
    assert!(
        text.contains("the server refuses this host's certificate"),
        "{text}"
    );
    let text = check(
        root,
        &server.settings_with("a", &ca, &unknown_cert, &unknown_key),
    );
    assert!(text.contains("knows no user of this certificate"), "{text}");
    let other_name = server.settings_with("a", &ca, &cert, &key);
    let text = check(root, &other_name.replace("127.0.0.1", "localhost"));
    assert!(text.contains("for another name"), "{text}");
    let text = check(
        root,
        &server.settings_with("a", &ca, &root.join("none"), &key),
    );
    assert!(
        text.contains("cert_file = ") && text.contains("No such file"),
        "{text}"
    );
    fs::set_permissions(&key, std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
    let text = check(root, &server.settings_with("a", &ca, &cert, &key));
    assert!(text.contains("everybody can read the key"), "{text}");
    let bare = "place = \"fra1\"\nhost = \"a\"\ninsecure = true\ntimeout_s = 1\n";
    let bare = format!("store = \"nats://127.0.0.1:{}\"\n{bare}", server.port);
    let text = check(root, &bare);
    assert!(text.contains("trust each other"), "{text}");
}

#[test]
fn a_server_without_its_bucket_is_named() {
    if is_missing() {
        return;
    }
    let root = tempfile::tempdir().unwrap();
    let server = Server::start(root.path(), &["a"]);
    let text = check(root.path(), &server.settings("a"));
    assert!(text.contains("runs `tcpilot-fleet init`"), "{text}");
    let gone = server.settings("a").replace(&server.port.to_string(), "1");
    let text = check(root.path(), &gone);
    assert!(text.contains("cannot be reached"), "{text}");
}

#[test]
fn hosts_hear_each_other_by_nats() {
    if is_missing() {
        return;
    }
    let fleet = Fleet::new();
    know(&fleet.folder("a"), &knowledge(0..2000, 0.3));
    know(&fleet.folder("b"), &knowledge(1000..3000, 0.3));
    know(&fleet.folder("reader"), &knowledge([], 0.0));
    run(async {
        for host in ["a", "b", "reader"] {
            round(&mut fleet.agent(host)).await.unwrap();
        }
    });
    let means = heard(&fleet.folder("reader"));
    assert_eq!(means.len(), 3000);
    assert!(means.values().all(|mean| (mean - 0.3).abs() < 0.01));
}

#[test]
fn acknowledged_puts_survive_kills_of_the_server() {
    if is_missing() {
        return;
    }
    let mut fleet = Fleet::new();
    let mut acknowledged = [0u64; 64];
    let mut counter = 0u64;
    for turn in 0..12 {
        let a = fleet.store("a");
        let after = Duration::from_millis(30 + 37 * turn);
        std::thread::scope(|scope| {
            let server = &mut fleet.server;
            scope.spawn(move || {
                std::thread::sleep(after);
                server.kill();
            });
            run(async {
                loop {
                    counter += 1;
                    let number = (counter % 64) as u16;
                    match a.put(&key("a", number), &counter.to_le_bytes()).await {
                        Ok(()) => acknowledged[usize::from(number)] = counter,
                        Err(_) => break,
                    }
                }
            });
        });
        fleet.server.begin();
        let a = fleet.store("a");
        run(async {
            for (number, known) in acknowledged
                .iter()
                .enumerate()
                .filter(|(_, known)| **known > 0)
            {
                let start = Instant::now();
                let entry = loop {
                    match a.get(&key("a", number as u16)).await {
                        Ok(entry) => break entry.unwrap(),
                        Err(error) => assert!(start.elapsed() < Duration::from_secs(30), "{error}"),
                    }
                    tokio::time::sleep(Duration::from_millis(100)).await;
                };
                let found = u64::from_le_bytes(entry.value.try_into().unwrap());
                // The one that was under way when the server died may be there, too.
                assert!(
                    found == *known || found == counter,
                    "turn {turn}: {found}, {known}"
                );
            }
        });
    }
    assert!(counter > 500, "only {counter} puts");
}

#[test]
fn an_agent_killed_between_any_two_steps_harms_nothing() {
    if is_missing() {
        return;
    }
    let fleet = Fleet::new();
    know(&fleet.folder("reader"), &knowledge([], 0.0));
    for killed_after in 0..16 {
        let mean = 0.1 + 0.3 * f64::from(killed_after % 2);
        know(
            &fleet.folder("a"),
            &knowledge((0..10).map(|i| i << 8), mean),
        );
        run(async {
            let store = fleet.store("a");
            let stops = Stops {
                store: &store,
                calls_left: Cell::new(killed_after),
            };
            let mut agent = Agent::new(fleet.host("a").1, stops).unwrap();
            let saying = agent.say(boot_s());
            let _ = tokio::time::timeout(Duration::from_millis(700), saying).await;
            drop(agent);
            round(&mut fleet.agent("reader")).await.unwrap();
            let means = heard(&fleet.folder("reader"));
            assert!(
                means.is_empty() || means.len() == 10,
                "{killed_after}: {means:?}"
            );
            fleet.agent("a").say(boot_s()).await.unwrap();
            let mut reader = fleet.agent("reader");
            round(&mut reader).await.unwrap();
            assert!(reader.status(boot_s()).heard.refused.is_empty());
        });
        let means = heard(&fleet.folder("reader"));
        assert_eq!(means.len(), 10);
        assert!(
            means.values().all(|found| (found - mean).abs() < 0.02),
            "{means:?}"
        );
    }
}

#[test]
fn only_an_administrator_has_a_host_forgotten() {
    if is_missing() {
        return;
    }
    let fleet = Fleet::new();
    know(&fleet.folder("a"), &knowledge(0..10, 0.3));
    know(&fleet.folder("reader"), &knowledge([], 0.0));
    let forget = |by: &str, whom: &str| {
        let (path, _) = fleet.host(by);
        arguments(&path, &["forget", whom])
    };
    let (is_good, text) = forget("admin", "a");
    assert!(!is_good && text.contains("nothing of h.fra1.a"), "{text}");
    run(async {
        let (mut a, mut reader) = (fleet.agent("a"), fleet.agent("reader"));
        round(&mut a).await.unwrap();
        round(&mut reader).await.unwrap();
        assert_eq!(heard(&fleet.folder("reader")).len(), 10);

        let (is_good, text) = forget("b", "a");
        assert!(
            !is_good && text.contains("administrator's certificate"),
            "{text}"
        );
        round(&mut reader).await.unwrap();
        assert_eq!(heard(&fleet.folder("reader")).len(), 10, "b may not");

        let (is_good, text) = forget("admin", "a");
        assert!(is_good && text.starts_with("a is forgotten"), "{text}");
        round(&mut a).await.unwrap();
        round(&mut reader).await.unwrap();
        assert_eq!(heard(&fleet.folder("reader")).len(), 0);
        let (_, text) = output(&fleet.host("reader").0, "status");
        let refused = reader.status(boot_s()).heard.refused;
        assert_eq!(refused["forgotten"], 1, "{text}");

        drop(a);
        round(&mut fleet.agent("a")).await.unwrap();
        round(&mut reader).await.unwrap();
        assert_eq!(heard(&fleet.folder("reader")).len(), 10, "after a restart");
    });
}

#[test]
fn only_mergers_write_what_a_place_says() {
    if is_missing() {
        return;
    }
    let root = tempfile::tempdir().unwrap();
    let names: Vec<String> = (0..5).map(|i| format!("h{i}")).collect();
    let users = names.iter().map(|name| rights(name));
    let users: Vec<String> = users.chain([merger_rights("merge-1")]).collect();
    let server = Server::start_with(root.path(), &users, None);
    let fleet = Fleet { root, server }.with_bucket();
    let reader = |name: &str| {
        let text = fleet.server.settings(name)
            + "hosts_max = 2
";
        Agent::new(settings(&fleet.folder(name), &text).1, fleet.store(name)).unwrap()
    };
    run(async {
        for name in &names {
            know(&fleet.folder(name), &knowledge(0..10, 0.3));
            fleet.agent(name).say(boot_s()).await.unwrap();
        }
        let merger = |name: &str| MergeAgent::new(fleet.host(name).1, fleet.store(name)).unwrap();
        let refused = merger("h4").round(boot_s()).await.unwrap_err();
        assert!(matches!(refused, StoreError::Denied(_)), "{refused}");
        merger("merge-1").round(boot_s()).await.unwrap();
        let mut agent = reader("h0");
        agent.hear(boot_s()).await.unwrap();
        assert!(agent.status(boot_s()).merged[0].by_mergers);
    });
    assert_eq!(heard(&fleet.folder("h0")).len(), 10);
    let (is_good, text) = output(&fleet.host("merge-1").0, "check");
    assert!(is_good, "{text}");
}

/// Agents `a` and `reader` as processes; `a` knows ten groups, and `reader` has heard them.
fn two_processes(fleet: &Fleet) -> (Process, Process) {
    know(&fleet.folder("a"), &knowledge((0..10).map(|i| i << 8), 0.3));
    know(&fleet.folder("reader"), &knowledge([], 0.0));
    let both = (
        Process::start(&fleet.host("a").0),
        Process::start(&fleet.host("reader").0),
    );
    wait_until("the reader hears", || {
        heard(&fleet.folder("reader")).len() == 10
    });
    both
}

fn hears(fleet: &Fleet, mean: f64) {
    know(
        &fleet.folder("a"),
        &knowledge((0..10).map(|i| i << 8), mean),
    );
    wait_until("the reader hears the new state", || {
        let means = heard(&fleet.folder("reader"));
        means.len() == 10 && means.values().all(|found| (found - mean).abs() < 0.02)
    });
}

#[test]
fn agents_outlive_kills_of_the_server() {
    if is_missing() {
        return;
    }
    let mut fleet = Fleet::new();
    let _both = two_processes(&fleet);
    for mean in [0.6, 0.1, 0.5] {
        fleet.server.kill();
        wait_until("the agent notices", || {
            status(&fleet.folder("a")).is_some_and(|status| !status.engine.reached)
        });
        assert_eq!(heard(&fleet.folder("reader")).len(), 10);
        fleet.server.begin();
        hears(&fleet, mean);
    }
}

#[test]
fn a_stopped_server_is_a_partition() {
    if is_missing() {
        return;
    }
    let fleet = Fleet::new();
    let _both = two_processes(&fleet);
    fleet.server.signal(Signal::STOP);
    for host in ["a", "reader"] {
        wait_until("the agent notices", || {
            let status = status(&fleet.folder(host));
            status.is_some_and(|status| status.engine.failed.contains_key("unreachable"))
        });
        let (is_good, text) = output(&fleet.host(host).0, "status");
        assert!(
            is_good && text.contains("engine   the engine cannot be reached"),
            "{text}"
        );
    }
    assert_eq!(
        heard(&fleet.folder("reader")).len(),
        10,
        "what was heard stays"
    );
    fleet.server.signal(Signal::CONT);
    hears(&fleet, 0.6);
}

#[test]
fn a_server_that_lost_its_data_gets_all_again() {
    if is_missing() {
        return;
    }
    let mut fleet = Fleet::new();
    let _both = two_processes(&fleet);
    fleet.server.kill();
    fleet.server.lose_data();
    fleet.server.begin();
    wait_until("the agents name the missing bucket", || {
        let status = status(&fleet.folder("a"));
        status.is_some_and(|status| status.engine.failed.contains_key("not_set_up"))
    });
    let (is_good, text) = output(&fleet.host("admin").0, "init");
    assert!(is_good, "{text}");
    hears(&fleet, 0.6);
    assert_eq!(status(&fleet.folder("a")).unwrap().said.said_again, 1);
}

#[test]
fn two_hosts_of_one_name_are_told_by_nats() {
    if is_missing() {
        return;
    }
    let fleet = Fleet::new();
    let (_a, _reader) = two_processes(&fleet);
    let other = fleet.root.path().join("agents/other");
    fs::create_dir_all(other.join("own")).unwrap();
    know(&other, &knowledge((0..10).map(|i| i << 8), 0.9));
    let (path, _) = settings(&other, &fleet.server.settings("a"));
    let _twin = Process::start(&path);
    wait_until("the reader refuses both", || {
        let status = status(&fleet.folder("reader"));
        status.is_some_and(|status| status.heard.refused.contains_key("two_hosts"))
    });
    wait_until("each of the two knows", || {
        let told = |folder: &Path| status(folder).is_some_and(|status| status.said.name_taken > 0);
        told(&fleet.folder("a")) && told(&other)
    });
}

#[test]
fn a_full_disk_of_the_server_takes_nothing_heard() {
    if is_missing() {
        return;
    }
    let mut fleet = Fleet::on_disk("8m");
    let _both = two_processes(&fleet);
    let data = fleet.server.folder.join("data");
    let inside = format!("/proc/{}/root{}", fleet.server.pid(), data.display());
    let ballast = Path::new(&inside).join("ballast");
    let mut size = 8 << 20;
    while size > 4096 && fs::write(&ballast, vec![1; size]).is_err() {
        size -= 4096;
    }
    // 4,000 groups are 70 kB, said again and again.
    let groups = || (0..100).flat_map(|i| (0..40).map(move |j| (i << 8) + j));
    let mut mean = 0.3;
    wait_until("the agent says that it failed", || {
        mean = 0.9 - mean;
        know(&fleet.folder("a"), &knowledge(groups(), mean));
        let engine = status(&fleet.folder("a")).unwrap().engine;
        engine.failed.values().sum::<u64>() >= 2
    });
    let means = heard(&fleet.folder("reader"));
    assert!(means.len() == 10 || means.len() == 4000, "{}", means.len());
    // nats-server 2.9.10 answers nothing any more, even with room again. Its disk ends with it.
    fleet.server.kill();
    fleet.server.begin();
    let (is_good, text) = output(&fleet.host("admin").0, "init");
    assert!(is_good, "{text}");
    hears(&fleet, 0.2);
}

/// Memory of a process in kB, now and at most.
fn memory(pid: u32) -> (u64, u64) {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let kb = |key: &str| {
        let line = text.lines().find(|line| line.starts_with(key)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    };
    (kb("VmRSS:"), kb("VmHWM:"))
}

/// Processor time of a process, in seconds.
fn processor_s(pid: u32) -> f64 {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = text
        .rsplit(')')
        .next()
        .unwrap()
        .split_whitespace()
        .collect();
    let ticks = |i: usize| fields[i].parse::<f64>().unwrap();
    (ticks(11) + ticks(12)) / 100.0
}

fn disk_bytes(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).unwrap().flatten();
    let sizes = entries.map(|entry| match entry.metadata() {
        Ok(found) if found.is_dir() => disk_bytes(&entry.path()),
        Ok(found) => found.len(),
        Err(_) => 0,
    });
    sizes.sum()
}

/// Many agents that have said all, one after the other. Prints the cost.
async fn all_say(fleet: &Fleet, names: &[String], prefixes: u32) -> Vec<Agent<NatsStore>> {
    let pid = fleet.server.pid();
    let (mut all, mut bytes, mut puts) = (Vec::new(), 0, 0);
    let start = Instant::now();
    for (i, name) in names.iter().enumerate() {
        // Neighbours share half of their prefixes.
        let first = i as u32 * prefixes / 2 % 450_000;
        know(
            &fleet.folder(name),
            &knowledge(first..first + prefixes, 0.3),
        );
        let mut agent = fleet.agent(name);
        agent.say(boot_s()).await.unwrap();
        let said = agent.status(boot_s()).said;
        (bytes, puts) = (bytes + said.bytes, puts + said.puts);
        all.push(agent);
    }
    let agents = names.len();
    println!(
        "{agents} agents × {prefixes} prefixes: {puts} puts, {bytes} B, {:?}",
        start.elapsed()
    );
    let ((now, most), disk) = (memory(pid), disk_bytes(&fleet.server.folder));
    println!(
        "server: {now} kB, at most {most} kB, {disk} B on disk, {} s of processor",
        processor_s(pid)
    );
    all
}

/// A merger's first round and its second one, with nothing new. Prints the cost.
fn measure_merger(fleet: &Fleet) {
    let (path, _) = fleet.host("merger");
    let (folder, pid) = (fleet.folder("merger"), fleet.server.pid());
    let (before_s, start) = (processor_s(pid), Instant::now());
    let merger = Process(command(&path, "merge").spawn().unwrap());
    let said = |status: &Status| (status.said.puts, status.said.bytes);
    let wait = |is_so: &dyn Fn(&Status) -> bool| {
        while !status(&folder).is_some_and(|status| is_so(&status)) {
            assert!(start.elapsed() < Duration::from_secs(900));
            std::thread::sleep(Duration::from_millis(100));
        }
        status(&folder).unwrap()
    };
    let first = wait(&|status| status.said_ago_s.is_some());
    let at_s = processor_s(merger.0.id());
    let (now, most) = memory(merger.0.id());
    println!(
        "merger: {:?} puts and B after {:?}, {} rows, heard {} B, {now} kB, at most {most} kB, {at_s:.1} s of processor; server {:.1} s",
        said(&first),
        start.elapsed(),
        first.said_rows,
        first.heard.bytes,
        processor_s(pid) - before_s
    );
    let puts = first.said.puts;
    let second = wait(&|status| status.said.puts > puts);
    println!(
        "a round without news: {} puts, {} B, {:.1} s of processor",
        second.said.puts - puts,
        second.said.bytes - first.said.bytes,
        processor_s(merger.0.id()) - at_s
    );
}

/// `AGENTS=200 PREFIXES=10000 cargo test -p tcpilot-fleet-agent --test nats -- --ignored --nocapture many`, with `MERGER=1`
/// for a reader behind a merger.
#[test]
#[ignore = "a measurement of minutes, which judges little"]
fn many_agents_cost() {
    let number = |key: &str, or: u32| std::env::var(key).map_or(or, |text| text.parse().unwrap());
    let (agents, prefixes) = (number("AGENTS", 200), number("PREFIXES", 10_000));
    let root = tempfile::tempdir().unwrap();
    let names: Vec<String> = (0..agents).map(|i| format!("h{i}")).collect();
    let users = names.iter().map(|name| rights(name));
    let users = users.chain([rights("reader"), merger_rights("merger")]);
    let users: Vec<String> = users.collect();
    let server = Server::start_with(root.path(), &users, None);
    let fleet = Fleet { root, server }.with_bucket();
    let pid = fleet.server.pid();
    println!("server, empty: {} kB", memory(pid).0);
    run(async {
        let mut all = all_say(&fleet, &names, prefixes).await;
        let (before_s, start) = (processor_s(pid), Instant::now());
        for agent in &mut all {
            agent.say(boot_s()).await.unwrap();
        }
        let took_s = processor_s(pid) - before_s;
        println!("nothing new: {:?}, server {took_s:.2} s", start.elapsed());
    });
    know(&fleet.folder("reader"), &knowledge(0..prefixes, 0.3));
    let has_merger = std::env::var("MERGER").is_ok();
    if has_merger {
        measure_merger(&fleet);
    }
    let reader = Process::start(&fleet.host("reader").0);
    let start = Instant::now();
    let folder = fleet.folder("reader");
    while heard(&folder).is_empty() && start.elapsed() < Duration::from_secs(300) {
        std::thread::sleep(Duration::from_millis(100));
    }
    let took = start.elapsed();
    std::thread::sleep(Duration::from_secs(5));
    let counts = status(&folder).unwrap().heard;
    let ((now, most), pid) = (memory(reader.0.id()), reader.0.id());
    println!(
        "reader: {} prefixes after {took:?}, {now} kB, at most {most} kB",
        heard(&folder).len()
    );
    println!(
        "{} gets, {} B, {:.2} s of processor",
        counts.gets,
        counts.bytes,
        processor_s(pid)
    );
    assert!(!heard(&folder).is_empty());
}
