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

/// Waits until the link is full, all flows are seen, and the single flow to the other host has a part of the link that
/// is wanted, in `looks` looks in a row.
fn until_part(
    watching: &Watching,
    looks: u32,
    what: &str,
    is_wanted: impl Fn(f64) -> bool,
) -> Look {
    let mut in_a_row = 0;
    watching.until(what, |look| {
        let is_busy = look.flows.len() == 13 && look.total("link_rate") > 700_000;
        in_a_row = match is_busy && is_wanted(part_of(look, OTHER)) {
            true => in_a_row + 1,
            false => 0,
        };
        (in_a_row == looks).then(|| look.clone())
    })
}

#[test]
fn a_host_with_many_flows_has_one_share_if_asked_for() {
    let lab = Lab::new();
    lab.net.far.ip(&format!("addr add {OTHER}/24 dev eth0"));
    let many = format!("bulk --to {FAR}:{PORT} --seconds 600 --parallel 12 --cc reno");
    let _many = lab.start(&many);
    let _one = lab.start(&format!("bulk --to {OTHER}:{PORT} --seconds 600 --cc reno"));
    let watch = |unit| {
        let words = ["--fair", "--rate", "8", "--queues", "4", "--share", unit];
        Watching::start(Place::outside(&lab.net.near), "eth0", &words)
    };
    let sharers = |look: &Look| look.totals["fair"]["sharers"].as_u64().unwrap();

    let each_host = watch("destination");
    let look = until_part(&each_host, 5, "half of the link for the one", |part| {
        (0.4..0.65).contains(&part)
    });
    assert_eq!(sharers(&look), 2);
    drop(each_host);

    let each_flow = watch("flow");
    let look = until_part(&each_flow, 5, "a thirteenth for each", |part| part < 0.2);
    assert!(sharers(&look) > 9, "{}", sharers(&look));
    drop(each_flow);

    // All of them are one sharer, in one queue. Who gets what there is decided by whose packets are dropped.
    let both_hosts = watch("destination/16");
    let look = until_part(&both_hosts, 1, "all flows under one share", |_| true);
    assert_eq!(sharers(&look), 1);
}
