//! Measures the cost of a running daemon's learner; run it as root:
//!
//!     flood PID RECORDS_PER_SECOND SECONDS [PATHS [ARMS]]
//!
//! It writes records of made-up connections into the daemon's ring, and prints the daemon's processor time, its
//! memory and its maps' memory meanwhile. The connections are to 1000 addresses, ten in each /24, and two
//! algorithms take turns. With 0 seconds it writes as many records as there are PATHS, and prints the daemon's time
//! for all of them.
#![allow(clippy::unwrap_used, reason = "a measurement that fails says so")]

use std::{
    fs,
    time::{Duration, Instant},
};

use tcpilot_tests::flood::{Flood, Peers, maps_of};

/// Less than the ring holds.
const AT_ONCE: u32 = 40_000;

/// Seconds of processor time used by the threads of a process.
fn spent_s(pid: u32) -> f64 {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    let of_task = |task: fs::DirEntry| -> Option<f64> {
        let text = fs::read_to_string(task.path().join("schedstat")).ok()?;
        text.split(' ').next()?.parse().ok()
    };
    tasks.filter_map(of_task).sum::<f64>() / 1e9
}

/// Megabytes of this kind in /proc/PID/status.
fn memory_mb(pid: u32, kind: &str) -> f64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with(kind)).unwrap();
    let kb: f64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kb / 1000.0 * 1.024
}

fn maps_mb(pid: u32) -> f64 {
    maps_of(pid)
        .iter()
        .map(|(_, bytes)| *bytes as f64)
        .sum::<f64>()
        / 1e6
}

/// Writes the records of all paths once, as fast as the daemon takes them.
fn fill(pid: u32, flood: &mut Flood, paths: u32) {
    let mut left = paths;
    while left > 0 {
        let count = left.min(AT_ONCE);
        flood.write(count);
        left -= count;
        settle(pid);
    }
}

/// Waits until the daemon is almost idle.
fn settle(pid: u32) {
    loop {
        let before = spent_s(pid);
        std::thread::sleep(Duration::from_millis(100));
        if spent_s(pid) - before < 0.02 {
            return;
        }
    }
}

fn main() {
    let given: Vec<u32> = std::env::args()
        .skip(1)
        .map(|word| word.parse().unwrap())
        .collect();
    let [pid, rate, seconds, ref more @ ..] = given[..] else {
        eprintln!("usage: flood PID RECORDS_PER_SECOND SECONDS [PATHS [ARMS]]");
        std::process::exit(2);
    };
    let paths = more.first().copied().unwrap_or(1000);
    let peers = Peers {
        paths,
        per_group: 10,
        arms: more.get(1).copied().unwrap_or(2),
    };
    let mut flood = Flood::new(pid, peers);
    let (before, begun) = (spent_s(pid), Instant::now());
    match seconds {
        0 => fill(pid, &mut flood, paths),
        _ => flood.write_steadily(rate, Duration::from_secs(seconds.into())),
    }
    let (spent, passed) = (spent_s(pid) - before, begun.elapsed().as_secs_f64());
    let (written, dropped) = (flood.written(), flood.dropped());
    println!("{written} records in {passed:.1} s, {dropped} of them found no room");
    println!(
        "daemon: {:.2} % of a processor, {:.1} us for each record",
        100.0 * spent / passed,
        1e6 * spent / f64::from(written)
    );
    println!(
        "memory: {:.0} MB of the daemon's own, {:.0} MB of its maps",
        memory_mb(pid, "RssAnon:"),
        maps_mb(pid)
    );
}
