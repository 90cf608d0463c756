//! `tcpilot watch` on kernels with VLANs, tunnels, and netem.

use std::process::Stdio;

use tcpilot_abi::tp_round;
use tcpilot_tests::{
    Child, FAR, Lab, Look, Netns, PORT, Place, Running, Shape, Watching, sender_behind, sent_again,
    sh, until,
};

use crate::watch_recorded::recorded_rounds;

#[test]
fn a_tagged_flow_is_measured_as_any_other() {
    let lab = Lab::new();
    for (netns, host) in [(&lab.net.near, 1), (&lab.net.far, 2)] {
        netns.ip("link add link eth0 name eth0.7 type vlan id 7");
        netns.ip(&format!("addr add 10.78.0.{host}/24 dev eth0.7"));
        netns.ip("link set eth0.7 up");
    }
    let watching = Watching::start(Place::outside(&lab.net.near), "eth0", &[]);
    let to = format!("10.78.0.2:{PORT}");
    let _client = lab.start(&format!("bulk --to {to} --seconds 600"));
    watching.until(&to, |look| {
        (rounds(look, &to)? > 10 && look.to(&to)?["queue_us"].as_u64()? > 0).then_some(())
    });
}

fn rounds(look: &Look, to: &str) -> Option<u64> {
    look.to(to)?["rounds"].as_u64()
}

/// Packets in a tunnel count by their outer headers: `outer` is their counter. On the tunnel's own device the
/// flow inside is a usual one.
fn through_a_tunnel(kind: &str, outer: &str) {
    let lab = Lab::new();
    for (netns, host, peer) in [(&lab.net.near, 1, 2), (&lab.net.far, 2, 1)] {
        let ends = format!("local 10.77.0.{host} remote 10.77.0.{peer}");
        netns.ip(&format!("link add tun7 type {kind} {ends}"));
        netns.ip(&format!("addr add 10.81.0.{host}/24 dev tun7"));
        netns.ip("link set tun7 up");
    }
    let place = || Place::outside(&lab.net.near);
    let outside = Watching::start(place(), "eth0", &[]);
    let inside = Watching::start(place(), "tun7", &[]);
    let to = format!("10.81.0.2:{PORT}");
    let _client = lab.start(&format!("bulk --to {to} --seconds 600"));
    inside.until(&to, |look| (rounds(look, &to)? > 10).then_some(()));
    let look = outside.until(outer, |look| {
        (look.total(outer) > 500).then(|| look.clone())
    });
    assert!(look.flows.is_empty(), "{kind}: {look:?}");
}

#[test]
fn gre_and_ipip_hide_flows_outside() {
    for kind in ["gre", "ipip"] {
        through_a_tunnel(kind, "other_packets");
    }
}

#[test]
fn vxlan_is_unreplied_udp_outside() {
    through_a_tunnel("vxlan id 7 dstport 4789", "unproved_packets");
}

/// A sender whose acknowledgements are late by `ms` between the watched device and it.
fn far_sender(lab: &Lab, ms: u32) -> Netns {
    let sender = sender_behind(lab);
    let netns = lab.net.near.name();
    sh(&format!(
        "tc -n {netns} qdisc add dev behind0 root netem delay {ms}ms limit 10000"
    ));
    lab.net
        .shape(Shape::Of("handle 7: tbf rate 10mbit burst 3kb limit 30000"));
    sender
}

/// What a watch recorded of a flow from `sender` to the far end.
fn recorded(lab: &Lab, sender: &Netns, cc: &str) -> Vec<tp_round> {
    let file = lab.dir.path().join("rounds");
    let record = ["--record", file.to_str().unwrap()];
    let mut watching = Watching::start(Place::outside(&lab.net.near), "eth0", &record);
    let words = format!("bulk --to {FAR}:{PORT} --seconds 12 --cc {cc}");
    assert!(lab.try_run(Place::outside(sender), &words).status.success());
    watching.until("everything has left", |look| {
        (look.flows.len() == 1 && look.flows[0]["rate"] == 0).then_some(())
    });
    watching.child.signal(libc::SIGINT);
    assert!(watching.child.wait().success());
    recorded_rounds(&file)
}

