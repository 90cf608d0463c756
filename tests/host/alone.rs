//! Connections left alone. Every test also steers the same connection without the reason.

use tcpilot_tests::{Actor, Cgroup, Daemon, FAR, Lab, Pair, Place, Sink};

use crate::ALWAYS_BBR;

const SINK: u16 = 5300;

/// Connects, and returns the new connection's congestion control.
fn cc_towards(application: &mut Actor, to: &str) -> String {
    application.tell(&format!("connect {to}"));
    application.tell("cc")
}

fn assert_steered(lab: &Lab, to: &str) {
    assert_eq!(cc_towards(&mut lab.actor(), to), "bbr");
}

fn far(port: u16) -> String {
    format!("{FAR}:{port}")
}

#[test]
fn the_applications_choice_before_connect() {
    let lab = Lab::new();
    let _sink = Sink::new(&lab.net.far, SINK);
    let pilot = lab.pilot(ALWAYS_BBR);
    for choice in ["cubic", "reno"] {
        // reno is the default, too, but here somebody chose it
        let mut application = lab.actor();
        application.tell(&format!("connect {} {choice}", far(SINK)));
        assert_eq!(application.tell("cc"), choice);
        let flows = pilot.ask("flows");
        assert_eq!(flows[0]["why"], "application", "{flows}");
    }
    assert_eq!(pilot.opened("application"), 2);
    assert_eq!(pilot.prefixes(), [""; 0]);
    assert_steered(&lab, &far(SINK));
}

#[test]
fn the_applications_choice_on_the_listener() {
    let lab = Lab::new();
    let pilot = lab.pilot(ALWAYS_BBR);
    for (port, choice, has) in [(5401, " cubic", "cubic"), (5402, "", "bbr")] {
        let mut server = Actor::new(Place::new(&lab.net.far, &lab.cgroup));
        server.tell(&format!("listen 0.0.0.0:{port}{choice}"));
        Actor::new(Place::outside(&lab.net.near)).tell(&format!("connect {}", far(port)));
        server.tell("accept");
        assert_eq!(server.tell("cc"), has);
    }
    assert_eq!(pilot.opened("application"), 1);
}

#[test]
fn the_routes_choice_locked_or_not() {
    let lab = Lab::new();
    let _sink = Sink::new(&lab.net.far, SINK);
    let pilot = lab.pilot(ALWAYS_BBR);
    for (to, choice) in [
        ("10.64.0.1", "congctl cubic"),
        ("10.64.0.2", "congctl lock cubic"),
    ] {
        lab.net
            .near
            .ip(&format!("route add {to}/32 via {FAR} {choice}"));
        let has = cc_towards(&mut lab.actor(), &format!("{to}:{SINK}"));
        assert_eq!(has, "cubic", "{choice}");
    }
    assert_eq!(pilot.opened("route"), 2);
    assert_steered(&lab, &format!("10.64.0.3:{SINK}"));
}

#[test]
fn the_routes_choice_for_accepted_connections() {
    let lab = Lab::new();
    let pilot = lab.pilot(ALWAYS_BBR);
    lab.net
        .far
        .ip("route add 10.77.0.1/32 dev eth0 congctl cubic");
    let mut server = Actor::new(Place::new(&lab.net.far, &lab.cgroup));
    server.tell("listen 0.0.0.0:5401");
    Actor::new(Place::outside(&lab.net.near)).tell(&format!("connect {}", far(5401)));
    server.tell("accept");
    assert_eq!(server.tell("cc"), "cubic");
    assert_eq!(pilot.opened("route"), 1);
}

