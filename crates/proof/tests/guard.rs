//! The guard on many simulated hosts: how often it stops harmless steering, and how soon it notices that
//! steering has turned harmful.
#![allow(clippy::unwrap_used, reason = "tests")]

use tcpilot_proof::{
    Guard, Pair, Sequence,
    guard::{Limits, Step},
};
use tcpilot_random::Random;

/// The pair after which it stops, out of so many. Blocks have a standard deviation of 0.3.
fn stops_at(guard: &mut Guard, random: &mut Random, effect: f64, pairs: u64) -> Option<u64> {
    (1..=pairs).find(|at| {
        let pair = Pair {
            difference: effect + 0.3 * (random.normal() - random.normal()),
            covariate: 0.0,
        };
        let step = guard.add(pair, 60 * at, &Limits::default(), &Sequence::default());
        step != Step::Goes
    })
}

#[test]
fn harmless_hosts_are_seldom_stopped() {
    let stopped = (0..1000).filter(|seed| {
        let (mut guard, mut random) = (Guard::default(), Random(40_000 + seed));
        stops_at(&mut guard, &mut random, 0.0, 3000).is_some()
    });
    let stopped = stopped.count();
    println!("stopped without harm: {stopped} of 1000");
    assert!(stopped <= 50, "{stopped}");
}

#[test]
fn late_harm_is_stopped_within_200_pairs() {
    let mut late: Vec<u64> = (0..500)
        .map(|seed| {
            let (mut guard, mut random) = (Guard::default(), Random(50_000 + seed));
            assert_eq!(stops_at(&mut guard, &mut random, 0.1, 1000), None);
            let found = stops_at(&mut guard, &mut random, f64::ln_1p(-0.3), 5000);
            found.unwrap()
        })
        .collect();
    late.sort_unstable();
    println!(
        "a loss of 30 %: {} pairs (median), {} (all)",
        late[250], late[499]
    );
    assert!(late[499] <= 200, "{}", late[499]);
}
