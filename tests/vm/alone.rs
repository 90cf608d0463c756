//! Connections that are left alone, if it takes a VRF or IPsec to show it.

use tcpilot_tests::{Actor, FAR, Lab, NEAR, Netns, Place, Sink, sh};

use crate::config;

const SINK: u16 = 5300;
const FAR_IPV6: &str = "fd77::2";
const NEAR_IPV6: &str = "fd77::1";
const KEY: &str = "0x000102030405060708090a0b0c0d0e0f10111213";

/// All TCP between two addresses is encrypted, in both directions.
fn encrypt(netns: &Netns, own: &str, peer: &str) {
    for (from, to, direction) in [(own, peer, "out"), (peer, own, "in")] {
        netns.ip(&format!(
            "xfrm state add src {from} dst {to} proto esp spi 1 mode transport \
             aead rfc4106(gcm(aes)) {KEY} 128"
        ));
        netns.ip(&format!(
            "xfrm policy add src {from} dst {to} proto 6 dir {direction} \
             tmpl src {from} dst {to} proto esp mode transport"
        ));
    }
}

#[test]
fn the_routes_choice_with_ipsec() {
    let lab = Lab::new();
    let (near, far) = (&lab.net.near, &lab.net.far);
    let _sink = Sink::new(far, SINK);
    for (own, peer) in [(NEAR, FAR), (NEAR_IPV6, FAR_IPV6)] {
        encrypt(near, own, peer);
        encrypt(far, peer, own);
    }
    let pilot = lab.pilot(&config(r#"["bbr"]"#));
    let addresses = [format!("{FAR}:{SINK}"), format!("[{FAR_IPV6}]:{SINK}")];
    let algorithms = || {
        addresses.each_ref().map(|to| {
            let mut application = lab.actor();
            application.tell(&format!("connect {to}"));
            application.tell("cc")
        })
    };
    assert_eq!(algorithms(), ["bbr", "bbr"]);
    for choice in ["reno", "cubic"] {
        near.ip(&format!("route replace {FAR}/32 dev eth0 congctl {choice}"));
        near.ip(&format!(
            "route replace {FAR_IPV6}/128 dev eth0 congctl {choice}"
        ));
        assert_eq!(algorithms(), [choice, choice]);
    }
    assert_eq!(pilot.opened("route"), 4);
    let states = sh(&format!("ip -n {} -s xfrm state", near.name()));
    assert!(!states.contains(" 0(bytes)"), "not encrypted: {states}");
}

#[test]
fn own_addresses_in_a_vrf() {
    let lab = Lab::new();
    let near = &lab.net.near;
    near.ip("link add vrf0 type vrf table 10");
    near.ip("link set vrf0 up");
    near.ip("link set eth0 master vrf0");
    near.ip("addr replace fd77::1/64 dev eth0 nodad"); // lost with the device's table
    near.sysctl("net/ipv4/tcp_l3mdev_accept", "1");
    let (_far, _near) = (Sink::new(&lab.net.far, SINK), Sink::new(near, SINK));
    let pilot = lab.pilot(&config(r#"["bbr"]"#));
    for (to, expected) in [
        (NEAR, "reno"),
        ("[fd77::1]", "reno"),
        (FAR, "bbr"),
        ("[fd77::2]", "bbr"),
    ] {
        let mut application = lab.actor();
        application.tell("device vrf0");
        application.tell(&format!("connect {to}:{SINK}"));
        assert_eq!(application.tell("cc"), expected, "{to}");
    }
    assert_eq!(pilot.opened("loopback"), 2);
    let mut server = lab.actor();
    server.tell("listen [::]:5401");
    let mut client = Actor::new(Place::outside(near));
    client.tell("device vrf0");
    client.tell(&format!("connect {NEAR}:5401"));
    server.tell("accept");
    assert_eq!(server.tell("cc"), "reno");
    assert_eq!(pilot.opened("loopback"), 3);
}