#[test]
fn the_administrators_default() {
    let lab = Lab::new();
    let _sink = Sink::new(&lab.net.far, SINK);
    let config = ALWAYS_BBR.replace(r#"["reno"]"#, r#"["cubic"]"#);
    let pilot = lab.pilot(&config);
    assert_eq!(cc_towards(&mut lab.actor(), &far(SINK)), "reno");
    assert_eq!(pilot.opened("administrator"), 1);
    assert_eq!(pilot.prefixes(), [""; 0]);
    pilot.end(libc::SIGTERM);
    let _pilot = lab.pilot(ALWAYS_BBR);
    assert_steered(&lab, &far(SINK));
}

#[test]
fn loopback_unless_it_is_asked_for() {
    let lab = Lab::new();
    let _sink = Sink::new(&lab.net.near, SINK);
    let pilot = lab.pilot(ALWAYS_BBR);
    for to in ["127.0.0.1", "[::1]", "[::ffff:127.0.0.1]"] {
        assert_eq!(
            cc_towards(&mut lab.actor(), &format!("{to}:{SINK}")),
            "reno"
        );
    }
    assert_eq!(pilot.opened("loopback"), 3);
    assert_eq!(pilot.prefixes(), [""; 0]);
    pilot.end(libc::SIGTERM);
    let _pilot = lab.pilot(&format!("manage_loopback = true\n{ALWAYS_BBR}"));
    assert_steered(&lab, &format!("127.0.0.1:{SINK}"));
}

#[test]
fn connections_outside_the_cgroup_are_left_alone() {
    let lab = Lab::new();
    let _sink = Sink::new(&lab.net.far, SINK);
    let pilot = lab.pilot(ALWAYS_BBR);
    let other = Cgroup::new();
    let mut outside = Actor::new(Place::new(&lab.net.near, &other));
    assert_eq!(cc_towards(&mut outside, &far(SINK)), "reno");
    assert_eq!(pilot.ask("flows").as_array().unwrap().len(), 0);
    assert_steered(&lab, &far(SINK));
    let below = Cgroup::below(lab.cgroup.path());
    let mut inside = Actor::new(Place::new(&lab.net.near, &below));
    assert_eq!(cc_towards(&mut inside, &far(SINK)), "bbr");
}

/// All connections get bbr except those on this list.
fn excluding(lab: &Lab, list: &str) -> Daemon {
    lab.pilot(&format!("{ALWAYS_BBR}\n[leave_alone]\n{list}"))
}

fn assert_excluded(pilot: &Daemon, count: u64) {
    assert_eq!(pilot.opened("excluded"), count);
}

#[test]
fn an_excluded_prefix() {
    let lab = Lab::new();
    let _sink = Sink::new(&lab.net.far, SINK);
    let pilot = excluding(&lab, r#"prefixes = ["10.64.1.0/24", "fd64::/32"]"#);
    for to in ["10.64.1.7", "[::ffff:10.64.1.8]", "[fd64::1]"] {
        assert_eq!(
            cc_towards(&mut lab.actor(), &format!("{to}:{SINK}")),
            "reno",
            "{to}"
        );
    }
    assert_excluded(&pilot, 3);
    assert_steered(&lab, &format!("10.64.2.7:{SINK}"));
    assert_steered(&lab, &format!("[fd64:1::1]:{SINK}"));
}

#[test]
fn an_excluded_port() {
    let lab = Lab::new();
    let (_a, _b) = (Sink::new(&lab.net.far, SINK), Sink::new(&lab.net.far, 5301));
    let pilot = excluding(&lab, "remote_ports = [5301]\nlocal_ports = [\"5400-5401\"]");
    assert_eq!(cc_towards(&mut lab.actor(), &far(5301)), "reno");
    for (port, has) in [(5401, "reno"), (5402, "bbr")] {
        let mut server = Actor::new(Place::new(&lab.net.far, &lab.cgroup));
        server.tell(&format!("listen 0.0.0.0:{port}"));
        Actor::new(Place::outside(&lab.net.near)).tell(&format!("connect {}", far(port)));
        server.tell("accept");
        assert_eq!(server.tell("cc"), has);
    }
    assert_excluded(&pilot, 2);
    assert_steered(&lab, &far(SINK));
}

#[test]
fn an_excluded_cgroup_and_what_is_below_it() {
    let lab = Lab::new();
    let _sink = Sink::new(&lab.net.far, SINK);
    let excluded = Cgroup::below(lab.cgroup.path());
    let below = Cgroup::below(excluded.path());
    let pilot = excluding(&lab, &format!("cgroups = [\"{}\"]", excluded.name()));
    for cgroup in [&below, &excluded] {
        let mut application = Actor::new(Place::new(&lab.net.near, cgroup));
        assert_eq!(cc_towards(&mut application, &far(SINK)), "reno");
    }
    assert_excluded(&pilot, 2);
    assert_steered(&lab, &far(SINK));
    drop(below); // before the one above it
}

#[test]
fn an_excluded_namespace() {
    let lab = Lab::new();
    let twin = Pair::new();
    let (_a, _b) = (Sink::new(&lab.net.far, SINK), Sink::new(&twin.far, SINK));
    let pilot = excluding(&lab, &format!("namespaces = [\"{}\"]", twin.near.name()));
    let mut application = Actor::new(Place::new(&twin.near, &lab.cgroup));
    assert_eq!(cc_towards(&mut application, &far(SINK)), "reno");
    assert_excluded(&pilot, 1);
    assert_steered(&lab, &far(SINK));
}
