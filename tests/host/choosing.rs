//! With the learner in the daemon: the programs draw from choice distributions, and send records.
//!
//! There is no daemon here. A test writes the distributions and reads the records itself.

use std::{
    ffi::CStr,
    time::{Duration, Instant},
};

use tcpilot_abi::{
    TP_CHOICE_DISTS_STALE_NS, TP_CONN_ACTIVE, TP_CONN_DRY_RUN, TP_LEVEL_CLASS, TP_LEVEL_GLOBAL,
    TP_LEVEL_GROUP, TP_LEVEL_NONE, TP_LEVEL_PATH, TP_LEVEL_SITE, TP_NO_ARM, TP_SEPARATE_ALL,
    TP_SEPARATE_EGRESS, TP_SEPARATE_NONE, TP_SEPARATE_PRIVATE, TP_WHY_DRAWN, TP_WHY_NO_CHOICE_DIST,
    TP_WHY_STALE,
};
use tcpilot_core::choice_dist::DistPlace;
use tcpilot_kernel::own_netns_cookie;
use tcpilot_tests::{FAR, Lab, Netns, Place as Where, Sink, in_netns, sh};

use crate::learner::{
    ALL_BBR, ALL_RENO, BBR, CERTAIN, Learner, RENO, bbr, config, connect, place_of,
};

fn far() -> String {
    format!("{FAR}:5300")
}

#[test]
fn without_a_distribution_the_default_is_certain() {
    let lab = Lab::new();
    let _sink = Sink::new(&lab.net.far, 5300);
    let mut learner = Learner::new(&lab, &config());
    assert_eq!(connect(&mut lab.actor(), &far()), "reno");
    let record = learner.record();
    assert_eq!(
        (record.arm, record.probability, u32::from(record.level)),
        (RENO, CERTAIN, TP_LEVEL_NONE)
    );
    assert_eq!(u32::from(record.why), TP_WHY_NO_CHOICE_DIST);
    assert_eq!(u32::from(record.conn_flags), TP_CONN_ACTIVE);
}

#[test]
fn the_nearest_distribution_is_drawn_from() {
    let lab = Lab::new();
    let _sink = Sink::new(&lab.net.far, 5300);
    let mut learner = Learner::new(&lab, &config());
    let mut application = lab.actor();
    connect(&mut application, &far());
    let place = place_of(&learner.record());
    let levels = [
        TP_LEVEL_GLOBAL,
        TP_LEVEL_CLASS,
        TP_LEVEL_SITE,
        TP_LEVEL_GROUP,
        TP_LEVEL_PATH,
    ];
    for (number, level) in levels.into_iter().enumerate() {
        let (entries, expected, arm) = match number % 2 {
            0 => (ALL_BBR, "bbr", BBR),
            _ => (ALL_RENO, "reno", RENO),
        };
        learner.put(level, &place, entries, 1);
        assert_eq!(connect(&mut application, &far()), expected, "{level}");
        let record = learner.record();
        assert_eq!(
            (record.arm, record.probability, u32::from(record.level)),
            (arm, CERTAIN, level)
        );
        assert_eq!(u32::from(record.why), TP_WHY_DRAWN);
    }
}

#[test]
fn sequential_connections_draw_again_and_report_the_probability() {
    const SHARE: u16 = 0x9000;
    let lab = Lab::new();
    let _sink = Sink::new(&lab.net.far, 5300);
    let mut learner = Learner::new(&lab, &config());
    learner.put(TP_LEVEL_GLOBAL, &DistPlace::default(), bbr(SHARE), 1);
    let mut application = lab.actor();
    let mut seen = [0; 2];
    // By chance all are alike once in 10^6 runs.
    for _ in 0..24 {
        let algorithm = connect(&mut application, &far());
        let record = learner.record();
        let (name, probability) = match record.arm {
            RENO => ("reno", 0xffff - SHARE),
            _ => ("bbr", SHARE),
        };
        assert_eq!(
            (algorithm.as_str(), record.probability),
            (name, probability)
        );
        seen[usize::from(record.arm)] += 1;
    }
    assert!(seen.iter().all(|count| *count > 0), "{seen:?}");
}

