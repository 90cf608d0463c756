//! Tunings tested with netem, a policer or a prio qdisc: the guard, rate limits, and ACK priority.

use std::fs;

use serde_json::Value;
use tcpilot_tests::{Daemon, FAR, Lab, Shape, Sink, sh, until};

use crate::config;

fn tuned(keys: &str) -> String {
    format!(
        "{}[tuning]\nobjective = \"latency\"\nnetwork = \"long-fat\"\n{keys}",
        config(r#"["reno"]"#)
    )
}

fn tuning(pilot: &Daemon) -> Value {
    pilot.tuned(FAR)
}

/// The root qdisc, as tc prints it.
fn root_qdisc(device: &str) -> String {
    sh(&format!("tc qdisc show dev {device} root"))
}

/// Two ends of a cable, removed on drop.
struct Cable;

impl Cable {
    fn new() -> Cable {
        sh("ip link add tcprio0 type veth peer name tcprio1");
        sh("ip link set tcprio0 up");
        Cable
    }
}

impl Drop for Cable {
    fn drop(&mut self) {
        sh("ip link del tcprio0");
    }
}

const FIRST: &str = "ack_priority = true\nack_priority_devices = [\"tcprio0\"]\n";

#[test]
fn prio_qdisc_lives_as_long_as_daemon() {
    let (lab, _cable) = (Lab::new(), Cable::new());
    let before = root_qdisc("tcprio0");
    let pilot = lab.pilot(&tuned(FIRST));
    assert_eq!(pilot.status()["algorithms_missing"], serde_json::json!([]));
    assert!(root_qdisc("tcprio0").contains("prio 7c1:"));
    pilot.end(libc::SIGTERM);
    assert_eq!(root_qdisc("tcprio0"), before);
    assert_eq!(journals(&lab), 0);
}

#[test]
fn next_start_removes_qdisc_of_killed_daemon() {
    let (lab, _cable) = (Lab::new(), Cable::new());
    let before = root_qdisc("tcprio0");
    lab.pilot(&tuned(FIRST)).end(libc::SIGKILL);
    assert!(root_qdisc("tcprio0").contains("prio 7c1:"));
    assert_eq!(journals(&lab), 1);
    let _pilot = lab.pilot(&tuned("")); // which asks for no device
    assert_eq!(root_qdisc("tcprio0"), before);
    assert_eq!(journals(&lab), 0);
}

#[test]
fn a_qdisc_that_somebody_chose_stays() {
    let (lab, _cable) = (Lab::new(), Cable::new());
    sh("tc qdisc add dev tcprio0 root handle 5: pfifo limit 7");
    let before = root_qdisc("tcprio0");
    let pilot = lab.pilot(&tuned(FIRST));
    assert_eq!(root_qdisc("tcprio0"), before);
    let missing = pilot.status()["algorithms_missing"].to_string();
    assert!(missing.contains("tcprio0 serves"), "{missing}");
    pilot.end(libc::SIGTERM);
    assert_eq!(root_qdisc("tcprio0"), before);
}

fn journals(lab: &Lab) -> usize {
    let files = fs::read_dir(lab.dir.path()).unwrap();
    files
        .filter(|file| {
            let name = file.as_ref().unwrap().file_name();
            name.to_string_lossy().ends_with(".qdiscs")
        })
        .count()
}

/// The path is slow only for connections with the tuning. Whatever the reason would be in
/// reality, with it they end late, and without it they do not.
#[test]
fn harmful_tuning_is_switched_off_and_reported() {
    let lab = Lab::new();
    let _sink = Sink::new(&lab.net.far, 5300);
    let config = tuned("features = [\"quick-ack\"]\nhold_out_shift = 1\n");
    // Otherwise not every small connection would count.
    let pilot = lab.pilot(&format!("{config}[learner]\nbytes_min = 1\n"));
    let mut connections = 0;
    // What the guard has to compare: not every connection counts, such as the first on a path. Once it has
    // judged, no connection has the tuning any more.
    let told = loop {
        let told = tuning(&pilot);
        let quick_ack = &told["tunings"][0];
        let counted = |side: &str| quick_ack[side]["connections"].as_u64().unwrap_or(0);
        if counted("with").min(counted("without")) >= 24 || quick_ack["switched_off"] == true {
            break told;
        }
        assert!(connections < 200, "{told}");
        lab.net.shape(Shape::Of("netem delay 5ms"));
        let mut application = lab.actor();
        application.tell(&format!("connect {FAR}:5300"));
        if pilot.ask("flows")[0]["tunings"] == serde_json::json!(["quick-ack"]) {
            lab.net.shape(Shape::Of("netem delay 60ms"));
        }
        for _ in 0..5 {
            application.tell("send 1000");
        }
        application.tell("close");
        connections += 1;
        pilot.wait_closed(connections);
    };
    until(&format!("the guard has judged {told}"), || {
        pilot.status()["tunings"]["guard"][0]
            .as_str()?
            .contains("quick-ack switched off")
            .then_some(())
    });
    let tuning = tuning(&pilot);
    assert_eq!(tuning["tunings"][0]["switched_off"], true, "{tuning}");
    assert!(pilot.log().contains("switched off"), "{}", pilot.log());
    for _ in 0..8 {
        let mut application = lab.actor();
        application.tell(&format!("connect {FAR}:5300"));
        assert_eq!(pilot.ask("flows")[0]["tunings"], serde_json::json!([]));
        application.tell("close");
        until("it is gone", || {
            pilot.ask("flows").as_array()?.is_empty().then_some(())
        });
    }
}

#[test]
fn a_policers_rate_is_found_and_kept_to() {
    let lab = Lab::new();
    let far = lab.net.far.name();
    lab.net.near.ip("link set eth0 gso_max_segs 1");
    lab.net.shape(Shape::Of("netem delay 40ms"));
    sh(&format!("tc -n {far} qdisc add dev eth0 clsact"));
    sh(&format!(
        "tc -n {far} filter add dev eth0 ingress matchall action police rate 5mbit burst 64000 \
         conform-exceed drop"
    ));
    let pilot = lab.pilot(&tuned("features = [\"rate-limit\"]\nhold_out_shift = 0\n"));
    lab.run(&format!("bulk --to {FAR}:5201 --seconds 12"));
    pilot.wait_closed(1);
    let found = tuning(&pilot);
    let rate = found["policed_rate"].as_u64().unwrap_or_default();
    // 5 Mbit/s are 625 000 bytes per second with headers.
    assert!((500_000..650_000).contains(&rate), "{found}");
    assert!(pilot.status()["tunings"]["set"]["rate-limit"].as_u64() >= Some(1));
}
