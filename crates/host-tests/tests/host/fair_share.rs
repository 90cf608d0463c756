//! `tcpilot watch --fair --share`: a host with many flows has one share.

use tcpilot_host_tests::{FAR, Lab, Look, PORT, Place, Watching};

const OTHER: &str = "10.77.0.4";

/// The part of the link's rate that flows to this host have.
fn part_of(look: &Look, host: &str) -> f64 {
    let rate = |f: &serde_json::Value| f["rate"].as_f64().unwrap_or(0.0);
    let all: f64 = look.flows.iter().map(rate).sum();
    let is_to = |f: &&serde_json::Value| {
        f["flow"]
            .as_str()
            .is_some_and(|name| name.contains(&format!("> {host}:")))
    };
    let own: f64 = look.flows.iter().filter(is_to).map(rate).sum();
    own / all.max(1.0)
}

/// Waits until the single flow to the other host has had such a part of the link in five looks in a row.
fn until_part(watching: &Watching, what: &str, is_wanted: impl Fn(f64) -> bool) -> Look {
    let mut in_a_row = 0;
    watching.until(what, |look| {
        let is_busy = look.flows.len() == 13 && look.total("link_rate") > 700_000;
        in_a_row = match is_busy && is_wanted(part_of(look, OTHER)) {
            true => in_a_row + 1,
            false => 0,
        };
        (in_a_row == 5).then(|| look.clone())
    })
}

#[test]
fn a_host_with_many_flows_has_one_share_if_asked_for() {
    let lab = Lab::new();
    lab.net.far.ip(&format!("addr add {OTHER}/24 dev eth0"));
    let many = format!("bulk --to {FAR}:{PORT} --seconds 600 --parallel 12 --cc reno");
    let _many = lab.start(&many);
    let _one = lab.start(&format!("bulk --to {OTHER}:{PORT} --seconds 600 --cc reno"));
    for (unit, what, most, least) in [
        ("destination", "half of the link for the one", 0.65, 0.4),
        ("flow", "a thirteenth for each", 0.2, 0.0),
        (
            "destination/16",
            "one share for both, as in one queue",
            0.4,
            0.0,
        ),
    ] {
        let words = ["--fair", "--rate", "8", "--queues", "4", "--share", unit];
        let watching = Watching::start(Place::outside(&lab.net.near), "eth0", &words);
        let look = until_part(&watching, what, |part| (least..most).contains(&part));
        let sharers = look.totals["fair"]["sharers"].as_u64().unwrap();
        match unit {
            "destination" => assert_eq!(sharers, 2),
            "flow" => assert!(sharers > 9, "{sharers}"),
            _ => assert_eq!(sharers, 1),
        }
    }
}
