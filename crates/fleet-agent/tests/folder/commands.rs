//! `run`, `check`, `status` and `forget` as a person meets them.

use std::fs;

use tcpilot_fleet_agent::clock::boot_s;
use tcpilot_fleet_agent::forget::forget;

use crate::fleet::Fleet;
use crate::support::{Process, host, know, knowledge, output, round, run, status, wait_until};

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
