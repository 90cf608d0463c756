//! `tcpilot watch`: what the link can do, and how much of it is used.

use tcpilot_host_tests::{Lab, Look, Place, Shape, Watching, sh};

use crate::{watch_losses::sender_behind, watch_naps::send};

/// Of the link below, bytes per second.
const CAPACITY: f64 = 1_250_000.0;

fn number(look: &Look, key: &str) -> f64 {
    look.totals[key].as_f64().unwrap_or(-1.0)
}

#[test]
fn a_link_shows_what_it_can_do_and_that_it_has_room() {
    let lab = Lab::new();
    let sender = sender_behind(&lab);
    lab.net
        .shape(Shape::Of("tbf rate 10mbit burst 3kb limit 60000"));
    let watching = Watching::start(Place::outside(&lab.net.near), "eth0", &[]);
    watching.until("nothing is known of an idle link", |look| {
        (look.totals["link_capacity"].is_null() && look.totals["link_used"].is_null()).then_some(())
    });
    let client = send(&sender, "--cc reno");
    // The rate of tbf, which counts a packet with its Ethernet header, as the watch does.
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
