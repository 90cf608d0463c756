//! Take-overs under load.

use std::{
    fs,
    io::Read,
    process::Stdio,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;
use tcpilot_tests::{Actor, Child, Daemon, FAR, Lab, PORT, Shape, Sink, arm, until};

use crate::ALWAYS_BBR;

fn from_environment(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |value| value.parse().unwrap())
}

/// Opens one connection after another until `stop`; returns when each was open, and whether it was steered.
fn probe(mut application: Actor, stop: &AtomicBool) -> Vec<(Instant, bool)> {
    let mut seen = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        application.tell(&format!("connect {FAR}:5300"));
        seen.push((Instant::now(), application.tell("cc") == "bbr"));
        thread::sleep(Duration::from_millis(2)); // otherwise the server's queue fills, and SYNs are lost
    }
    seen
}

/// The longest time from one new connection to the next.
fn longest_gap(seen: &[(Instant, bool)]) -> Duration {
    let gaps = seen.windows(2).map(|pair| pair[1].0 - pair[0].0);
    gaps.max().unwrap_or(Duration::MAX)
}

/// Takes over so many times; returns the time of each.
fn take_over_often(pilot: &Daemon, count: u64) -> Vec<Duration> {
    let one = |nth| {
        let begun = Instant::now();
        // A signal does the same as the command.
        if nth % 5 == 4 {
            pilot.signal(libc::SIGHUP);
            pilot.wait_for_take_overs(nth + 1, 0);
        } else {
            pilot.take_over();
        }
        begun.elapsed()
    };
    (0..count).map(one).collect()
}

/// Flowgen's own report of the held connections.
fn report_of(mut hold: Child) -> Value {
    let mut report = String::new();
    let mut stdout = hold.0.stdout.take().unwrap();
    stdout.read_to_string(&mut report).unwrap();
    serde_json::from_str(&report).unwrap()
}

/// Many connections, sending and receiving all the time.
fn hold(lab: &Lab, connections: u64, seconds: u64) -> Child {
    let mut command = lab.near().command("flowgen");
    command.args([
        "hold",
        "--to",
        &format!("{FAR}:{PORT}"),
        "--rate-bytes-per-s",
        "200",
    ]);
    command.args([
        "--connections",
        &connections.to_string(),
        "--seconds",
        &seconds.to_string(),
    ]);
    Child(command.stdout(Stdio::piped()).spawn().unwrap())
}

/// `make upgrade-test` does it 50 times with 1000 connections.
#[test]
fn upgrades_under_load_keep_and_steer_every_connection() {
    let upgrades = from_environment("UPGRADES", 5);
    let connections = from_environment("CONNECTIONS", 200);
    let lab = Lab::new();
    lab.net.shape(Shape::Of("pfifo limit 10000"));
    let _sink = Sink::new(&lab.net.far, 5300);
    let pilot = lab.pilot(&format!("{ALWAYS_BBR}\n[learner]\nbytes_min = 1000"));
    lab.upload(FAR, 1, 1_000_000);
    pilot.wait_closed(1);
    let mut hold = hold(&lab, connections, 10 + 6 * upgrades);
    until("all connections are open", || {
        (pilot.remembered().len() as u64 == connections).then_some(())
    });
    let before = pilot.remembered();
    assert_eq!(before.len() as u64, connections);
    let stop = AtomicBool::new(false);
    let (mut seen, times) = thread::scope(|scope| {
        let probe = |application| scope.spawn(|| probe(application, &stop));
        let probers: Vec<_> = (0..3).map(|_| probe(lab.actor())).collect();
        let times = take_over_often(&pilot, upgrades);
        stop.store(true, Ordering::Relaxed);
        let seen = probers.into_iter().flat_map(|p| p.join().unwrap());
        (seen.collect::<Vec<_>>(), times)
    });
    seen.sort();
    assert_eq!(pilot.take_overs(), (upgrades, 0));
    assert!(hold.0.try_wait().unwrap().is_none(), "held all the while");
    let after = pilot.remembered();
    let is_lost = |(name, flow): &(&String, &[Value; 4])| after.get(*name) != Some(*flow);
    let forgotten = before.iter().filter(is_lost).count();
    let unsteered = seen.iter().filter(|(_, steered)| !steered).count();
    let figures = format!(
        "{upgrades} take-overs with {connections} connections: {forgotten} forgotten; {} new ones, \
         at most {} ms apart, {unsteered} not steered; a take-over took {} to {} ms\n",
        seen.len(),
        longest_gap(&seen).as_millis(),
        times.iter().min().unwrap().as_millis(),
        times.iter().max().unwrap().as_millis(),
    );
    if let Ok(file) = std::env::var("FIGURES") {
        fs::write(file, figures).unwrap();
    }
    assert_eq!((forgotten, unsteered), (0, 0));
    let report = report_of(hold);
    let fate = (&report["alive_at_end"], &report["errors"]);
    assert_eq!(fate, (&connections.into(), &0.into()), "{report}");
    let all = connections + 1 + seen.len() as u64;
    pilot.wait_closed(all);
    let status = pilot.status();
    // The others carried nothing. A few of these were never busy for as long as a tick of the kernel.
    let charged = status["charged"].as_u64().unwrap();
    let rejected = &status["learning"]["rejected"]["not-busy"];
    let judged = charged + rejected.as_u64().unwrap_or_default();
    assert_eq!(judged, connections + 1, "{status}");
    assert_eq!(status["connections"]["application"], 0, "{status}");
    assert_eq!(status["connections"]["drawn"], all, "{status}");
    let path = pilot.path(FAR);
    assert_eq!(path["live_flows"], 0, "{path}");
    assert_eq!(arm(&path, "bbr")["samples"], charged, "{path}");
}