#[test]
fn overlapping_connections_of_a_path_share_their_assignment() {
    let lab = Lab::new();
    let _sink = Sink::new(&lab.net.far, 5300);
    let mut learner = Learner::new(&lab, &config());
    learner.put(TP_LEVEL_GLOBAL, &DistPlace::default(), bbr(0x8000), 1);
    let mut application = lab.actor();
    let mut draws = Vec::new();
    for _ in 0..20 {
        for _ in 0..3 {
            application.tell(&format!("hold {}", far()));
        }
        application.tell("feed 20000");
        application.tell("release");
        let records = [(); 3].map(|()| learner.record());
        let arms = records.map(|record| record.arm);
        assert!(arms.iter().all(|arm| *arm == arms[0]), "{arms:?}");
        // Together they are one sample for the learner.
        assert_eq!(records.map(|record| record.beside), [3; 3]);
        draws.push(arms[0]);
    }
    assert!(draws.contains(&RENO) && draws.contains(&BBR), "{draws:?}");
    connect(&mut application, &far());
    assert_eq!(learner.record().beside, 1);
}

#[test]
fn a_rewritten_distribution_keeps_the_shared_assignment() {
    const SHARE: u16 = 0xf000;
    let lab = Lab::new();
    let _sink = Sink::new(&lab.net.far, 5300);
    let mut learner = Learner::new(&lab, &config());
    let mut application = lab.actor();
    let mut kept = 0;
    for round in 0..8 {
        learner.put(
            TP_LEVEL_GLOBAL,
            &DistPlace::default(),
            bbr(SHARE),
            2 * round + 1,
        );
        application.tell(&format!("hold {}", far()));
        // The numbers that meant bbr mean reno now.
        learner.put(
            TP_LEVEL_GLOBAL,
            &DistPlace::default(),
            ALL_RENO,
            2 * round + 2,
        );
        application.tell(&format!("hold {}", far()));
        application.tell("feed 20000");
        application.tell("release");
        let [first, second] = [(); 2].map(|()| learner.record());
        assert_eq!(
            (first.arm, first.probability),
            (second.arm, second.probability)
        );
        kept += usize::from(second.arm == BBR && second.probability == SHARE);
        assert_eq!(connect(&mut application, &far()), "reno");
        learner.record();
    }
    // By chance none of eight is bbr once in 10^9 runs.
    assert!(kept > 0);
}

#[test]
fn distributions_are_stale_ten_seconds_after_the_heartbeat() {
    /// The programs read a clock that steps with the kernel's tick.
    const TICK: Duration = Duration::from_millis(10);
    let lab = Lab::new();
    let _sink = Sink::new(&lab.net.far, 5300);
    let mut learner = Learner::new(&lab, &config());
    learner.put(TP_LEVEL_GLOBAL, &DistPlace::default(), ALL_BBR, 1);
    let mut application = lab.actor();
    let last = Instant::now();
    learner.ends.heartbeat.renew();
    let bound = Duration::from_nanos(TP_CHOICE_DISTS_STALE_NS);
    let silent = loop {
        let before = last.elapsed();
        let algorithm = connect(&mut application, &far());
        let record = learner.record();
        if u32::from(record.why) == TP_WHY_STALE {
            assert_eq!((algorithm.as_str(), record.arm), ("reno", RENO));
            assert_eq!(
                (record.probability, u32::from(record.level)),
                (CERTAIN, TP_LEVEL_NONE)
            );
            break last.elapsed();
        }
        assert_eq!(algorithm, "bbr");
        assert!(before <= bound + TICK, "{before:?}");
    };
    assert!(silent + TICK > bound, "{silent:?}");
    learner.ends.heartbeat.renew();
    assert_eq!(connect(&mut application, &far()), "bbr");
    assert_eq!(u32::from(learner.record().why), TP_WHY_DRAWN);
    learner.ends.heartbeat.stop();
    assert_eq!(connect(&mut application, &far()), "reno");
}

