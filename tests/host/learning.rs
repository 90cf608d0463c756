//! Learning from a connection, however it ends.

use tcpilot_tests::{FAR, Lab, PORT, Shape, Sink, arm, until};

use crate::{ALWAYS_BBR, ALWAYS_RENO};

const FAR_PATH: &str = "10.77.0.2";

#[test]
fn a_slow_link_has_a_rate() {
    let lab = Lab::new();
    lab.net
        .shape(Shape::Of("tbf rate 1mbit burst 2kb latency 400ms"));
    let pilot = lab.pilot(ALWAYS_RENO);
    // Now and then the kernel calls a connection's last sample application-limited, here about one in twelve: it
    // had sent all its data before the application could add more.
    lab.upload(FAR, 6, 100_000);
    pilot.wait_closed(6);
    let rate = pilot.path(FAR_PATH)["max_delivery_rate"].as_u64().unwrap();
    // 125 000 bytes per second with headers; the last sample may catch a burst or a pause.
    assert!((2_000..600_000).contains(&rate), "{rate}");
}

#[test]
fn an_application_limited_flow_sets_no_rate() {
    let lab = Lab::new();
    let pilot = lab.pilot(&format!("{ALWAYS_RENO}\n[learner]\nbytes_min = 1"));
    // A packet takes 12 ms: long enough for the kernel's ticks to show the time under way.
    lab.net
        .shape(Shape::Of("tbf rate 1mbit burst 2kb limit 60000"));
    lab.run(&format!(
        "hold --to {FAR}:{PORT} --connections 2 --seconds 1 --rate-bytes-per-s 20000"
    ));
    lab.net.shape(Shape::Usual);
    pilot.wait_closed(2);
    let path = pilot.path(FAR_PATH);
    assert!(path["min_rtt_us"].is_u64(), "{path}");
    assert!(path["max_delivery_rate"].is_null(), "{path}");
    assert!(arm(&path, "reno")["max_delivery_rate"].is_null(), "{path}");
    lab.upload(FAR, 1, 2_000_000);
    pilot.wait_closed(3);
    assert!(pilot.path(FAR_PATH)["max_delivery_rate"].is_u64());
}

#[test]
fn a_late_close_keeps_the_rate_of_data() {
    let lab = Lab::new();
    lab.net
        .shape(Shape::Of("tbf rate 20mbit burst 5kb latency 50ms"));
    let sink = Sink::new(&lab.net.far, 5300);
    let pilot = lab.pilot(ALWAYS_RENO);
    // The acknowledgement of a late FIN is a rate sample of one packet, not application-limited:
    // here it would mostly show many times the link's rate.
    for count in 1..=5 {
        let mut application = lab.actor();
        application.tell(&format!("connect {FAR}:5300"));
        application.tell("send 1000000");
        sink.wait_for(count * 1_000_000);
        until("all is acknowledged", || {
            (pilot.ask("flows")[0]["bytes_acked"].as_u64()? >= 1_000_000).then_some(())
        });
        application.tell("close");
        pilot.wait_closed(count);
    }
    let rate = pilot.path(FAR_PATH)["max_delivery_rate"].as_u64().unwrap();
    assert!((1_000_000..5_000_000).contains(&rate), "{rate}");
}

#[test]
fn a_small_flow_is_not_charged() {
    let lab = Lab::new();
    let pilot = lab.pilot(ALWAYS_RENO);
    lab.upload(FAR, 5, 10_000);
    pilot.wait_closed(5);
    assert_eq!(pilot.status()["charged"], 0);
    lab.upload(FAR, 1, 1_000_000);
    pilot.wait_closed(6);
    assert_eq!(pilot.status()["charged"], 1);
    assert_eq!(arm(&pilot.path(FAR_PATH), "reno")["samples"], 1);
}

#[test]
fn a_reset_connection_is_charged() {
    let lab = Lab::new();
    let pilot = lab.pilot(ALWAYS_BBR);
    lab.run(&format!("abort --to {FAR}:{PORT} --bytes 2M --how reset"));
    pilot.wait_closed(1);
    assert_eq!(arm(&pilot.path(FAR_PATH), "bbr")["samples"], 1);
}

#[test]
fn a_connection_that_its_peer_resets_is_charged() {
    let lab = Lab::new();
    let _server = lab.serve_in_cgroup(5202);
    let pilot = lab.pilot(ALWAYS_BBR);
    let abort = format!("abort --to {FAR}:5202 --bytes 1M --how vanish");
    lab.try_run(tcpilot_tests::Place::outside(&lab.net.near), &abort);
    pilot.wait_closed(1);
    assert_eq!(arm(&pilot.path("10.77.0.1"), "bbr")["samples"], 1);
}

