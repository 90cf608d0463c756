//! Connections that are left alone, if it takes a VRF to show it.

use tcpilot_tests::{Actor, FAR, Lab, NEAR, Place, Sink};

use crate::config;

const SINK: u16 = 5300;

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
