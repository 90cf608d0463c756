//! Options of an MPTCP socket: of these only TCP_CONGESTION is the application's choice of an algorithm.

use tcpilot_tests::{Actor, Daemon, FAR, Lab, Place, Sink, serve_with, sh, until};

use crate::ALWAYS_BBR;

const OPTIONS: [&str; 4] = ["keepalive", "nodelay", "rcvbuf", "tos"];
/// Of a server that takes MPTCP, and of one that does not.
const SERVERS: [u16; 2] = [5310, 5300];

/// An application whose sockets speak MPTCP, and have an option set before they connect or listen.
fn application(place: Place<'_>, option: &str) -> Actor {
    let mut actor = Actor::new(place);
    actor.tell("mptcp");
    actor.tell(&format!("option {option}"));
    actor
}

fn algorithms(pilot: &Daemon) -> Vec<String> {
    let flows = pilot.ask("flows");
    let flows = flows.as_array().unwrap().iter();
    flows
        .map(|f| f["algorithm"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn an_mptcp_clients_other_options() {
    let lab = Lab::new();
    let _mptcp = serve_with(Place::outside(&lab.net.far), SERVERS[0], &["--mptcp"]);
    let _plain = Sink::new(&lab.net.far, SERVERS[1]);
    let pilot = lab.pilot(ALWAYS_BBR);
    for option in OPTIONS {
        for port in SERVERS {
            let mut client = application(lab.near(), option);
            client.tell(&format!("connect {FAR}:{port}"));
            assert_eq!(client.tell("cc"), "bbr", "{option}, {port}");
        }
    }
    assert_eq!(pilot.opened("application"), 0);
}

#[test]
fn an_mptcp_servers_other_options() {
    let lab = Lab::new();
    let pilot = lab.pilot(ALWAYS_BBR);
    for (port, option) in (5401..).zip(OPTIONS) {
        let mut server = application(Place::new(&lab.net.far, &lab.cgroup), option);
        server.tell(&format!("listen 0.0.0.0:{port}"));
        for speaks_mptcp in [true, false] {
            let mut client = Actor::new(Place::outside(&lab.net.near));
            if speaks_mptcp {
                client.tell("mptcp");
            }
            client.tell(&format!("connect {FAR}:{port}"));
            server.tell("accept");
            assert_eq!(server.tell("cc"), "bbr", "{option}, {speaks_mptcp}");
        }
    }
    assert_eq!(pilot.opened("application"), 0);
}

#[test]
fn a_joining_subflow_of_both_ends() {
    let lab = Lab::new();
    let (near, far) = (&lab.net.near, &lab.net.far);
    near.ip("addr add 10.77.0.11/24 dev eth0");
    for netns in [near, far] {
        netns.ip("mptcp limits set subflows 2 add_addr_accepted 2");
    }
    near.ip("mptcp endpoint add 10.77.0.11 dev eth0 subflow");
    let pilot = lab.pilot(ALWAYS_BBR);
    let mut server = application(Place::new(far, &lab.cgroup), "keepalive");
    server.tell("listen 0.0.0.0:5401");
    let mut client = application(lab.near(), "keepalive");
    client.tell(&format!("connect {FAR}:5401"));
    server.tell("accept");
    client.tell("send 20000");
    until("both ends have both subflows", || {
        (pilot.opened("drawn") + pilot.opened("application") >= 4
            || pilot.opened("nothing-known") >= 4)
            .then_some(())
    });
    assert_eq!(pilot.opened("application"), 0);
    for netns in [near, far] {
        let sockets = sh(&format!(
            "ip netns exec {} ss -Htni state established",
            netns.name()
        ));
        assert_eq!(sockets.matches(" bbr ").count(), 2, "{sockets}");
    }
    assert!(algorithms(&pilot).iter().all(|name| name == "bbr"));
}

#[test]
fn an_mptcp_applications_choice_is_kept() {
    let lab = Lab::new();
    let _mptcp = serve_with(Place::outside(&lab.net.far), SERVERS[0], &["--mptcp"]);
    let _plain = Sink::new(&lab.net.far, SERVERS[1]);
    let pilot = lab.pilot(ALWAYS_BBR);
    for port in SERVERS {
        let mut client = application(lab.near(), "keepalive");
        client.tell(&format!("connect {FAR}:{port} cubic"));
        assert_eq!(client.tell("cc"), "cubic", "{port}");
    }
    let mut server = application(Place::new(&lab.net.far, &lab.cgroup), "keepalive");
    server.tell("listen 0.0.0.0:5401 cubic");
    for speaks_mptcp in [true, false] {
        let mut client = Actor::new(Place::outside(&lab.net.near));
        if speaks_mptcp {
            client.tell("mptcp");
        }
        client.tell(&format!("connect {FAR}:5401"));
        server.tell("accept");
        assert_eq!(server.tell("cc"), "cubic", "{speaks_mptcp}");
    }
    assert_eq!(pilot.opened("application"), 4);
}
