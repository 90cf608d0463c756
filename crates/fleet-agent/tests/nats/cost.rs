//! The cost of many agents: a measurement.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use tcpilot_fleet_agent::agent::Agent;
use tcpilot_fleet_agent::clock::boot_s;
use tcpilot_fleet_agent::status::Status;
use tcpilot_fleet_agent::store::nats::NatsStore;

use crate::fleet::Fleet;
use crate::server::{Server, merger_rights, rights};
use crate::support::{Process, command, heard, know, knowledge, run, status};

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
