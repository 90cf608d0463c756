//! Another program takes the place of the running one, without a gap.

use std::{fs, os::unix::fs::PermissionsExt, path::PathBuf, thread, time::Duration};

use serde_json::{Value, json};
use tcpilot_tests::{
    CAP_BPF, CAP_NET_ADMIN, CAP_PERFMON, Capabilities, FAR, Lab, Place, Registrations, Sink, arm,
    assert_same_arms, attached, binary, is_emulated, until,
};

use crate::{
    ALWAYS_BBR,
    rescue::{OTHER, RARELY_BBR, lossy_way, open_with_reno, send_until_rescued},
};

#[test]
fn open_connections_stay_known_and_are_charged() {
    let lab = Lab::new();
    let sink = Sink::new(&lab.net.far, 5300);
    let pilot = lab.pilot(ALWAYS_BBR);
    lab.upload(FAR, 2, 1_000_000);
    pilot.wait_closed(2);
    let mut application = lab.actor();
    application.tell(&format!("connect {FAR}:5300"));
    let (pid, before, flows) = (pilot.pid(), pilot.path(FAR), pilot.remembered());
    assert!(flows.values().all(|flow| flow[1] == "drawn"));
    for nth in 1..=3 {
        pilot.take_over();
        assert_eq!(pilot.take_overs(), (nth, 0));
        assert_eq!(attached(lab.cgroup.path()), ["tcpilot"]);
    }
    let status = pilot.status();
    assert_eq!(
        (&status["pid"], &status["attached"]),
        (&pid.into(), &true.into())
    );
    assert_eq!(status["connections"]["drawn"], 3, "{status}");
    assert_eq!(pilot.remembered(), flows);
    let after = pilot.path(FAR);
    assert_same_arms(&before, &after);
    for field in [
        "connections",
        "live_flows",
        "min_rtt_us",
        "max_delivery_rate",
    ] {
        assert_eq!(before[field], after[field], "{field}");
    }
    application.tell("send 1000000");
    sink.wait_for(1_000_000);
    application.tell("close");
    pilot.wait_closed(3);
    let path = pilot.path(FAR);
    assert_eq!(
        (&path["live_flows"], &arm(&path, "bbr")["samples"]),
        (&0.into(), &3.into())
    );
    assert_eq!(pilot.status()["charged"], 3);
    application.tell(&format!("connect {FAR}:5300"));
    assert_eq!(application.tell("cc"), "bbr");
    assert_eq!(pilot.end(libc::SIGTERM).status, Some(0));
    assert_eq!(attached(lab.cgroup.path()), [""; 0]);
}

#[test]
fn open_connections_are_still_rescued() {
    let lab = Lab::new();
    let _way = lossy_way(&lab);
    let _sink = Sink::new(&lab.net.far, 5300);
    // With only these it sees only the connections of its own namespace.
    let place = Place {
        capabilities: Capabilities::Only(&[CAP_NET_ADMIN, CAP_PERFMON, CAP_BPF]),
        ..Place::outside(&lab.net.near)
    };
    // Until the rescue nobody samples it: a former daemon may have seen the samples, so this one does not
    // learn from them.
    let config = RARELY_BBR.replace("[learner]", "[learner]\nsample_bytes = 1000000000");
    let pilot = lab.spawn_pilot(place, &config, &[]).ready();
    let mut application = lab.actor();
    open_with_reno(&mut application);
    pilot.take_over();
    send_until_rescued(&mut application);
    let flow = &pilot.ask("flows")[0];
    assert_eq!(
        (&flow["why"], &flow["charged_to"]),
        (&"rescued".into(), &"bbr".into())
    );
    pilot.take_over();
    assert_eq!(pilot.ask("flows")[0]["why"], "rescued");
    let closed = pilot.status()["closed"].as_u64().unwrap();
    application.tell("close");
    pilot.wait_closed(closed + 1);
    let path = pilot.path(OTHER);
    let rescued = ["reno", "bbr"].map(|name| arm(&path, name)["rescued"].clone());
    assert_eq!(
        (&path["rescued"], rescued),
        (&1.into(), [1.into(), 0.into()])
    );
}

