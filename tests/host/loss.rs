//! The published rule of loss: a connection is switched once more than 1/64 of all its segments were retransmitted.
//! `rescue.rs` is about the default rule.

use tcpilot_tests::{FAR, Lab, Shape, Sink, arm};

/// Drops much of every burst: its queue holds four packets.
const LOSSY: Shape = Shape::Of("tbf rate 10mbit burst 2kb limit 6000");

/// With the published learner, which leaves so few connections on the kernel's default.
fn published(rescue: &str) -> String {
    format!(
        r#"
        algorithms = ["reno", "bbr"]
        replace_defaults = ["reno"]
        [learner]
        kind = "epsilon-greedy"
        min_instances = 100
        [rescue]
        published = true
        {rescue}
        [effect]
        hold_out_percent = 0
        "#
    )
}

#[test]
fn a_rescue_is_charged_to_the_first_arm() {
    let lab = Lab::new();
    lab.net.shape(LOSSY);
    let _sink = Sink::new(&lab.net.far, 5300);
    let pilot = lab.pilot(&published(""));
    let mut application = lab.actor();
    application.tell(&format!("connect {FAR}:5300"));
    assert_eq!(application.tell("cc"), "reno");
    application.tell("send 3000000");
    assert_eq!(application.tell("cc"), "bbr");
    let flow = &pilot.ask("flows")[0];
    assert_eq!(
        (&flow["why"], &flow["charged_to"]),
        (&"rescued".into(), &"bbr".into())
    );
    application.tell("close");
    pilot.wait_closed(1);
    assert_eq!(pilot.status()["rescues"], 1);
    let path = pilot.path("10.77.0.2");
    let (reno, bbr) = (arm(&path, "reno"), arm(&path, "bbr"));
    assert_eq!((&reno["samples"], &reno["rescued"]), (&1.into(), &1.into()));
    assert_eq!((&bbr["samples"], &bbr["chosen"]), (&0.into(), &0.into()));
}

#[test]
fn nothing_is_rescued_before_64_segments() {
    let lab = Lab::new();
    lab.net.shape(LOSSY);
    let pilot = lab.pilot(&published(""));
    lab.upload(FAR, 5, 17_000); // 12 segments and retransmissions
    pilot.wait_closed(5);
    let path = pilot.path("10.77.0.2");
    assert!(path["loss_ratio"].as_f64().unwrap() > 1.0 / 64.0, "{path}");
    assert_eq!(pilot.status()["rescues"], 0);
}

#[test]
fn with_a_lower_bound_such_connections_are_rescued() {
    let lab = Lab::new();
    lab.net.shape(LOSSY);
    let pilot = lab.pilot(&published("min_segments = 5"));
    lab.upload(FAR, 5, 17_000);
    pilot.wait_closed(5);
    // On a starved machine some lose no segment: they send too slowly to fill the queue.
    assert!(pilot.status()["rescues"].as_u64().unwrap() >= 3);
}

#[test]
fn an_applications_choice_is_neither_rescued_nor_charged() {
    let lab = Lab::new();
    lab.net.shape(LOSSY);
    let _sink = Sink::new(&lab.net.far, 5300);
    let pilot = lab.pilot(&published(""));
    let mut application = lab.actor();
    application.tell(&format!("connect {FAR}:5300"));
    assert_eq!(application.tell("cc"), "reno");
    application.tell("cc cubic");
    application.tell("send 3000000");
    assert_eq!(application.tell("cc"), "cubic");
    application.tell("close");
    pilot.wait_closed(1);
    let status = pilot.status();
    assert_eq!(
        (&status["rescues"], &status["charged"]),
        (&0.into(), &0.into())
    );
}