#[test]
fn ineligible_arms_count_to_the_defaults_probability() {
    let lab = Lab::new();
    let _sink = Sink::new(&lab.net.far, 5300);
    let mut config = config();
    config.policy[0].arms = 1 << RENO;
    let mut learner = Learner::new(&lab, &config);
    learner.put(TP_LEVEL_GLOBAL, &DistPlace::default(), bbr(0xf000), 1);
    assert_eq!(connect(&mut lab.actor(), &far()), "reno");
    let record = learner.record();
    assert_eq!((record.arm, record.probability), (RENO, CERTAIN));
    assert_eq!(u32::from(record.why), TP_WHY_DRAWN);
}

#[test]
fn a_dry_run_sets_nothing_but_emits_records() {
    let lab = Lab::new();
    let _sink = Sink::new(&lab.net.far, 5300);
    let mut learner = Learner::new(
        &lab,
        &tcpilot_abi::tp_config {
            dry_run: 1,
            ..config()
        },
    );
    learner.put(TP_LEVEL_GLOBAL, &DistPlace::default(), ALL_BBR, 1);
    assert_eq!(connect(&mut lab.actor(), &far()), "reno");
    let record = learner.record();
    assert_eq!((record.arm, record.probability), (RENO, CERTAIN));
    assert_eq!(
        u32::from(record.conn_flags),
        TP_CONN_ACTIVE | TP_CONN_DRY_RUN
    );
}

#[test]
fn algorithm_missing_in_kernel_leaves_the_default() {
    let lab = Lab::new();
    let _sink = Sink::new(&lab.net.far, 5300);
    let mut config = config();
    config.arm[usize::from(BBR)][0] = b'x' as std::ffi::c_char;
    let mut learner = Learner::new(&lab, &config);
    learner.put(TP_LEVEL_GLOBAL, &DistPlace::default(), ALL_BBR, 1);
    assert_eq!(connect(&mut lab.actor(), &far()), "reno");
    let record = learner.record();
    assert_eq!(
        (record.arm, u32::from(record.why)),
        (RENO, tcpilot_abi::TP_WHY_SET_FAILED)
    );
}

#[test]
fn ipv6_and_accepted_connections_have_their_own_distributions() {
    let lab = Lab::new();
    let _sink = Sink::new(&lab.net.far, 5300);
    let mut learner = Learner::new(&lab, &config());
    let mut application = lab.actor();
    connect(&mut application, "[fd77::2]:5300");
    let place = place_of(&learner.record());
    let address: std::net::Ipv6Addr = "fd77::2".parse().unwrap();
    let bytes: Vec<u8> = place.remote.iter().flat_map(|w| w.to_ne_bytes()).collect();
    assert_eq!(bytes, address.octets());
    learner.put(TP_LEVEL_PATH, &place, ALL_BBR, 1);
    assert_eq!(connect(&mut application, "[fd77::2]:5300"), "bbr");
    assert_eq!(connect(&mut application, &far()), "reno");
    assert_eq!(learner.record().arm, BBR);
    assert_eq!(learner.record().arm, RENO);
    let mut server = tcpilot_tests::Actor::new(Where::new(&lab.net.far, &lab.cgroup));
    server.tell("listen 0.0.0.0:5401");
    let mut client = tcpilot_tests::Actor::new(Where::outside(&lab.net.near));
    client.tell(&format!("connect {FAR}:5401"));
    server.tell("accept");
    server.tell("send 30000");
    server.tell("info");
    server.tell("close");
    client.tell("close");
    let record = learner.record();
    assert_eq!(record.class >> tcpilot_abi::TP_CLASS_ACCEPTED, 1);
    assert_eq!(u32::from(record.conn_flags), 0);
}