#[test]
fn failed_upgrade_leaves_daemon_unchanged() {
    let lab = Lab::new();
    let _sink = Sink::new(&lab.net.far, 5300);
    let pilot = lab.pilot(ALWAYS_BBR);
    let mut application = lab.actor();
    application.tell(&format!("connect {FAR}:5300"));
    let flows = pilot.remembered();
    let text = lab.dir.path().join("text");
    fs::write(&text, "no program").unwrap();
    fs::set_permissions(&text, fs::Permissions::from_mode(0o755)).unwrap();
    let part = lab.dir.path().join("part");
    fs::write(&part, &fs::read(binary("tcpilot")).unwrap()[..10_000]).unwrap();
    fs::set_permissions(&part, fs::Permissions::from_mode(0o755)).unwrap();
    let programs = [
        "/nonexistent",
        "/bin/false",
        "/bin/true",
        text.to_str().unwrap(),
        part.to_str().unwrap(),
    ];
    for (nth, program) in (1..).zip(programs) {
        let answer = pilot.raw(&json!({"take-over": program}));
        assert_eq!(answer["ok"]["refused"], nth - 1, "{answer}");
        pilot.wait_for_take_overs(0, nth);
        let problem = pilot.status()["take_overs"]["problems"][0].to_string();
        assert!(problem.contains(program), "{problem}");
        assert!(pilot.log().contains(program), "{}", pilot.log());
    }
    assert_eq!(attached(lab.cgroup.path()), ["tcpilot"]);
    assert_eq!(pilot.remembered(), flows);
    application.tell(&format!("connect {FAR}:5300"));
    assert_eq!(application.tell("cc"), "bbr");
    pilot.take_over();
    assert_eq!(pilot.take_overs(), (1, programs.len() as u64));
}

/// A copy of tcpilot with another layout's hash.
pub fn of_another_layout(lab: &Lab) -> PathBuf {
    let mut bytes = fs::read(binary("tcpilot")).unwrap();
    let name = b"tcpilot-layout-";
    let places: Vec<usize> = bytes
        .windows(name.len() + 16)
        .enumerate()
        .filter(|(_, window)| {
            let (start, hash) = window.split_at(name.len());
            start == name && hash.iter().all(u8::is_ascii_hexdigit)
        })
        .map(|(at, _)| at + name.len())
        .collect();
    assert!(!places.is_empty());
    for at in places {
        bytes[at..at + 16].copy_from_slice(b"0123456789abcdef");
    }
    let program = lab.dir.path().join("tcpilot-next");
    fs::write(&program, bytes).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    program
}

#[test]
fn layout_change_at_upgrade_restarts_from_saved_state() {
    let lab = Lab::new();
    let sink = Sink::new(&lab.net.far, 5300);
    let mut pilot = lab.pilot(ALWAYS_BBR);
    lab.upload(FAR, 2, 1_000_000);
    pilot.wait_closed(2);
    let mut open = lab.actor();
    open.tell(&format!("connect {FAR}:5300"));
    let next = of_another_layout(&lab);
    let output = pilot.taken_over_by(&next);
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{message}: {}", pilot.log());
    let exe = fs::read_link(format!("/proc/{}/exe", pilot.pid())).unwrap();
    assert_eq!(exe, next);
    assert!(
        pilot.log().contains("keeps its memory in another way"),
        "{}",
        pilot.log()
    );
    assert_eq!(attached(lab.cgroup.path()), ["tcpilot"]);
    assert_eq!(pilot.take_overs(), (1, 0));
    // The knowledge comes from the file; the open connection is a former one.
    assert_eq!(arm(&pilot.path(FAR), "bbr")["samples"], 2);
    let mut application = lab.actor();
    application.tell(&format!("connect {FAR}:5300"));
    assert_eq!(application.tell("cc"), "bbr");
    let whys: Vec<Value> = pilot
        .remembered()
        .into_values()
        .map(|flow| flow[1].clone())
        .collect();
    assert!(whys.contains(&"unseen".into()), "{whys:?}");
    assert!(!whys.contains(&"application".into()), "{whys:?}");
    // Only connections since the start are counted.
    assert_eq!(pilot.path(FAR)["live_flows"], 1);
    open.tell("send 1000000");
    sink.wait_for(1_000_000);
    open.tell("close");
    pilot.wait_closed(1);
    let path = pilot.path(FAR);
    let counted = (&path["live_flows"], &arm(&path, "bbr")["samples"]);
    assert_eq!(counted, (&1.into(), &2.into()));
    pilot.signal(libc::SIGINT);
    let ended = pilot.ended();
    assert_eq!(
        (ended.status, ended.errors().len()),
        (Some(0), 0),
        "{}",
        ended.stderr
    );
}

