//! The cost of a million paths: memory, the time per sample, and the time to go through all choice distributions.
//!
//!     cargo run --release -p tcpilot-learner --example million -- [arms] [paths] [paths per group] [sweeps]
#![allow(clippy::unwrap_used, reason = "a measurement that fails says so")]

use std::net::Ipv4Addr;

use tcpilot_learner::draw::ChoiceDist;
use tcpilot_learner::lineage::{Class, Lineage};
use tcpilot_learner::regression::Features;
use tcpilot_learner::reward::Reward;
use tcpilot_learner::{Observation, Outcome, Settings, Thompson};

/// Resident memory in megabytes.
fn resident_mb() -> f64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: f64 = statm.split(' ').nth(1).unwrap().parse().unwrap();
    pages * 4096.0 / 1e6
}

/// Seconds of processor time so far: the machine may have other work.
fn spent_s() -> f64 {
    let schedstat = std::fs::read_to_string("/proc/self/schedstat").unwrap();
    let spent_ns: f64 = schedstat.split(' ').next().unwrap().parse().unwrap();
    spent_ns / 1e9
}

fn seen(path: u32, per_group: u32, arm: usize, i: u32) -> Observation {
    let (group, host) = (path / per_group, path % per_group);
    let peer = Ipv4Addr::from(0x0b00_0000 + (group << 8) + host);
    let class = Class {
        rtt_octave: 15,
        ..Class::default()
    };
    let noise = f64::from(i.wrapping_mul(0x9e37_79b9) >> 8) / f64::from(1 << 24) - 0.5;
    let better = if arm > 0 && group % 3 == 0 { 0.6 } else { 0.0 };
    let nats = 13.0 + noise + better;
    Observation {
        lineage: Lineage::of(peer.into(), class, 0),
        arm,
        outcome: Outcome::Reward(Reward { nats, weight: 1.0 }),
        features: Features {
            handshake_rtt_us: 40_000.0,
            bytes: 1e6,
            ..Features::default()
        },
        at_s: 1e9 + f64::from(i) / 200.0,
        bouts: tcpilot_learner::sharing::Bouts::CLEAR,
        since_last_s: None,
        segments: 0,
        is_switched: false,
        beside: 1,
    }
}

/// Samples of each path once, in an order without neighbours, then of every fifth three times more; their number.
fn feed(learner: &mut Thompson, arms: u32, paths: u32, per_group: u32) -> u32 {
    let order = |i: u32| (u64::from(i) * 7_368_787 % u64::from(paths)) as u32;
    let samples = paths + 3 * (paths / 5);
    for i in 0..samples {
        let again = || (i - paths) / 3 * 5 % paths;
        let path = order(if i < paths { i } else { again() });
        let arm = (i.wrapping_mul(2_654_435_761) >> 16) % arms;
        learner
            .observe(&seen(path, per_group, arm as usize, i))
            .unwrap();
        if i % 1000 == 0 {
            learner.publish(1e9 + f64::from(i) / 200.0, 2000, |_, _| ());
        }
    }
    samples
}

fn main() {
    let given: Vec<u32> = std::env::args()
        .skip(1)
        .map(|a| a.parse().unwrap())
        .collect();
    let arms = given.first().copied().unwrap_or(3);
    let paths = given.get(1).copied().unwrap_or(1_000_000);
    let per_group = given.get(2).copied().unwrap_or(10);
    let before = resident_mb();
    let mut learner = Thompson::new(arms as usize, Settings::default()).unwrap();
    let start = spent_s();
    let samples = feed(&mut learner, arms, paths, per_group);
    let samples_s = spent_s() - start;
    let observe_us = samples_s * 1e6 / f64::from(samples);
    let now_s = 1e9 + f64::from(samples) / 200.0;
    learner.publish(now_s, usize::MAX, |_, _| ());
    let memory = resident_mb() - before;
    let sweep = |learner: &mut Thompson| {
        learner.publish_all();
        let start = spent_s();
        let mut sum = 0u64;
        let numbers: Vec<Option<u8>> = (0..arms as u8).map(Some).collect();
        let dists = learner.publish(now_s, usize::MAX, |_, plan| {
            let dist = plan.and_then(|plan| ChoiceDist::of(plan, &numbers));
            sum += dist.map_or(0, |dist| u64::from(dist.0[0]));
        });
        (dists, (spent_s() - start), sum)
    };
    for _ in 1..given.get(3).copied().unwrap_or(1) {
        sweep(&mut learner);
    }
    let (dists, sweep_s, sum) = sweep(&mut learner);
    let mut bytes = 0;
    let start = spent_s();
    learner.save(true, |key, dist| {
        bytes += key.len() + dist.map_or(0, <[u8]>::len);
    });
    let save_s = spent_s() - start;
    println!(
        "{arms} arms, {} paths, {} nodes above them",
        learner.path_count(),
        learner.node_count()
    );
    println!(
        "memory {memory:.0} MB, {observe_us:.2} us a sample with two choice distributions published"
    );
    println!("sweep of {dists} choice distributions {sweep_s:.2} s (check {sum})");
    println!("save {:.0} MB in {save_s:.2} s", bytes as f64 / 1e6);
}
