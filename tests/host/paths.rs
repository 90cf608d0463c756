//! Connections with a shared path, and connections with separate paths.

use std::{collections::BTreeSet, thread, time::Duration};

use serde_json::Value;
use tcpilot_tests::{Actor, FAR, Lab, NEAR, Netns, PORT, Pair, Place, Sink, arm, sh, until};

use crate::{ALWAYS_BBR, ALWAYS_RENO, saving::state, tuning::tuned};

#[test]
fn two_destinations_behind_one_gateway_are_two_paths() {
    let lab = Lab::new();
    let pilot = lab.pilot(ALWAYS_RENO);
    lab.upload("10.64.0.1", 2, 200_000);
    lab.upload("10.65.0.1", 1, 200_000);
    pilot.wait_closed(3);
    assert_eq!(pilot.prefixes(), ["10.64.0.1", "10.65.0.1"]);
    assert_eq!(pilot.path("10.64.0.1")["connections"], 2);
    assert_eq!(pilot.path("10.65.0.1")["connections"], 1);
}

#[test]
fn public_destinations_of_one_prefix_are_neighbours() {
    let lab = Lab::new();
    let pilot = lab.pilot(ALWAYS_RENO);
    let public = ["8.8.8.8", "8.8.8.9", "9.9.9.9"];
    for to in public {
        lab.upload(to, 1, 200_000);
    }
    pilot.wait_closed(3);
    assert_eq!(pilot.prefixes(), public);
    for (unseen, group) in [("8.8.8.10", "8.8.8.0/24"), ("9.9.9.10", "9.9.9.0/24")] {
        let node = &pilot.ask(&format!("explain {unseen}"))["paths"][0]["path"];
        let named = (&node["level"], &node["prefix"], &node["netns"]);
        assert_eq!(named, (&"group".into(), &group.into(), &"all".into()));
    }
}

#[test]
fn mapped_ipv4_shares_path_with_ipv4_not_ipv6() {
    let lab = Lab::new();
    let pilot = lab.pilot(ALWAYS_RENO);
    let _sink = Sink::new(&lab.net.far, 5300);
    for to in [
        "10.77.0.2:5300",
        "[::ffff:10.77.0.2]:5300",
        "[fd77::2]:5300",
    ] {
        let mut application = lab.actor();
        application.tell(&format!("connect {to}"));
        application.tell("send 200000");
        application.tell("close");
    }
    pilot.wait_closed(3);
    assert_eq!(pilot.prefixes(), ["10.77.0.2", "fd77::2"]);
    assert_eq!(pilot.path("10.77.0.2")["connections"], 2);
}

#[test]
fn dual_stack_listener_steers_on_clients_ipv4_path() {
    let lab = Lab::new();
    let _server = lab.serve_in_cgroup(5202);
    let pilot = lab.pilot(ALWAYS_BBR);
    let download = format!("bulk --to {FAR}:5202 --bytes 1M --reverse");
    let ended = lab.try_run(Place::outside(&lab.net.near), &download);
    assert!(ended.status.success());
    pilot.wait_closed(1);
    assert_eq!(pilot.prefixes(), [NEAR]);
    let decision = &pilot.decisions(NEAR)[0];
    assert_eq!(
        (&decision["side"], &decision["algorithm"]),
        (&"accept".into(), &"bbr".into())
    );
    assert_eq!(arm(&pilot.path(NEAR), "bbr")["samples"], 1);
}

#[test]
fn same_address_in_two_namespaces_is_two_paths() {
    let lab = Lab::new();
    let twin = Pair::new();
    let _sink = Sink::new(&twin.far, PORT);
    let pilot = lab.pilot(ALWAYS_RENO);
    lab.upload(FAR, 2, 200_000);
    let mut application = Actor::new(Place::new(&twin.near, &lab.cgroup));
    application.tell(&format!("connect {FAR}:{PORT}"));
    application.tell("send 200000");
    application.tell("close");
    pilot.wait_closed(3);
    let mut seen: Vec<_> = pilot
        .places()
        .iter()
        .map(|p| {
            (
                p["netns"].as_str().unwrap().to_owned(),
                p["connections"].as_u64().unwrap(),
            )
        })
        .collect();
    let mut wanted = vec![
        (lab.net.near.name().to_owned(), 2),
        (twin.near.name().to_owned(), 1),
    ];
    seen.sort();
    wanted.sort();
    assert_eq!(seen, wanted);
    assert_eq!(pilot.prefixes(), ["10.77.0.2", "10.77.0.2"]);
}

#[test]
fn a_full_map_evicts_and_keeps_learning() {
    let lab = Lab::new();
    let pilot = lab.pilot(&format!("paths_max = 64\n{ALWAYS_RENO}"));
    lab.run(&format!(
        "spread --to-prefix 10.64.0.0/14 --port {PORT} --distinct 200 --bytes 20000"
    ));
    lab.upload("10.67.200.1", 3, 200_000);
    pilot.wait_closed(203);
    assert_eq!(pilot.status()["paths_max"], 64);
    assert!(pilot.status()["paths"].as_u64().unwrap() <= 64);
    let path = pilot.path("10.67.200.1");
    assert_eq!(
        (&path["connections"], &arm(&path, "reno")["samples"]),
        (&3.into(), &3.into())
    );
}

