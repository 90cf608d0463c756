//! Paths of network namespaces that have ended.

use std::collections::HashSet;

use tcpilot_abi::{Why, tp_record};
use tcpilot_kernel::{Live, own_netns_cookie, wall_clock::Now};

use super::{
    Learners,
    tests::{ChoiceDists, learners_of, record, settings},
};
use crate::{
    daemon::{learning::Restored, state_file::StateFile},
    state::{Boot, Knowledge, Store},
};

/// Connections to one private address from namespaces with these cookies; from each by the interface, too, if it has a
/// number.
fn connect(learners: &mut Learners, cookies: &[u64], egress: u16) {
    for cookie in cookies {
        for number in 0..4 {
            learners.take(&tp_record {
                domain: (*cookie as u32).wrapping_add(u32::from(egress).wrapping_mul(0x9e37_79b1)),
                netns_cookie: *cookie,
                egress,
                ..record("10.0.0.7", number % 2, 300)
            });
        }
    }
    learners.publish(usize::MAX);
}

#[test]
fn paths_of_ended_namespaces_are_forgotten() {
    let (mut learners, dists) = learners_of(settings(100), &[]);
    connect(&mut learners, &[0], 0); // shared by all namespaces
    let shared = super::Table::len(&dists).0;
    connect(&mut learners, &[5], 0);
    let of_both = super::Table::len(&dists).0;
    connect(&mut learners, &[6, 1 << 32 | 7], 0);
    connect(&mut learners, &[6], 3);
    let known = |learners: &mut Learners| {
        let paths = learners.explain(&"10.0.0.7".parse().unwrap(), &Live::default());
        paths
            .iter()
            .filter(|path| path.view.level == "path")
            .count()
    };
    assert_eq!(known(&mut learners), 5);
    let ended = HashSet::from([6, 1 << 32 | 7, 99, 1 << 32]);
    assert_eq!(learners.forget_netns(&ended), 3);
    assert_eq!(known(&mut learners), 2);
    let domains: HashSet<u32> = learners.domains.keys().copied().collect();
    assert_eq!(domains, HashSet::from([5]));
    learners.publish(usize::MAX);
    assert_eq!(super::Table::len(&dists).0, of_both, "more than {shared}");
    assert_eq!(learners.forget_netns(&ended), 0);
}

/// The learner compares with its own default, the first algorithm. A connection that kept the default of its namespace
/// shows that this is another one.
#[test]
fn paths_compare_with_their_namespaces_default() {
    let (mut learners, _) = learners_of(settings(100), &[]);
    connect(&mut learners, &[5, 6], 0);
    let second = learners.policies[0].settings.arms.number(1);
    learners.take(&tp_record {
        domain: 5,
        netns_cookie: 5,
        why: Why::HeldOut as u8,
        ..record("10.0.0.7", second, 300)
    });
    let paths = learners.explain(&"10.0.0.7".parse().unwrap(), &Live::default());
    let names: Vec<String> = paths[0]
        .view
        .algorithms
        .iter()
        .map(|a| a.name.clone())
        .collect();
    for path in paths {
        let cookie = match path.netns {
            Some(super::super::views::Netns::Cookie(cookie)) => cookie,
            _ => continue,
        };
        let of = if cookie == 5 { 1 } else { 0 };
        assert_eq!(path.view.baseline.as_ref(), Some(&names[of]), "{cookie}");
        let compared = path.view.algorithms.iter().map(|a| a.effect.is_some());
        let compared: Vec<bool> = compared.collect();
        assert_eq!(compared.iter().position(|is| !is), Some(of), "{compared:?}");
    }
}

/// Stores what is learned of these namespaces, as in the boot of this identifier.
fn saved(file: &std::path::Path, cookies: &[u64], boot: &str) {
    let (mut learners, _) = learners_of(settings(100), &[]);
    connect(&mut learners, cookies, 0);
    let (mut store, _) = Store::open(file).unwrap();
    store.save_knowledge(&learners.unsaved(true)).unwrap();
    let boot = Boot {
        id: boot.to_owned(),
        ..Boot::present()
    };
    store.save_knowledge(&[Knowledge::of_boot(&boot)]).unwrap();
}

/// Starts from the file, saves, and returns the number of paths.
fn start(file: &std::path::Path) -> usize {
    let now = Now {
        unix_s: 1_800_000_000,
        boot_s: 60,
    };
    let mut state_file = StateFile::open(file, now).unwrap();
    let clock = state_file.clock().clone();
    let store = state_file.store().unwrap();
    let restored = Restored::read(vec![settings(100)], Some(&*store), [7; 7], clock.clone());
    let policies = restored.unwrap().policies;
    let mut learners = Learners::new(policies, Box::new(ChoiceDists::default()), clock);
    let saved = state_file.save(&[], Some(&learners.unsaved(false)), now, 7 * 86_400);
    saved.unwrap();
    learners.policies[0].learner.path_count()
}

#[test]
fn a_reboot_ends_other_namespaces() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("state.db");
    let own = own_netns_cookie().unwrap();
    let cookies = [0, own, own + 1000, own + 1001];
    saved(&file, &cookies, &Boot::present().id);
    assert_eq!(start(&file), 4);
    saved(&file, &cookies, "another");
    assert_eq!(start(&file), 2);
    assert_eq!(start(&file), 2, "the file has forgotten them");
    let (store, _) = Store::open(&file).unwrap();
    assert_eq!(store.saved_boot().unwrap(), Some(Boot::present()));
}
