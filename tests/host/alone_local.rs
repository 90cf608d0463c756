//! Traffic that never leaves the host is left alone, whatever its addresses, at both of its ends.

use tcpilot_tests::{Actor, Daemon, FAR, Lab, NEAR, Place, Sink};

use crate::ALWAYS_BBR;

const SINK: u16 = 5300;
const PORT: u16 = 5401;

/// Addresses of the near end, the last two by local routes as of an anycast service.
const OWN: [&str; 5] = [
    NEAR,
    "[::ffff:10.77.0.1]",
    "[fd77::1]",
    "10.91.1.7",
    "[fd91::7]",
];

fn lab() -> Lab {
    let lab = Lab::new();
    lab.net.near.ip("route add local 10.91.0.0/16 dev lo");
    lab.net.near.ip("route add local fd91::/64 dev lo");
    lab
}

/// The congestion control of a new connection.
fn cc_towards(application: &mut Actor, to: &str) -> String {
    application.tell(&format!("connect {to}"));
    application.tell("cc")
}

fn assert_nothing_learned(pilot: &Daemon) {
    assert_eq!(pilot.ask("flows").as_array().unwrap().len(), 0);
    assert_eq!(pilot.prefixes(), [""; 0]);
    assert_eq!(pilot.status()["closed"], 0);
}

fn assert_steered(lab: &Lab) {
    let _sink = Sink::new(&lab.net.far, SINK);
    assert_eq!(
        cc_towards(&mut lab.actor(), &format!("{FAR}:{SINK}")),
        "bbr"
    );
}

#[test]
fn connections_to_the_hosts_own_addresses() {
    let lab = lab();
    let _sink = Sink::new(&lab.net.near, SINK);
    let pilot = lab.pilot(ALWAYS_BBR);
    for (count, to) in OWN.into_iter().enumerate() {
        let mut application = lab.actor();
        assert_eq!(
            cc_towards(&mut application, &format!("{to}:{SINK}")),
            "reno"
        );
        application.tell("send 200000");
        application.tell("info");
        assert_eq!(pilot.opened("loopback"), count as u64 + 1, "{to}");
    }
    assert_nothing_learned(&pilot);
    assert_steered(&lab);
}

#[test]
fn accepted_connections_from_the_hosts_own_addresses() {
    let lab = lab();
    let pilot = lab.pilot(ALWAYS_BBR);
    let mut server = lab.actor();
    server.tell(&format!("listen [::]:{PORT}"));
    for (count, to) in OWN.into_iter().enumerate() {
        let mut client = Actor::new(Place::outside(&lab.net.near));
        client.tell(&format!("connect {to}:{PORT}"));
        server.tell("accept");
        assert_eq!(server.tell("cc"), "reno", "{to}");
        server.tell("send 200000");
        assert_eq!(pilot.opened("loopback"), count as u64 + 1, "{to}");
    }
    assert_nothing_learned(&pilot);
    assert_steered(&lab);
}

#[test]
fn own_addresses_if_loopback_is_managed() {
    let lab = lab();
    let _sink = Sink::new(&lab.net.near, SINK);
    let pilot = lab.pilot(&format!("manage_loopback = true\n{ALWAYS_BBR}"));
    for to in OWN {
        assert_eq!(cc_towards(&mut lab.actor(), &format!("{to}:{SINK}")), "bbr");
    }
    assert_eq!(pilot.opened("loopback"), 0);
}

/// The user whose connections are handed to the proxy: everybody else's find it by the usual route.
const CLIENT: u32 = 1000;

/// Hands the client's packets to far addresses to a local listener, as a transparent proxy does. So the client's own
/// route leads out of the host.
fn hand_to_local_proxy(lab: &Lab) {
    let near = &lab.net.near;
    for (name, value) in [
        ("lo/accept_local", "1"),
        ("lo/rp_filter", "0"),
        ("all/rp_filter", "0"),
    ] {
        near.sysctl(&format!("net/ipv4/conf/{name}"), value);
    }
    near.ip("route add local 10.64.0.0/14 dev lo");
    near.ip(&format!(
        "rule add pref 10 uidrange {CLIENT}-{CLIENT} to 10.64.0.0/14 lookup main"
    ));
    near.ip("rule add pref 100 lookup local");
    near.ip("rule del pref 0");
    let tc = |line: &str| tcpilot_tests::sh(&format!("tc -n {} {line}", near.name()));
    tc("qdisc add dev eth0 clsact");
    tc(
        "filter add dev eth0 egress protocol ip u32 match ip dst 10.64.0.0/14 \
        action mirred ingress redirect dev lo",
    );
}

#[test]
fn connections_handed_to_a_local_proxy() {
    let lab = Lab::new();
    hand_to_local_proxy(&lab);
    let pilot = lab.pilot(ALWAYS_BBR);
    let mut proxy = lab.actor();
    proxy.tell(&format!("listen 0.0.0.0:{SINK}"));
    let mut client = lab.actor();
    client.tell(&format!("become {CLIENT}"));
    assert_eq!(
        cc_towards(&mut client, &format!("10.64.0.1:{SINK}")),
        "reno"
    );
    proxy.tell("accept");
    assert_eq!(proxy.tell("cc"), "reno");
    client.tell("send 20000");
    client.tell("info");
    // By the proxy's data the client's socket learns that it is loopback: then it is no longer listed.
    proxy.tell("send 20000");
    proxy.tell("info");
    assert_eq!(pilot.opened("loopback"), 2);
    assert_nothing_learned(&pilot);
}
