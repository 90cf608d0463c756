//! A place of more hosts than its members hear themselves, and its mergers.

use std::fs;
use std::time::Duration;

use tcpilot_fleet_agent::agent::Agent;
use tcpilot_fleet_agent::clock::boot_s;
use tcpilot_fleet_agent::forget::forget;
use tcpilot_fleet_agent::merge_agent::MergeAgent;
use tcpilot_fleet_agent::merger::{SETS, set_of};
use tcpilot_fleet_agent::store::dir::DirStore;

use crate::fleet::Fleet;
use crate::support::{group, heard, host, know, knowledge, round, run, settings};

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
