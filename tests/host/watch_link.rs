//! `tcpilot watch`: what the link can do, and how much of it is used.

use tcpilot_tests::{Lab, Look, Place, Shape, Watching, sender_behind, sh};

use crate::watch_light_tracking::send;

/// Rate of the link below, bytes per second.
const CAPACITY: f64 = 1_250_000.0;

fn number(look: &Look, key: &str) -> f64 {
    look.totals[key].as_f64().unwrap_or(-1.0)
}

#[test]
fn a_link_shows_capacity_and_use() {
    let lab = Lab::new();
    let sender = sender_behind(&lab);
    lab.net
        .shape(Shape::Of("tbf rate 10mbit burst 3kb limit 60000"));
    let watching = Watching::start(Place::outside(&lab.net.near), "eth0", &[]);
    watching.until("nothing is known of an idle link", |look| {
        (look.totals["link_capacity"].is_null() && look.totals["link_used"].is_null()).then_some(())
    });
    let client = send(&sender, "--cc reno");
    // The rate of tbf: it counts a packet with its Ethernet header, as the watch does.
    watching.until("full, at its rate", |look| {
        let off = (number(look, "link_capacity") / CAPACITY - 1.0).abs();
        (off < 0.05 && number(look, "link_used") > 0.9).then_some(())
    });
    // The sender's own link is slower now: here is no queue, and what was measured stays.
    let slow = "qdisc add dev behind0 root tbf rate 6mbit burst 3kb limit 30000";
    sh(&format!("tc -n {} {slow}", sender.name()));
    watching.until("it has room, at the same rate", |look| {
        let off = (number(look, "link_capacity") / CAPACITY - 1.0).abs();
        let used = number(look, "link_used");
        (off < 0.05 && (0.5..0.7).contains(&used)).then_some(())
    });
    drop(client);
}

/// Leaving packets are seen as they are taken out of the queue, or at a tracepoint if there is none.
#[test]
fn packets_leave_with_a_queue_and_without() {
    let lab = Lab::new();
    let sender = sender_behind(&lab);
    let slow = "qdisc add dev behind0 root tbf rate 10mbit burst 3kb limit 30000";
    sh(&format!("tc -n {} {slow}", sender.name()));
    let watching = Watching::start(Place::outside(&lab.net.near), "eth0", &[]);
    let client = send(&sender, "--cc reno");
    for queue in ["pfifo", "noqueue", "tbf rate 20mbit burst 3kb limit 60000"] {
        lab.net.shape(Shape::Of(queue));
        watching.look();
        watching.look(); // has noticed it
        let before = watching.look();
        watching.look();
        let after = watching.look();
        let passed = |key| (after.total(key) - before.total(key)) as f64;
        let (came, left) = (passed("in_packets"), passed("out_packets"));
        assert!(came > 100.0, "{queue}: {came}");
        assert!(
            (left / came - 1.0).abs() < 0.05,
            "{queue}: {left} of {came}"
        );
    }
    drop(client);
}
