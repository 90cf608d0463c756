//! `tcpilot watch` on kernels with VLANs and tunnels.

use tcpilot_host_tests::{Lab, Look, PORT, Place, Watching};

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

/// Packets in a tunnel count by their outer headers: `outer` is the counter that has them. On the
/// tunnel's own device the flow inside is a usual one.
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
fn in_gre_and_ipip_a_flow_is_other_packets_outside_and_a_flow_inside() {
    for kind in ["gre", "ipip"] {
        through_a_tunnel(kind, "other_packets");
    }
}

#[test]
fn in_vxlan_a_flow_is_unanswered_udp_outside_and_a_flow_inside() {
    through_a_tunnel("vxlan id 7 dstport 4789", "unproved_packets");
}