/// At 10 Mbit/s and 60 ms a path holds 50 packets, and its queue 20 more. Reno has at least 35 under way. Of these
/// the device's own queue has none when it has just halved.
#[test]
fn a_far_senders_window_is_whole() {
    let lab = Lab::new();
    let rounds = recorded(&lab, &far_sender(&lab, 60), "reno");
    let later = &rounds[30..];
    let windows = later.iter().map(|r| r.flight_max_bytes / r.segment_bytes);
    let least = windows.clone().min().unwrap();
    assert!(least >= 28, "{least} packets");
    assert!(later.iter().any(|r| r.again_packets > 0), "it lost some");
    // Until its sender hears of a loss, it sends on, and all behind the lost packet is unacknowledged.
    let most = windows.max().unwrap();
    assert!(most >= 100, "{most} packets");
}

fn late(lab: &Lab, sender: &Netns) -> (Watching, Running) {
    let words = format!("bulk --to {FAR}:{PORT} --seconds 600");
    let mut command = Place::outside(sender).command("flowgen");
    command.args(words.split(' ')).stdout(Stdio::null());
    let client: Running = Child(command.spawn().unwrap());
    until("it sends", || {
        let text = sh(&format!(
            "tc -n {} -s qdisc show dev eth0",
            lab.net.near.name()
        ));
        (!text.contains("Sent 0 bytes")).then_some(())
    });
    let place = Place::outside(&lab.net.near);
    (Watching::start(place, "eth0", &[]), client)
}

#[test]
fn timestamps_show_a_late_watch_the_senders_share() {
    let lab = Lab::new();
    let sender = far_sender(&lab, 60);
    let (watching, _client) = late(&lab, &sender);
    let found = watching.until("a round trip", |look| {
        look.flows.first()?["min_rtt_us"].as_u64()
    });
    assert!(found >= 60_000, "{found} us");
}

#[test]
fn without_timestamps_a_late_watch_abstains() {
    let lab = Lab::new();
    let sender = far_sender(&lab, 60);
    sender.sysctl("net/ipv4/tcp_timestamps", "0");
    let (watching, _client) = late(&lab, &sender);
    let flow = watching.until("some rounds", |look| {
        let flow = look.flows.first()?;
        (flow["rounds"].as_u64()? > 40).then(|| flow.clone())
    });
    assert_eq!(
        flow["why"],
        "the sender's share of the round trip is not known"
    );
    assert_eq!(flow["group"], "unknown");
    assert!(flow["min_rtt_us"].is_null() && flow["rtt_us"].is_null());
}

/// Packets taken by the watch for retransmissions, and the sender's real retransmissions.
fn again_of(disorder: &str) -> (u64, u64) {
    let lab = Lab::new();
    let sender = far_sender(&lab, 20);
    let netns = sender.name();
    sh(&format!(
        "tc -n {netns} qdisc add dev behind0 root netem limit 10000 {disorder}"
    ));
    let rounds = recorded(&lab, &sender, "reno");
    let seen = rounds.iter().map(|r| u64::from(r.again_packets)).sum();
    (seen, sent_again(&sender))
}

/// Some 8000 packets pass, so that each disorder concerns 200.
#[test]
fn late_or_duplicated_packets_are_not_losses() {
    for disorder in [
        "duplicate 2.5%",
        "delay 4ms reorder 97.5%",
        "delay 4ms reorder 97.5% duplicate 2.5%", // the copies are late, too
    ] {
        let (seen, sent) = again_of(disorder);
        // Nothing late may count as lost. It misses some retransmissions (7 of 74 on 7.2). The reason is not
        // known yet.
        assert!(
            seen <= sent + 4 + sent / 50 && sent <= seen + 4 + sent / 5,
            "{disorder}: {seen} seen, {sent} sent"
        );
    }
}
