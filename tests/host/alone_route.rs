//! A route's `congctl` is the administrator's word in each form that the kernel keeps it.

use tcpilot_tests::{Actor, Lab, NEAR, Netns, Place, Sink, sh};

use crate::ALWAYS_BBR;

const SINK: u16 = 5300;
const PORT: u16 = 5401;

/// A host behind the far end, and a smaller MTU on the way to it.
struct Beyond {
    netns: Netns,
    lab: Lab,
}

const SMALL_MTU: u32 = 1300;
const BEYOND: [&str; 2] = ["10.99.0.2", "fd99::2"];

impl Beyond {
    fn new() -> Self {
        let (lab, netns) = (Lab::new(), Netns::new());
        let far = &lab.net.far;
        let (from, to) = (far.name(), netns.name());
        sh(&format!(
            "ip link add eth1 netns {from} type veth peer name eth0 netns {to}"
        ));
        for (end, host, device) in [(far, 1, "eth1"), (&netns, 2, "eth0")] {
            end.ip(&format!("addr add 10.99.0.{host}/24 dev {device}"));
            end.ip(&format!("addr add fd99::{host}/64 dev {device} nodad"));
            end.ip(&format!("link set {device} up"));
        }
        // On the router's side alone: the host beyond announces an MSS of its own, larger MTU.
        far.ip(&format!("link set eth1 mtu {SMALL_MTU}"));
        far.sysctl("net/ipv4/ip_forward", "1");
        far.sysctl("net/ipv6/conf/all/forwarding", "1");
        netns.ip("route add default via 10.99.0.1");
        netns.ip("route add default via fd99::1");
        Self { netns, lab }
    }

    /// Sets the near end's routes to the host beyond.
    fn route(&self, choice: &str) {
        let near = &self.lab.net.near;
        near.ip(&format!(
            "route replace 10.99.0.0/24 via 10.77.0.2 {choice}"
        ));
        near.ip(&format!("route replace fd99::/64 via fd77::2 {choice}"));
    }

    /// Sends more than fits the way, until the near end's kernel has noted an exception.
    fn find_mtu(&self, to: &str) {
        let mut application = Actor::new(Place::outside(&self.lab.net.near));
        application.tell(&format!("connect {}", at(to, SINK)));
        application.tell("send 100000");
        application.tell("info");
        let route = sh(&format!(
            "ip -n {} route get {to}",
            self.lab.net.near.name()
        ));
        assert!(route.contains(&format!("mtu {SMALL_MTU}")), "{route}");
    }
}

fn at(address: &str, port: u16) -> String {
    match address.contains(':') {
        true => format!("[{address}]:{port}"),
        false => format!("{address}:{port}"),
    }
}

/// For a choice that is the default, too, and for another one.
#[test]
fn the_routes_choice_behind_a_smaller_mtu() {
    let beyond = Beyond::new();
    let _sink = Sink::new(&beyond.netns, SINK);
    let pilot = beyond.lab.pilot(ALWAYS_BBR);
    let mut count = 0;
    for choice in ["reno", "cubic"] {
        beyond.route(&format!("congctl {choice}"));
        for to in BEYOND {
            beyond.find_mtu(to);
            let mut application = beyond.lab.actor();
            application.tell(&format!("connect {}", at(to, SINK)));
            assert_eq!(application.tell("cc"), choice, "{to}");
            count += 1;
            assert_eq!(pilot.opened("route"), count, "{to}, {choice}");
        }
    }
}

#[test]
fn a_servers_route_behind_a_smaller_mtu() {
    let beyond = Beyond::new();
    let _sink = Sink::new(&beyond.netns, SINK);
    let pilot = beyond.lab.pilot(ALWAYS_BBR);
    beyond.route("congctl reno");
    let mut server = beyond.lab.actor();
    server.tell(&format!("listen [::]:{PORT}"));
    for (count, (from, to)) in BEYOND.into_iter().zip([NEAR, "fd77::1"]).enumerate() {
        beyond.find_mtu(from);
        let mut client = Actor::new(Place::outside(&beyond.netns));
        client.tell(&format!("connect {}", at(to, PORT)));
        server.tell("accept");
        assert_eq!(server.tell("cc"), "reno", "{to}");
        assert_eq!(pilot.opened("route"), count as u64 + 1, "{to}");
    }
}

/// An exception alone is nobody's word.
#[test]
fn a_smaller_mtu_without_the_routes_choice() {
    let beyond = Beyond::new();
    let _sink = Sink::new(&beyond.netns, SINK);
    let pilot = beyond.lab.pilot(ALWAYS_BBR);
    for metrics in ["", "initcwnd 10"] {
        beyond.route(metrics);
        for to in BEYOND {
            beyond.find_mtu(to);
            let mut application = beyond.lab.actor();
            application.tell(&format!("connect {}", at(to, SINK)));
            assert_eq!(application.tell("cc"), "bbr", "{to}");
        }
    }
    assert_eq!(pilot.opened("route"), 0);
}
