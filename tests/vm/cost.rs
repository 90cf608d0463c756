//! The cost of a connection with the learner in the daemon, in virtual time: a nanosecond is an instruction
//! there. Both ends are steered, as in the laboratory's `cost`.
//!
//! The bounds are what Linux 6.18 needs, the dearest of the four, and a twentieth more.

use std::{fs, net::Ipv4Addr};

use tcpilot_abi::{TP_CLASS_ACCEPTED, TP_LEVEL_GROUP, TP_LEVEL_PATH};
use tcpilot_core::choice_dist::{DistPlace, Entries};
use tcpilot_kernel::{Pilot, own_netns_cookie};
use tcpilot_tests::{FAR, Lab, NEAR, Netns, in_netns};

use crate::learner::{ALL_BBR, ALL_RENO, Learner, config};

const PAIRS: u64 = 60;
const ROUNDS: usize = 3;
const LOADS: usize = 3;

/// Nanoseconds of the programs for each pair of ends: the least of several loads, since each draws new keys
/// for its hashes, and two choice distributions may fall into one bucket. For each load it is the median of
/// its rounds, since a timer during a program's run is counted with it.
fn cost(lab: &Lab, load: impl Fn() -> Pilot) -> u64 {
    let loads = [(); LOADS].map(|()| {
        let pilot = load();
        median([(); ROUNDS].map(|()| {
            let before = pilot.run_stats();
            lab.run(&format!("short --to {FAR}:5300 --count {PAIRS}"));
            let after = pilot.run_stats();
            assert_eq!(after.events - before.events, 16 * PAIRS);
            (after.nanoseconds - before.nanoseconds) / PAIRS
        }))
    });
    loads.into_iter().min().unwrap()
}

fn median<const N: usize>(mut values: [u64; N]) -> u64 {
    values.sort_unstable();
    values[N / 2]
}

fn place(netns: &Netns, remote: &str, accepted: u16) -> DistPlace {
    let remote: Ipv4Addr = remote.parse().unwrap();
    DistPlace {
        remote: [0, 0, 0xffff_u32.to_be(), u32::from(remote).to_be()],
        domain: in_netns(netns, own_netns_cookie).unwrap() as u32,
        class: accepted << TP_CLASS_ACCEPTED,
        policy: 0,
    }
}

fn with_dists(lab: &Lab, level: u32, entries: Entries) -> Learner {
    let mut learner = Learner::new(lab, &config());
    for (netns, remote, accepted) in [(&lab.net.near, FAR, 0), (&lab.net.far, NEAR, 1)] {
        learner.put(level, &place(netns, remote, accepted), entries, 1);
    }
    learner
}

#[test]
fn a_connection_costs_no_more_than_its_bound() {
    fs::write("/proc/sys/kernel/bpf_stats_enabled", "1").unwrap();
    let lab = Lab::new();
    let _server = lab.serve_in_cgroup(5300);
    let drawn = |level, entries| cost(&lab, || with_dists(&lab, level, entries).pilot);
    let none = cost(&lab, || Learner::new(&lab, &config()).pilot);
    let found = [
        ("no choice distribution", none, 3390),
        (
            "choice distribution of the path",
            drawn(TP_LEVEL_PATH, ALL_RENO),
            3970,
        ),
        (
            "choice distribution of the group",
            drawn(TP_LEVEL_GROUP, ALL_RENO),
            3970,
        ),
        ("another algorithm", drawn(TP_LEVEL_PATH, ALL_BBR), 5310),
    ];
    for (what, ns, _) in &found {
        println!("{what}: {ns}");
    }
    assert!(found.iter().all(|(_, ns, most)| ns <= most), "{found:?}");
}