#[test]
fn data_queued_at_the_close_counts() {
    let lab = Lab::new();
    lab.net
        .shape(Shape::Of("tbf rate 3mbit burst 8kb latency 3s"));
    let _sink = Sink::new(&lab.net.far, 5300);
    // Charged only if nearly all of the megabyte was acknowledged by the time of the sample.
    let config = format!("{ALWAYS_RENO}\n[learner]\nbytes_min = 990000");
    let pilot = lab.pilot(&config);
    let mut application = lab.actor();
    application.tell(&format!("connect {FAR}:5300"));
    application.tell("buffer 2000000");
    application.tell("send 1000000");
    application.tell("close");
    assert_eq!(pilot.status()["closed"], 0, "the data is still under way");
    pilot.wait_closed(1);
    assert_eq!(pilot.status()["charged"], 1);
}

#[test]
fn no_connection_stays_counted_when_all_ended() {
    let lab = Lab::new();
    let pilot = lab.pilot(&ALWAYS_BBR.replace(r#"["bbr"]"#, r#"["reno", "bbr", "cubic"]"#));
    lab.run(&format!(
        "bulk --to {FAR}:{PORT} --bytes 100k --count 40 --parallel 8"
    ));
    lab.run(&format!("short --to {FAR}:{PORT} --count 60"));
    pilot.wait_closed(100);
    let path = pilot.path(FAR_PATH);
    assert_eq!(path["live_flows"], 0, "{path}");
    // One short connection in sixteen counts for all, by its ports.
    let connections = path["connections"].as_u64().unwrap();
    assert!(connections >= 40, "{path}");
    let chosen: u64 = ["reno", "bbr", "cubic"]
        .iter()
        .map(|name| arm(&path, name)["chosen"].as_u64().unwrap())
        .sum();
    assert_eq!(chosen, connections);
}

#[test]
fn a_live_connection_is_counted_until_it_ends() {
    let lab = Lab::new();
    let _sink = Sink::new(&lab.net.far, 5300);
    let pilot = lab.pilot(ALWAYS_BBR);
    let mut application = lab.actor();
    application.tell(&format!("connect {FAR}:5300"));
    application.tell("send 200000");
    application.tell("close");
    pilot.wait_closed(1);
    application.tell(&format!("connect {FAR}:5300"));
    assert_eq!(application.tell("cc"), "bbr");
    assert_eq!(pilot.path(FAR_PATH)["live_flows"], 1);
    application.tell("close");
    until("the connection is gone", || {
        (pilot.path(FAR_PATH)["live_flows"] == 0).then_some(())
    });
}

#[test]
fn a_reconnecting_socket_is_steered_again() {
    let lab = Lab::new();
    let _sink = Sink::new(&lab.net.far, 5300);
    let pilot = lab.pilot(ALWAYS_BBR);
    let mut application = lab.actor();
    application.tell(&format!("connect {FAR}:5300"));
    application.tell("send 100000");
    application.tell("disconnect");
    pilot.wait_closed(1);
    // Nobody listens there, and nothing ends.
    application
        .try_tell(&format!("reconnect {FAR}:5301"))
        .unwrap_err();
    assert_eq!(pilot.status()["closed"], 1);
    application.tell(&format!("reconnect {FAR}:5300"));
    assert_eq!(pilot.status()["live_flows"], 1);
    let flow = &pilot.ask("flows")[0];
    assert_eq!(
        (&flow["why"], &flow["charged_to"]),
        (&"drawn".into(), &"bbr".into()),
        "{flow}"
    );
    assert_eq!(pilot.opened("application"), 0);
    application.tell("send 100000");
    application.tell("close");
    pilot.wait_closed(2);
    assert_eq!(pilot.status()["live_flows"], 0);
    assert_eq!(pilot.opened("drawn"), 2);
    // The application's own choice stays its own, again and again.
    application.tell(&format!("connect {FAR}:5300 reno"));
    application.tell("disconnect");
    application.tell(&format!("reconnect {FAR}:5300"));
    assert_eq!(pilot.opened("application"), 2);
}

/// By default the kernel remembers a host's RTT, reordering and more (net.ipv4.tcp_no_metrics_save = 0); the other
/// tests switch this memory off. One algorithm's loss must not become another's threshold.
#[test]
fn the_kernels_own_memory_does_not_affect_starts() {
    let lab = Lab::new();
    for netns in [&lab.net.near, &lab.net.far] {
        netns.sysctl("net/ipv4/tcp_no_metrics_save", "0");
    }
    lab.net
        .shape(Shape::Of("tbf rate 10mbit burst 2kb limit 6000"));
    let _sink = Sink::new(&lab.net.far, 5300);
    let pilot = lab.pilot(ALWAYS_RENO);
    let mut application = lab.actor();
    application.tell(&format!("connect {FAR}:5300"));
    application.tell("send 3000000");
    let flow = &pilot.ask("flows")[0];
    assert!(flow["ssthresh"].is_u64(), "{flow}");
    application.tell("close");
    pilot.wait_closed(1);
    application.tell(&format!("connect {FAR}:5300"));
    let flow = &pilot.ask("flows")[0];
    assert_eq!(
        (&flow["ssthresh"], &flow["cwnd"]),
        (&serde_json::Value::Null, &10.into()),
        "{flow}"
    );
    application.tell("close");
    pilot.wait_closed(2);
    let path = pilot.path(FAR_PATH);
    assert_eq!(arm(&path, "reno")["samples"], 1, "{path}");
}
