//! When dctcp may be chosen once ECN was negotiated: in a data center, or if a policy vouches for it.

use serde_json::Value;
use tcpilot_host_tests::{Daemon, FAR, Lab, Registrations, arm};

/// A public address that the far end answers for, and its path.
const PUBLIC: (&str, &str) = ("8.8.8.8", "8.8.8.0/24");

/// Each connection gets dctcp if it may have it.
const ARMS: &str = r#"
    algorithms = ["tp_dctcp"]
    replace_defaults = ["reno"]
    [rescue]
    algorithm = ""
    [effect]
    hold_out_percent = 0
"#;

/// A laboratory with ECN; the daemon will register one of our algorithms.
fn lab() -> (Registrations, Lab) {
    let registrations = Registrations::lock();
    let lab = Lab::new();
    for netns in [&lab.net.near, &lab.net.far] {
        netns.sysctl("net/ipv4/tcp_ecn", "1");
    }
    (registrations, lab)
}

/// The number of connections on a path that got dctcp.
fn chosen(pilot: &Daemon, path: &str) -> u64 {
    arm(&pilot.path(path), "tp_dctcp")["chosen"]
        .as_u64()
        .unwrap()
}

/// The same for so many connections to a public address.
fn chosen_in_public(policy: &str, count: u32) -> (u64, Value) {
    let (_registrations, lab) = lab();
    let pilot = lab.pilot(&format!("{ARMS}{policy}"));
    lab.upload(PUBLIC.0, count, 200_000);
    pilot.wait_closed(count.into());
    let path = pilot.path(PUBLIC.1);
    let why = arm(&path, "tp_dctcp")["not_eligible"].clone();
    (chosen(&pilot, PUBLIC.1), why)
}

#[test]
fn on_a_public_path_it_is_never_chosen_for_being_among_the_arms() {
    let (chosen, why) = chosen_in_public("", 12);
    assert_eq!(chosen, 0);
    // This also shows that ECN was negotiated: otherwise that would be the reason.
    assert!(why.as_str().unwrap().contains("public Internet"), "{why}");
}

#[test]
fn a_policy_that_lists_no_arms_does_not_vouch_for_it() {
    let policy = "[[policy]]\nname = \"a\"\nprefixes = [\"8.0.0.0/7\"]\nnetwork = \"wifi\"\n\
                  objective = \"latency\"";
    let (chosen, why) = chosen_in_public(policy, 12);
    assert_eq!(chosen, 0);
    assert!(why.as_str().unwrap().contains("public Internet"), "{why}");
}

#[test]
fn a_policy_that_lists_it_vouches_for_it() {
    let policy =
        "[[policy]]\nname = \"a\"\nprefixes = [\"8.0.0.0/7\"]\nalgorithms = [\"tp_dctcp\"]";
    let (chosen, why) = chosen_in_public(policy, 12);
    assert!(chosen > 0);
    assert_eq!(why, Value::Null);
}

#[test]
fn a_policy_for_a_data_center_vouches_for_it() {
    let policy = "[[policy]]\nname = \"a\"\nprefixes = [\"8.0.0.0/7\"]\nnetwork = \"data-center\"";
    let (chosen, why) = chosen_in_public(policy, 12);
    assert!(chosen > 0);
    assert_eq!(why, Value::Null);
}

#[test]
fn a_host_in_a_data_center_keeps_it_to_private_addresses() {
    let (_registrations, lab) = lab();
    let pilot = lab.pilot(&format!("{ARMS}[tuning]\nnetwork = \"data-center\""));
    lab.upload(FAR, 12, 200_000);
    lab.upload(PUBLIC.0, 12, 200_000);
    pilot.wait_closed(24);
    assert!(chosen(&pilot, FAR) > 0);
    assert_eq!(chosen(&pilot, PUBLIC.1), 0);
}

#[test]
fn a_private_path_of_short_and_steady_round_trips_is_a_data_centers() {
    let (_registrations, lab) = lab();
    let pilot = lab.pilot(ARMS);
    // A busy machine may answer some SYNs late.
    lab.upload(FAR, 12, 200_000);
    pilot.wait_closed(12);
    assert!(chosen(&pilot, FAR) > 0, "{}", pilot.path(FAR));
}

#[test]
fn without_negotiated_ecn_no_policy_helps() {
    let (_registrations, lab) = lab();
    lab.net.far.sysctl("net/ipv4/tcp_ecn", "0");
    let policy = "[[policy]]\nname = \"a\"\nnetwork = \"data-center\"\nalgorithms = [\"tp_dctcp\"]";
    let pilot = lab.pilot(&format!("{ARMS}{policy}"));
    lab.upload(FAR, 12, 200_000);
    pilot.wait_closed(12);
    let path = pilot.path(FAR);
    let dctcp = arm(&path, "tp_dctcp");
    assert_eq!(dctcp["chosen"], 0);
    let why = dctcp["not_eligible"].as_str().unwrap();
    assert!(why.contains("did not negotiate"), "{why}");
}