#[test]
fn only_private_paths_belong_to_their_namespace() {
    let lab = Lab::new();
    let _sink = Sink::new(&lab.net.far, 5300);
    let mut learner = Learner::new(&lab, &config());
    let mut application = lab.actor();
    connect(&mut application, &far());
    let private = learner.record();
    assert_eq!(private.domain, private.netns_cookie as u32);
    assert_ne!(private.domain, 0);
    connect(&mut application, "8.8.4.4:5300");
    let public = learner.record();
    assert_eq!(
        (public.domain, public.netns_cookie),
        (0, private.netns_cookie)
    );
    // In another namespace the same address is another path.
    let elsewhere = DistPlace {
        domain: private.domain + 1,
        ..place_of(&private)
    };
    learner.put(TP_LEVEL_PATH, &elsewhere, ALL_BBR, 1);
    learner.put(TP_LEVEL_PATH, &place_of(&public), ALL_BBR, 1);
    assert_eq!(connect(&mut application, &far()), "reno");
    assert_eq!(connect(&mut application, "8.8.4.4:5300"), "bbr");
}

/// The number of an interface of a namespace.
pub fn index_of(netns: &Netns, interface: &CStr) -> u16 {
    // SAFETY: the name ends with 0.
    let index = in_netns(netns, || unsafe {
        libc::if_nametoindex(interface.as_ptr())
    });
    index.try_into().unwrap()
}

/// A second way from near to far, to far's other address.
pub fn second_way(lab: &Lab) {
    let (near, far) = (&lab.net.near, &lab.net.far);
    sh(&format!(
        "ip link add eth1 netns {} type veth peer name eth1 netns {}",
        near.name(),
        far.name()
    ));
    for (netns, host) in [(near, 1), (far, 2)] {
        netns.ip(&format!("address add 10.78.0.{host}/24 dev eth1"));
        netns.ip("link set eth1 up");
    }
    near.ip("route replace 8.8.4.4 via 10.78.0.2 dev eth1");
}

#[test]
fn egress_interface_separates_paths() {
    const TO: &str = "8.8.4.4:5300";
    let lab = Lab::new();
    let _sink = Sink::new(&lab.net.far, 5300);
    let mut config = config();
    config.policy[0].separation = (TP_SEPARATE_PRIVATE | TP_SEPARATE_EGRESS) as u8;
    config.host_netns = in_netns(&lab.net.near, own_netns_cookie).unwrap();
    let mut learner = Learner::new(&lab, &config);
    let mut application = lab.actor();
    connect(&mut application, TO);
    let first = learner.record();
    assert_eq!(first.egress, index_of(&lab.net.near, c"eth0"));
    learner.put(TP_LEVEL_PATH, &place_of(&first), ALL_BBR, 1);
    assert_eq!(connect(&mut application, TO), "bbr");
    assert_eq!(learner.record().domain, first.domain);

    second_way(&lab);
    assert_eq!(
        connect(&mut application, TO),
        "reno",
        "another way, another path"
    );
    let second = learner.record();
    assert_eq!(second.egress, index_of(&lab.net.near, c"eth1"));
    assert_ne!(second.domain, first.domain);

    // The record of its end names the path on which it was opened.
    application.tell(&format!("connect {TO}"));
    application.tell("send 100000");
    lab.net.near.ip("route del 8.8.4.4");
    application.tell("send 100000");
    application.tell("close");
    let moved = learner.record();
    assert_eq!((moved.egress, moved.domain), (second.egress, second.domain));
}

#[test]
fn an_interface_of_another_namespace_parts_nothing() {
    let lab = Lab::new();
    let _sink = Sink::new(&lab.net.far, 5300);
    let mut config = config();
    config.policy[0].separation = (TP_SEPARATE_PRIVATE | TP_SEPARATE_EGRESS) as u8;
    config.host_netns = own_netns_cookie().unwrap();
    let mut learner = Learner::new(&lab, &config);
    connect(&mut lab.actor(), "8.8.4.4:5300");
    let record = learner.record();
    assert_eq!((record.egress, record.domain), (0, 0));
}

