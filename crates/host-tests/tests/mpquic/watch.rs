//! `tcpilot watch` names the algorithms of a real implementation of QUIC.

use serde_json::Value;
use tcpilot_host_tests::{Netns, Place, Watching, sh};

use crate::links::Links;

/// A path of 20 ms that the queue's own delay comes on top of: a queue at the far end delays the answers.
const AWAY: &str = "netem delay 20ms limit 10000";

fn is_named(control: &str, group: &str) {
    let net = Links::new(1, 1, "--quic");
    let watching = Watching::start(Place::outside(&net.near), "l1", &[]);
    let _flow = net.start(&format!("--transport quic --cc {control} --seconds 90"));
    let is_right = |flow: &Value| {
        flow["protocol"] == "quic" && flow["group"] == group && flow["algorithm"] == control
    };
    let flow = watching.until("it is seen", |look| look.to("10.1.1.2:5201").cloned());
    assert_eq!(flow["protocol"], "quic");
    watching.until(&format!("{control} is in {group}"), |look| {
        look.to("10.1.1.2:5201").filter(|flow| is_right(flow)).map(|_| ())
    });
}
