//! Tests that need netem, HTCP and DCTCP. They run only in machines, by `tests/run.sh`.
#![allow(
    clippy::unwrap_used,
    reason = "clippy takes only the test functions themselves for tests, not their helpers"
)]

mod alone;
mod cost;
mod fair;
#[path = "../host/learner.rs"]
#[allow(dead_code, reason = "the other tests use all of it")]
mod learner;
mod rescue;
mod tuning;
mod watch;
#[path = "../host/watch_recorded.rs"]
mod watch_recorded;

use std::fs;

use tcpilot_tests::{Actor, FAR, Lab, PORT, Place, Shape, Sink, arm};

const FAR_PATH: &str = "10.77.0.2";

fn config(arms: &str) -> String {
    format!(
        r#"
        algorithms = {arms}
        replace_defaults = ["reno"]
        [rescue]
        algorithm = ""
        [effect]
        hold_out_percent = 0
        "#
    )
}

/// Makes netem draw losses for each packet, and not for each burst that the host hands over in one piece.
fn impair(lab: &Lab, netem: &'static str) {
    lab.net.near.ip("link set eth0 gso_max_segs 1");
    lab.net.shape(Shape::Of(netem));
}

fn set_ecn(lab: &Lab, mode: &str) {
    for netns in [&lab.net.near, &lab.net.far] {
        netns.sysctl("net/ipv4/tcp_ecn", mode);
    }
}

#[test]
fn dctcp_is_never_chosen_without_negotiated_ecn() {
    let lab = Lab::new();
    set_ecn(&lab, "0");
    let pilot = lab.pilot(&config(r#"["reno", "dctcp"]"#));
    assert_eq!(
        pilot.status()["algorithms"],
        serde_json::json!(["reno", "dctcp"])
    );
    lab.upload(FAR, 12, 200_000);
    pilot.wait_closed(12);
    let path = pilot.path(FAR_PATH);
    assert_eq!(
        (
            &arm(&path, "dctcp")["chosen"],
            &arm(&path, "reno")["chosen"]
        ),
        (&0.into(), &12.into())
    );
}

#[test]
fn dctcp_alone_without_ecn_leaves_the_default() {
    let lab = Lab::new();
    set_ecn(&lab, "0");
    let _sink = Sink::new(&lab.net.far, 5300);
    let pilot = lab.pilot(&config(r#"["dctcp"]"#));
    let mut application = lab.actor();
    application.tell(&format!("connect {FAR}:5300"));
    assert_eq!(application.tell("cc"), "reno");
    assert_eq!(pilot.opened("no-algorithm"), 1);
}

#[test]
fn long_rtt_private_path_is_no_data_center() {
    let lab = Lab::new();
    set_ecn(&lab, "1");
    impair(&lab, "netem delay 20ms");
    let pilot = lab.pilot(&config(r#"["reno", "dctcp"]"#));
    lab.upload(FAR, 12, 200_000);
    pilot.wait_closed(12);
    let path = pilot.path(FAR_PATH);
    let dctcp = arm(&path, "dctcp");
    assert_eq!(dctcp["chosen"], 0);
    let why = dctcp["not_eligible"].as_str().unwrap();
    assert!(why.contains("not taken for a data center's"), "{why}");
}

#[test]
fn dctcp_may_be_chosen_where_ecn_was_negotiated() {
    let lab = Lab::new();
    set_ecn(&lab, "1");
    let _sink = Sink::new(&lab.net.far, 5300);
    let policy = "[[policy]]\nname = \"fabric\"\nnetwork = \"data-center\"";
    let pilot = lab.pilot(&(config(r#"["dctcp"]"#) + policy));
    let mut application = lab.actor();
    application.tell(&format!("connect {FAR}:5300"));
    assert_eq!(application.tell("cc"), "dctcp");
    let mut server = Actor::new(Place::new(&lab.net.far, &lab.cgroup));
    server.tell("listen 0.0.0.0:5401");
    Actor::new(Place::outside(&lab.net.near)).tell(&format!("connect {FAR}:5401"));
    server.tell("accept");
    assert_eq!(server.tell("cc"), "dctcp");
    assert_eq!(pilot.opened("drawn"), 2);
}

#[test]
fn module_of_configured_arm_is_loaded() {
    let registered =
        || fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap();
    assert!(!registered().contains("htcp"));
    let lab = Lab::new();
    let _sink = Sink::new(&lab.net.far, 5300);
    let pilot = lab.pilot(&config(r#"["htcp"]"#));
    assert!(registered().contains("htcp"));
    assert_eq!(pilot.status()["algorithms_missing"], serde_json::json!([]));
    let mut application = lab.actor();
    application.tell(&format!("connect {FAR}:5300"));
    assert_eq!(application.tell("cc"), "htcp");
}

/// By the published rule. `rescue.rs` has the default learner's.
#[test]
fn under_random_loss_a_connection_is_rescued() {
    let lab = Lab::new();
    impair(&lab, "netem delay 5ms loss 5%");
    let published = config(r#"["reno", "bbr"]"#).replace("algorithm = \"\"", "published = true");
    let learner = "[learner]\nkind = \"epsilon-greedy\"\nmin_instances = 100\n"; // so reno comes first
    let pilot = lab.pilot(&format!("{published}{learner}"));
    lab.upload(FAR, 1, 1_000_000);
    pilot.wait_closed(1);
    assert_eq!(pilot.status()["rescues"], 1);
    assert_eq!(arm(&pilot.path(FAR_PATH), "reno")["samples"], 1);
}

/// The kernel marks every rate sample behind a full send buffer as application-limited.
#[test]
fn send_buffer_limited_connection_has_a_rate() {
    let lab = Lab::new();
    lab.net.near.sysctl("net/ipv4/tcp_wmem", "4096 16384 65536");
    // On a starved machine the buffer may have drained by the time of a FIN: long round trips, and
    // more than one connection.
    impair(&lab, "netem delay 200ms");
    let pilot = lab.pilot(&config(r#"["reno"]"#));
    lab.run(&format!("bulk --to {FAR}:{PORT} --seconds 2 --count 3"));
    pilot.wait_closed(3);
    let path = pilot.path(FAR_PATH);
    // At most a buffer per round trip.
    let rate = path["max_delivery_rate"].as_u64().unwrap_or_default();
    assert!(rate > 0 && rate < 65536 * 5, "{path}");
    assert_eq!(arm(&path, "reno")["samples"], 3);
}
