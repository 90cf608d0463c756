//! When dctcp may be chosen once ECN was negotiated: in a data center, or if a policy vouches for it.

use serde_json::Value;
use tcpilot_tests::{Daemon, FAR, Lab, Registrations, arm};

/// A public address of the far end.
const PUBLIC: &str = "8.8.8.8";

/// If all may have dctcp, by chance none of 24 connections gets it once in 100 000 runs.
const ARMS: &str = r#"
    algorithms = ["reno", "tp_dctcp"]
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

/// The number of connections with dctcp on a path.
fn chosen(pilot: &Daemon, path: &str) -> u64 {
    arm(&pilot.path(path), "tp_dctcp")["chosen"]
        .as_u64()
        .unwrap()
}

/// The same for connections to a public address.
fn chosen_in_public(policy: &str) -> (u64, Value) {
    let (_registrations, lab) = lab();
    let pilot = lab.pilot(&format!("{ARMS}{policy}"));
    lab.upload(PUBLIC, 60, 200_000);
    pilot.wait_closed(60);
    let path = pilot.path(PUBLIC);
    let why = arm(&path, "tp_dctcp")["not_eligible"].clone();
    (chosen(&pilot, PUBLIC), why)
}

#[test]
fn global_arm_list_does_not_vouch_for_dctcp() {
    let (chosen, why) = chosen_in_public("");
    assert_eq!(chosen, 0);
    // This also shows that ECN was negotiated: otherwise its absence would be the reason.
    assert!(why.as_str().unwrap().contains("public Internet"), "{why}");
}

#[test]
fn policy_without_arms_does_not_vouch_for_dctcp() {
    let policy = "[[policy]]\nname = \"a\"\nprefixes = [\"8.0.0.0/7\"]\nnetwork = \"wifi\"\n\
                  objective = \"latency\"";
    let (chosen, why) = chosen_in_public(policy);
    assert_eq!(chosen, 0);
    assert!(why.as_str().unwrap().contains("public Internet"), "{why}");
}

#[test]
fn a_policy_that_lists_it_vouches_for_it() {
    let policy =
        "[[policy]]\nname = \"a\"\nprefixes = [\"8.0.0.0/7\"]\nalgorithms = [\"tp_dctcp\"]";
    let (chosen, why) = chosen_in_public(policy);
    assert!(chosen > 0);
    assert_eq!(why, Value::Null);
}

#[test]
fn data_center_policy_vouches_for_dctcp() {
    let policy = "[[policy]]\nname = \"a\"\nprefixes = [\"8.0.0.0/7\"]\nnetwork = \"data-center\"";
    let (chosen, why) = chosen_in_public(policy);
    assert!(chosen > 0);
    assert_eq!(why, Value::Null);
}

#[test]
fn data_center_host_limits_dctcp_to_private_addresses() {
    let (_registrations, lab) = lab();
    let pilot = lab.pilot(&format!("{ARMS}[tuning]\nnetwork = \"data-center\""));
    lab.upload(FAR, 60, 200_000);
    lab.upload(PUBLIC, 24, 200_000);
    pilot.wait_closed(84);
    assert!(chosen(&pilot, FAR) > 0);
    assert_eq!(chosen(&pilot, PUBLIC), 0);
}

#[test]
fn private_path_with_short_steady_rtt_gets_dctcp() {
    let (_registrations, lab) = lab();
    let pilot = lab.pilot(ARMS);
    // A busy machine may answer some SYNs late, and a connection in eight tries another algorithm.
    lab.upload(FAR, 60, 200_000);
    pilot.wait_closed(60);
    assert!(chosen(&pilot, FAR) > 0, "{}", pilot.path(FAR));
}

#[test]
fn without_negotiated_ecn_no_policy_helps() {
    let (_registrations, lab) = lab();
    lab.net.far.sysctl("net/ipv4/tcp_ecn", "0");
    let policy = "[[policy]]\nname = \"a\"\nnetwork = \"data-center\"\nalgorithms = [\"reno\", \"tp_dctcp\"]";
    let pilot = lab.pilot(&format!("{ARMS}{policy}"));
    lab.upload(FAR, 24, 200_000);
    pilot.wait_closed(24);
    let path = pilot.path(FAR);
    let dctcp = arm(&path, "tp_dctcp");
    assert_eq!(dctcp["chosen"], 0);
    let why = dctcp["not_eligible"].as_str().unwrap();
    assert!(why.contains("did not negotiate"), "{why}");
}