#[test]
fn kill_during_upgrade_detaches_at_once() {
    let lab = Lab::new();
    let (times, step_ms) = if is_emulated() { (4, 180) } else { (12, 60) };
    for nth in 0..times {
        let pilot = lab.pilot(ALWAYS_BBR);
        pilot.raw(&json!({"take-over": binary("tcpilot")}));
        thread::sleep(Duration::from_millis(nth * step_ms));
        assert_eq!(pilot.end(libc::SIGKILL).status, None);
        assert_eq!(attached(lab.cgroup.path()), [""; 0], "{nth}");
    }
}

#[test]
fn own_algorithm_survives_upgrades_and_ends_with_daemon() {
    let _registrations = Registrations::lock();
    let lab = Lab::new();
    let _sink = Sink::new(&lab.net.far, 5300);
    let is_registered = || {
        let names = fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control");
        names
            .unwrap()
            .split_whitespace()
            .any(|name| name == "tp_reno")
    };
    let pilot = lab.pilot(ALWAYS_BBR);
    pilot.configure(&ALWAYS_BBR.replace("algorithms = [\"bbr\"]", "algorithms = [\"tp_reno\"]"));
    for _ in 0..3 {
        pilot.take_over();
        assert!(is_registered());
        let mut application = lab.actor();
        application.tell(&format!("connect {FAR}:5300"));
        assert_eq!(application.tell("cc"), "tp_reno");
    }
    assert_eq!(pilot.end(libc::SIGTERM).status, Some(0));
    until("the algorithm is gone", || (!is_registered()).then_some(()));
}

#[test]
fn concurrent_upgrades_run_one_at_a_time() {
    let lab = Lab::new();
    let pilot = lab.pilot(ALWAYS_BBR);
    let take_over = || {
        until("it was upgraded", || {
            let output = pilot.taken_over_by(&binary("tcpilot"));
            let message = String::from_utf8_lossy(&output.stderr);
            // Another upgrade was first, or the question came during one.
            let met = ["an upgrade is under way", "cut off", "no tcpilot answers"];
            let failed = !output.status.success();
            assert!(
                !failed || met.iter().any(|m| message.contains(m)),
                "{message}"
            );
            output.status.success().then_some(())
        });
    };
    thread::scope(|scope| {
        (0..3).for_each(|_| drop(scope.spawn(take_over)));
        (0..3).for_each(|_| {
            pilot.signal(libc::SIGHUP);
            thread::sleep(Duration::from_millis(200));
        });
    });
    let (done, refused) = pilot.take_overs();
    assert!(
        done >= 3 && refused == 0,
        "{done} {refused} {}",
        pilot.log()
    );
    assert_eq!(attached(lab.cgroup.path()), ["tcpilot"]);
    assert_eq!(pilot.end(libc::SIGTERM).status, Some(0));
}