#[test]
fn one_link_local_address_on_two_links_is_two_paths() {
    let lab = Lab::new();
    second_way(&lab);
    let _sink = Sink::new(&lab.net.far, 5300);
    let links = [c"eth0", c"eth1"].map(|name| {
        let device = name.to_str().unwrap();
        for (netns, host) in [(&lab.net.near, "66"), (&lab.net.far, "77")] {
            netns.ip(&format!("address add fe80::{host}/64 dev {device} nodad"));
        }
        (device, index_of(&lab.net.near, name))
    });
    let mut learner = Learner::new(&lab, &config());
    let mut application = lab.actor();
    let mut domains = Vec::new();
    for (device, index) in links {
        application.tell(&format!("device {device}"));
        connect(&mut application, &format!("[fe80::77%{index}]:5300"));
        let record = learner.record();
        assert_eq!(record.egress, index, "{device}");
        domains.push(record.domain);
    }
    assert_ne!(domains[0], domains[1]);
    // RFC 3927
    lab.net.near.ip("address add 169.254.7.1/24 dev eth0");
    lab.net.far.ip("address add 169.254.7.2/24 dev eth0");
    connect(&mut lab.actor(), "169.254.7.2:5300");
    assert_eq!(learner.record().egress, links[0].1);
}

#[test]
fn policy_can_merge_private_or_separate_public_paths() {
    let lab = Lab::new();
    let _sink = Sink::new(&lab.net.far, 5300);
    let domains = |separation: u32| {
        let mut config = config();
        config.policy[0].separation = separation as u8;
        let mut learner = Learner::new(&lab, &config);
        [far(), "8.8.4.4:5300".to_owned()].map(|to| {
            connect(&mut lab.actor(), &to);
            learner.record().domain
        })
    };
    let cookie = in_netns(&lab.net.near, own_netns_cookie).unwrap() as u32;
    assert_eq!(domains(TP_SEPARATE_NONE), [0, 0]);
    assert_eq!(domains(TP_SEPARATE_ALL), [cookie, cookie]);
}

#[test]
fn application_choice_is_left_alone() {
    let lab = Lab::new();
    let _sink = Sink::new(&lab.net.far, 5300);
    let mut learner = Learner::new(&lab, &config());
    learner.put(TP_LEVEL_GLOBAL, &DistPlace::default(), ALL_BBR, 1);
    let mut application = lab.actor();
    application.tell(&format!("connect {} reno", far()));
    application.tell("send 100000");
    assert_eq!(application.tell("cc"), "reno");
    application.tell("close");
    assert_eq!(connect(&mut application, &far()), "bbr");
    // This is the only record.
    assert_eq!(learner.record().arm, BBR);
    application.tell(&format!("connect {}", far()));
    application.tell("send 100000");
    application.tell("cc reno");
    application.tell("close");
    let record = learner.record();
    assert_eq!(u32::from(record.flags), tcpilot_abi::TP_RECORD_FOREIGN);
    assert_eq!(u32::from(record.arm), TP_NO_ARM);
}

#[test]
fn a_socket_that_connects_again_is_ours_again() {
    let lab = Lab::new();
    let _sink = Sink::new(&lab.net.far, 5300);
    let mut learner = Learner::new(&lab, &config());
    learner.put(TP_LEVEL_GLOBAL, &DistPlace::default(), ALL_BBR, 1);
    let mut application = lab.actor();
    application.tell(&format!("connect {}", far()));
    for entries in [ALL_RENO, ALL_BBR, ALL_BBR] {
        application.tell("send 100000");
        application.tell("info");
        application.tell("disconnect");
        assert_eq!(u32::from(learner.record().why), TP_WHY_DRAWN);
        learner.rewrite(TP_LEVEL_GLOBAL, &DistPlace::default(), entries, 2);
        application.tell(&format!("reconnect {}", far()));
        let expected = if entries == ALL_RENO { "reno" } else { "bbr" };
        assert_eq!(application.tell("cc"), expected);
    }
}