/// Addresses that differ in the top bit of each word of the key once collided, whatever the seed: the second
/// took the first one's place in the table.
#[test]
fn addresses_differing_in_top_bits_do_not_collide() {
    for _ in 0..3 {
        let lab = Lab::new();
        let pilot = lab.pilot(ALWAYS_RENO);
        lab.upload("fd64::1", 2, 200_000);
        let mut application = lab.actor();
        application.tell(&format!("connect [fd64::1]:{PORT}"));
        pilot.wait_closed(2);
        lab.upload("fd64:0:0:80:0:80:0:81", 1, 200_000);
        pilot.wait_closed(3);
        assert_eq!(pilot.prefixes(), ["fd64::1", "fd64::80:0:80:0:81"]);
        let path = pilot.path("fd64::1");
        assert_eq!(
            (&path["connections"], &path["live_flows"]),
            (&3.into(), &1.into())
        );
        assert_eq!(arm(&path, "reno")["samples"], 2);
    }
}

/// The paths in the table of the tunings.
fn tabled(lab: &Lab) -> BTreeSet<String> {
    let export: Value = serde_json::from_str(&state(lab, "export")).unwrap();
    let paths = export["paths"].as_array().unwrap().iter();
    paths
        .map(|path| path["prefix"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn tuned_path_with_live_connections_is_never_evicted() {
    let lab = Lab::new();
    let pilot = lab.pilot(&format!("paths_max = 64\n{}", tuned("\"rto\"")));
    let mut application = lab.actor();
    let mut remembered = BTreeSet::new();
    for group in 0..10 {
        for host in 1..=20 {
            application.tell(&format!("hold 10.64.{group}.{host}:{PORT}"));
        }
        let now = tabled(&lab);
        assert!(now.is_superset(&remembered), "{remembered:?} {now:?}");
        remembered = now;
    }
    // Eight buckets of eight: addresses in a row may miss one of them by chance.
    let known = remembered.len();
    assert!((16..=64).contains(&known), "{remembered:?}");
    let degraded = pilot.status()["degraded"].to_string();
    let refused = format!("({} times)", 200 - known);
    assert!(
        degraded.contains("a new path was not remembered") && degraded.contains(&refused),
        "{degraded}"
    );
    application.tell("release");
    pilot.wait_closed(200);
    lab.upload("10.65.0.1", 1, 200_000);
    pilot.wait_closed(201);
    assert!(tabled(&lab).contains("10.65.0.1"));
}

/// A network namespace with a link of its own to the far end, as of a container.
fn linked(lab: &Lab, number: usize) -> Netns {
    let netns = Netns::new();
    let far = &lab.net.far;
    sh(&format!(
        "ip link add eth0 netns {} type veth peer name veth{number} netns {}",
        netns.name(),
        far.name()
    ));
    for (at, device, last) in [
        (&netns, "eth0".to_owned(), 1),
        (far, format!("veth{number}"), 2),
    ] {
        at.ip(&format!(
            "address add 10.78.{number}.{last}/24 dev {device}"
        ));
        at.ip(&format!("link set {device} up"));
    }
    let shape = "tbf rate 100mbit burst 64kb limit 256kb"; // its ends are too fast to learn from
    sh(&format!(
        "tc -n {} qdisc add dev eth0 root {shape}",
        netns.name()
    ));
    netns
}

#[test]
fn paths_of_ended_namespaces_are_forgotten() {
    let lab = Lab::new();
    let pilot = lab.pilot(ALWAYS_BBR);
    lab.upload(FAR, 2, 200_000);
    let ended: Vec<Netns> = (0..30).map(|number| linked(&lab, number)).collect();
    for (number, netns) in ended.iter().enumerate() {
        let upload = format!("bulk --to 10.78.{number}.2:{PORT} --bytes 200000 --count 2");
        let output = lab.try_run(Place::new(netns, &lab.cgroup), &upload);
        assert!(output.status.success(), "{output:?}");
    }
    pilot.wait_closed(2 + 60);
    assert_eq!(pilot.prefixes().len(), 31);
    drop(ended);
    until("their paths are forgotten", || {
        thread::sleep(Duration::from_secs(1)); // it may take a minute
        (pilot.prefixes() == [FAR]).then_some(())
    });
    lab.upload(FAR, 1, 200_000);
    pilot.wait_closed(2 + 60 + 1);
    assert_eq!(pilot.path(FAR)["connections"], 3);
    pilot.end(libc::SIGTERM);
    let again = lab.pilot(ALWAYS_BBR);
    assert_eq!(again.prefixes(), [FAR]);
    assert_eq!(again.path(FAR)["connections"], 3);
}
