//! The published rule of loss, which epsilon-greedy has: a connection is switched once more than 1/64 of all its
//! segments were retransmitted. `rescue.rs` is about the rule that the default learner has.

use tcpilot_host_tests::{FAR, Lab, Shape, Sink, arm};

use crate::GREEDY;

/// Drops much of every burst: its queue holds four packets.
const LOSSY: Shape = Shape::Of("tbf rate 10mbit burst 2kb limit 6000");

/// Two arms: only cubic may be chosen, but the rescue may switch to the other.
fn cubic_and_rescue(rescue: &str) -> String {
    format!(
        r#"
        algorithms = ["cubic", "bbr"]
        replace_defaults = ["reno"]
        {GREEDY}
        [rescue]
        {rescue}
        [[policy]]
        name = "all"
        algorithms = ["cubic"]
        rescue = true
        "#
    )
}

#[test]
fn a_rescued_connection_is_charged_to_the_arm_first_chosen() {
    let lab = Lab::new();
    lab.net.shape(LOSSY);
    let _sink = Sink::new(&lab.net.far, 5300);
    let pilot = lab.pilot(&cubic_and_rescue(""));
    let mut application = lab.actor();
    application.tell(&format!("connect {FAR}:5300"));
    assert_eq!(application.tell("cc"), "cubic");
    application.tell("send 3000000");
    assert_eq!(application.tell("cc"), "bbr");
    let flow = &pilot.ask("flows")[0];
    assert_eq!(
        (&flow["why"], &flow["charged_to"]),
        (&"rescued".into(), &"cubic".into())
    );
    application.tell("close");
    pilot.wait_closed(1);
    assert_eq!(pilot.status()["rescues"], 1);
    let path = pilot.path("10.77.0.2");
    let (cubic, bbr) = (arm(&path, "cubic"), arm(&path, "bbr"));
    assert_eq!(
        (&cubic["samples"], &cubic["rescued"]),
        (&1.into(), &1.into())
    );
    assert_eq!((&bbr["samples"], &bbr["chosen"]), (&0.into(), &0.into()));
    assert!(
        bbr["cost"].is_null() && bbr["max_delivery_rate"].is_null(),
        "{bbr}"
    );
}

#[test]
fn a_connection_on_the_default_is_rescued_too() {
    let lab = Lab::new();
    lab.net.shape(LOSSY);
    let pilot = lab.pilot(
        r#"
        algorithms = ["reno"]
        replace_defaults = ["reno"]
        [learner]
        kind = "epsilon-greedy"
        "#,
    );
    lab.upload(FAR, 1, 3_000_000);
    pilot.wait_closed(1);
    assert_eq!(pilot.status()["rescues"], 1);
    let path = pilot.path("10.77.0.2");
    assert_eq!(arm(&path, "reno")["rescued"], 1);
    assert_eq!(path["live_flows"], 0);
}

#[test]
fn nothing_is_rescued_before_64_segments() {
    let lab = Lab::new();
    lab.net.shape(LOSSY);
    let pilot = lab.pilot(&cubic_and_rescue(""));
    lab.upload(FAR, 5, 15_000); // 11 segments and retransmissions
    pilot.wait_closed(5);
    let path = pilot.path("10.77.0.2");
    assert!(path["loss_ratio"].as_f64().unwrap() > 1.0 / 64.0, "{path}");
    assert_eq!(pilot.status()["rescues"], 0);
}

#[test]
fn with_a_lower_bound_such_connections_are_rescued() {
    let lab = Lab::new();
    lab.net.shape(LOSSY);
    let pilot = lab.pilot(&cubic_and_rescue("min_segments = 5"));
    lab.upload(FAR, 5, 15_000);
    pilot.wait_closed(5);
    // On a starved machine some lose no segment: they send too slowly to fill the queue.
    assert!(pilot.status()["rescues"].as_u64().unwrap() >= 3);
}

#[test]
fn what_the_application_chose_meanwhile_is_neither_rescued_nor_charged() {
    let lab = Lab::new();
    lab.net.shape(LOSSY);
    let _sink = Sink::new(&lab.net.far, 5300);
    let pilot = lab.pilot(&cubic_and_rescue(""));
    let mut application = lab.actor();
    application.tell(&format!("connect {FAR}:5300"));
    assert_eq!(application.tell("cc"), "cubic");
    application.tell("cc reno");
    application.tell("send 3000000");
    assert_eq!(application.tell("cc"), "reno");
    application.tell("close");
    pilot.wait_closed(1);
    let status = pilot.status();
    assert_eq!(
        (&status["rescues"], &status["charged"]),
        (&0.into(), &0.into())
    );
    let path = pilot.path("10.77.0.2");
    assert!(path["loss_ratio"].as_f64().unwrap() > 1.0 / 64.0, "{path}");
}
