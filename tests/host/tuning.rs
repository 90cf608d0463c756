//! The tunings: set from a path's figures, shown by the commands, gone with the daemon.

use std::process::Command;

use serde_json::Value;
use tcpilot_tests::{Daemon, FAR, Lab, NEAR, Place, Shape, Sink, attached, until};

use crate::choosing::{index_of, second_way};

/// The default algorithm everywhere, and these tunings, withheld from no connection. Load counts as low
/// whatever the RTT: the emulated link's queue is long.
pub fn tuned(features: &str) -> String {
    format!(
        r#"
        {}
        [tuning]
        objective = "throughput"
        network = "long-fat"
        features = [{features}]
        window_rule = "slides"
        low_load_percent = 100000
        mid_load_percent = 100000
        hold_out_shift = 0
        ack_priority = {}
        "#,
        crate::ALWAYS_RENO,
        features.is_empty()
    )
}

/// A queue of four packets: the rest of a burst is lost.
const SHORT_QUEUE: Shape = Shape::Of("tbf rate 10mbit burst 2kb limit 6000");

/// Uploads past the end of slow start, with a window to save.
fn teach(lab: &Lab, pilot: &Daemon) {
    lab.upload(FAR, 4, 1_000_000);
    pilot.wait_closed(4);
}

fn tuning(pilot: &Daemon, name: &str) -> Value {
    let tuned = pilot.tuned(FAR);
    let all = tuned["tunings"].as_array();
    let mut all = all.unwrap_or_else(|| panic!("{tuned}")).iter();
    all.find(|t| t["name"] == name)
        .unwrap_or_else(|| panic!("{name} in {tuned}"))
        .clone()
}

/// The share of lost segments, as the tunings see it.
fn lost(pilot: &Daemon) -> Option<f64> {
    let known = pilot.ask(&format!("explain {FAR}"));
    let mut paths = known["paths"].as_array().unwrap().iter();
    let tuned = paths.find(|path| !path["tuning"].is_null());
    tuned.unwrap()["path"]["loss_ratio"].as_f64()
}

fn count(pilot: &Daemon, kind: &str, name: &str) -> u64 {
    pilot.status()["tunings"][kind][name].as_u64().unwrap()
}

/// The value in the output of ss for the connection to a port, at the near end.
fn ss(lab: &Lab, port: u16, key: &str) -> f64 {
    let filter = format!("dport = :{port}");
    let output = Command::new("ip")
        .args(["netns", "exec", lab.net.near.name()])
        .args(["ss", "-tinH", "state", "established", &filter])
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let value = text
        .split_whitespace()
        .find_map(|w| w.strip_prefix(key)?.strip_prefix(':'));
    let value = value.unwrap_or_else(|| panic!("{key} in {text}"));
    value.split('/').next().unwrap().parse().unwrap()
}

#[test]
fn nothing_is_tuned_unless_asked_for() {
    let lab = Lab::new();
    let pilot = lab.pilot(crate::ALWAYS_RENO);
    teach(&lab, &pilot);
    assert!(pilot.status()["tunings"].is_null());
    assert!(pilot.tuned(FAR).is_null());
    let _sink = Sink::new(&lab.net.far, 5300);
    lab.actor().tell(&format!("connect {FAR}:5300"));
}

#[test]
fn saved_window_becomes_initial_window_of_connect() {
    let lab = Lab::new();
    let pilot = lab.pilot(&tuned("\"initial-window\""));
    teach(&lab, &pilot);
    let _sink = Sink::new(&lab.net.far, 5300);
    let mut application = lab.actor();
    application.tell(&format!("connect {FAR}:5300"));
    let flow = &pilot.ask("flows")[0];
    let window = flow["initial_window"].as_u64().unwrap();
    assert!(window > 10, "{flow}");
    assert_eq!(flow["cwnd"].as_u64(), Some(window));
    assert_eq!(flow["tunings"], serde_json::json!(["initial-window"]));
    let last = tuning(&pilot, "initial-window")["last"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(
        last.starts_with(&format!("{window} packets, from ")),
        "{last}"
    );
    assert_eq!(count(&pilot, "refused", "initial-window"), 0);
    // Once data was acknowledged, its pacing is no longer bounded.
    application.tell("send 400000");
    until("the window is validated", || {
        let phase = pilot.ask("flows")[0]["bytes_acked"].as_u64()? >= 400_000;
        phase.then_some(())
    });
}

#[test]
fn saved_window_becomes_initial_window_of_accept() {
    let lab = Lab::new();
    let _server = lab.serve_in_cgroup(5400);
    let pilot = lab.pilot(&tuned("\"initial-window\""));
    let download = format!("bulk --to {FAR}:5400 --bytes 2000000 --count 5 --reverse");
    assert!(
        lab.try_run(Place::outside(&lab.net.near), &download)
            .status
            .success()
    );
    pilot.wait_closed(5);
    let tuned = pilot.tuned(NEAR);
    let set = tuned["tunings"][0]["set"].as_u64();
    assert!(set >= Some(1), "{tuned}");
}

#[test]
fn minimum_rto_follows_path_until_daemon_ends() {
    let lab = Lab::new();
    let _sink = Sink::new(&lab.net.far, 5300);
    let config = tuned("\"rto\", \"quick-ack\"");
    let pilot = lab.pilot(&(config.clone() + "rto_floor_ms = 20\n"));
    lab.upload(FAR, 12, 2000);
    pilot.wait_closed(12);
    if lost(&pilot) == Some(0.0) {
        assert_eq!(count(&pilot, "set", "rto"), 0); // without a loss no timer fires
        assert_eq!(tuning(&pilot, "rto")["waits"], "nothing was lost lately");
    }
    lab.net.shape(SHORT_QUEUE);
    lab.upload(FAR, 1, 100_000);
    pilot.wait_closed(13);
    lab.net.shape(Shape::Usual);
    let mut application = lab.actor();
    application.tell(&format!("connect {FAR}:5300"));
    application.tell("send 100");
    until("the RTT was measured again", || {
        (ss(&lab, 5300, "rto") < 190.0).then_some(())
    });
    for name in ["rto", "quick-ack"] {
        assert!(count(&pilot, "set", name) > 0, "{name}: {}", pilot.status());
        assert_eq!(count(&pilot, "refused", name), 0, "{name}");
    }
    drop(application);
    pilot.end(libc::SIGKILL);
    let mut application = lab.actor();
    application.tell(&format!("connect {FAR}:5300"));
    application.tell("send 100");
    assert!(ss(&lab, 5300, "rto") >= 200.0);
    assert!((ss(&lab, 5300, "cwnd") - 10.0).abs() < 2.0);
}

#[test]
fn receive_window_is_limited_to_link_share() {
    let lab = Lab::new();
    let _sink = Sink::new(&lab.net.far, 5300);
    let config = tuned("\"receive-window\"").replace("long-fat", "data-center");
    let pilot = lab.pilot(&(config + "link_mbit = 1\n"));
    lab.upload(FAR, 4, 2000);
    pilot.wait_closed(4);
    let mut first = lab.actor();
    first.tell(&format!("connect {FAR}:5300"));
    assert_eq!(count(&pilot, "set", "receive-window"), 0); // nobody to share with
    drop(first);
    pilot.wait_closed(5);
    let mut other = lab.actor();
    other.tell(&format!("connect {FAR}:5300"));
    let mut application = lab.actor();
    application.tell(&format!("connect {FAR}:5300"));
    assert!(
        count(&pilot, "set", "receive-window") > 0,
        "{}",
        pilot.status()
    );
    assert_eq!(tuning(&pilot, "receive-window")["last"], "4 packets");
    drop(other);
    pilot.wait_closed(6);
    assert!(ss(&lab, 5300, "rcv_ssthresh") <= 4.0 * 1460.0);
}

#[test]
fn accept_raises_receive_window_from_path_history() {
    let lab = Lab::new();
    let _server = lab.serve_in_cgroup(5400);
    let pilot = lab.pilot(&tuned("\"receive-window\""));
    let upload = format!("bulk --to {FAR}:5400 --bytes 4000000 --count 5");
    assert!(
        lab.try_run(Place::outside(&lab.net.near), &upload)
            .status
            .success()
    );
    pilot.wait_closed(5);
    let set = count(&pilot, "set", "receive-window");
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release
        .split(['.', '-'])
        .map(|n| n.parse::<u32>().unwrap_or(0));
    if (numbers.next(), numbers.next()) < (Some(6), Some(11)) {
        // It announces 64 KiB at most, whatever the program asks for.
        assert_eq!(set, 0, "{}", pilot.ask(&format!("explain {NEAR}")));
        return;
    }
    assert!(set >= 1, "{}", pilot.ask(&format!("explain {NEAR}")));
    let mut hold = Place::outside(&lab.net.near).command("flowgen");
    let words = format!("hold --to {FAR}:5400 --connections 1 --seconds 30");
    let mut held = hold.args(words.split(' ')).spawn().unwrap();
    until("it is open", || {
        (pilot.ask("flows")[0]["tunings"] == serde_json::json!(["receive-window"])).then_some(())
    });
    // A SYN-ACK cannot announce more than 64 KiB, but the first acknowledgement can.
    until("a larger window is announced", || {
        (ss(&lab, 5400, "snd_wnd") > 65_536.0).then_some(())
    });
    held.kill().unwrap();
    held.wait().unwrap();
}

#[test]
fn small_connections_get_no_larger_window_until_needed() {
    let lab = Lab::new();
    let pilot = lab.pilot(&tuned("\"initial-window\""));
    teach(&lab, &pilot);
    lab.run(&format!("short --to {FAR}:5201 --count 140"));
    pilot.wait_closed(144);
    let settled = count(&pilot, "set", "initial-window");
    assert!(settled > 0);
    lab.run(&format!("short --to {FAR}:5201 --count 20"));
    pilot.wait_closed(164);
    assert_eq!(count(&pilot, "set", "initial-window"), settled);
    lab.upload(FAR, 1, 200_000);
    pilot.wait_closed(165);
    lab.run(&format!("short --to {FAR}:5201 --count 5"));
    pilot.wait_closed(170);
    assert!(count(&pilot, "set", "initial-window") > settled);
}

#[test]
fn quick_acks_wait_until_path_needs_them() {
    let lab = Lab::new();
    let pilot = lab.pilot(&tuned("\"quick-ack\""));
    // On a busy host a probe may send a segment again, and then two are received.
    let (closed, settled) = (1..=5)
        .find_map(|attempt| settle(&lab, &pilot, attempt * 160))
        .expect("quick ACKs wait for a use");
    lab.run(&format!("bulk --to {FAR}:5201 --bytes 200000 --reverse"));
    pilot.wait_closed(closed + 1);
    lab.run(&format!("short --to {FAR}:5201 --count 5"));
    pilot.wait_closed(closed + 6);
    assert!(count(&pilot, "set", "quick-ack") > settled);
    assert!(tuning(&pilot, "quick-ack")["waits"].is_null());
}

/// Makes 160 connections that receive one segment each, until `closed` have ended in all. Returns
/// `closed`, and how often quick ACKs were set, if none of the last 20 had them.
fn settle(lab: &Lab, pilot: &Daemon, closed: u64) -> Option<(u64, u64)> {
    lab.run(&format!("short --to {FAR}:5201 --count 140"));
    pilot.wait_closed(closed - 20);
    let settled = count(pilot, "set", "quick-ack");
    assert!(settled > 0);
    lab.run(&format!("short --to {FAR}:5201 --count 20"));
    pilot.wait_closed(closed);
    let waits = &tuning(pilot, "quick-ack")["waits"];
    (count(pilot, "set", "quick-ack") == settled
        && waits == "its last 128 connections received one segment at most")
        .then_some((closed, settled))
}

#[test]
fn algorithm_is_not_charged_for_tuned_window_rate() {
    let lab = Lab::new();
    let pilot = lab.pilot(&tuned("\"initial-window\""));
    teach(&lab, &pilot);
    // One of the four that began late may have had a tuned window itself.
    let charged = pilot.status()["charged"].as_u64().unwrap();
    assert!((1..=4).contains(&charged), "{charged}");
    lab.upload(FAR, 1, 200_000); // about 140 packets: fewer than sixteen windows
    pilot.wait_closed(5);
    let window = explained_window(&pilot);
    assert!((10..=140).contains(&window), "{window}");
    assert_eq!(pilot.status()["charged"], charged);
    assert!(tuning(&pilot, "initial-window")["set"].as_u64() >= Some(1));
    // Sixteen windows and more count for the algorithm.
    lab.upload(FAR, 1, 4_000_000);
    pilot.wait_closed(6);
    assert_eq!(pilot.status()["charged"], charged + 1);
}

/// The last window set, in packets.
fn explained_window(pilot: &Daemon) -> u64 {
    let last = tuning(pilot, "initial-window")["last"].to_string();
    let digits = last.trim_start_matches('"').split(' ').next();
    digits.unwrap().parse().unwrap()
}

#[test]
fn windows_that_lose_brake_those_that_come_after() {
    let lab = Lab::new();
    let pilot = lab.pilot(&tuned("\"initial-window\""));
    teach(&lab, &pilot);
    lab.upload(FAR, 1, 100_000);
    pilot.wait_closed(5);
    let before = explained_window(&pilot);
    lab.net.shape(SHORT_QUEUE);
    lab.upload(FAR, 4, 100_000);
    pilot.wait_closed(9);
    let path = pilot.tuned(FAR);
    assert!(path["retreats"].as_u64() >= Some(1), "{path}");
    assert!(path["brake"].as_u64() >= Some(1), "{path}");
    assert!(explained_window(&pilot) < before, "{before}: {path}");
    assert!(pilot.status()["tunings"]["retreats"].as_u64() >= Some(1));
}

#[test]
fn linear_timeouts_start_at_first_retransmission() {
    let lab = Lab::new();
    let _sink = Sink::new(&lab.net.far, 5300);
    let pilot = lab.pilot(&tuned("\"thin-linear-timeouts\""));
    let mut application = lab.actor();
    application.tell(&format!("connect {FAR}:5300"));
    assert_eq!(count(&pilot, "set", "thin-linear-timeouts"), 0);
    assert_eq!(pilot.ask("flows")[0]["tunings"], serde_json::json!([]));
    application.tell("send 100000"); // on a busy host some of it may be sent again
    // A packet in the queue now may be larger than the next bucket, and would wait for ever.
    until("the first of it has arrived", || {
        let acked = pilot.ask("flows")[0]["bytes_acked"].as_u64();
        (acked >= Some(100_000)).then_some(())
    });
    lab.net.shape(SHORT_QUEUE);
    application.tell("send 1000000");
    until("something was retransmitted", || {
        let tuned = &pilot.ask("flows")[0]["tunings"];
        (*tuned == serde_json::json!(["thin-linear-timeouts"])).then_some(())
    });
    assert_eq!(count(&pilot, "set", "thin-linear-timeouts"), 1);
    assert_eq!(count(&pilot, "refused", "thin-linear-timeouts"), 0);
}

#[test]
fn a_dry_run_tunes_nothing() {
    let lab = Lab::new();
    let _sink = Sink::new(&lab.net.far, 5300);
    let config = tuned("\"initial-window\", \"rto\"") + "rto_floor_ms = 20\n";
    let pilot = lab.pilot_with(&config, &["--dry-run"]);
    teach(&lab, &pilot);
    let mut application = lab.actor();
    application.tell(&format!("connect {FAR}:5300"));
    application.tell("send 100");
    assert!((ss(&lab, 5300, "cwnd") - 10.0).abs() < 2.0);
    assert!(ss(&lab, 5300, "rto") >= 200.0);
    assert!(count(&pilot, "set", "initial-window") > 0);
}

#[test]
fn pure_acks_go_first_while_daemon_runs() {
    let lab = Lab::new();
    let pilot = lab.pilot(&tuned(""));
    lab.run(&format!("bulk --to {FAR}:5201 --bytes 1000000 --reverse"));
    let acks = || pilot.status()["tunings"]["acks_first"].as_u64().unwrap();
    let of_download = acks();
    assert!(of_download > 100, "{of_download}");
    pilot.end(libc::SIGKILL);
    assert_eq!(attached(lab.cgroup.path()), [""; 0]);
}

#[test]
fn missing_ack_priority_device_is_reported_once() {
    let lab = Lab::new();
    let config = tuned("") + "ack_priority_devices = [\"no-such-if0\"]\n";
    let pilot = lab.pilot(&config);
    let status = pilot.status();
    let told = status["algorithms_missing"].as_array().unwrap();
    let about = |line: &&Value| line.as_str().unwrap().starts_with("no-such-if0 serves");
    assert_eq!(told.iter().filter(about).count(), 1, "{status}");
}

#[test]
fn link_local_address_is_tuned_for_each_link() {
    let lab = Lab::new();
    second_way(&lab);
    let _sink = Sink::new(&lab.net.far, 5300);
    for device in ["eth0", "eth1"] {
        for (netns, host) in [(&lab.net.near, "66"), (&lab.net.far, "77")] {
            netns.ip(&format!("address add fe80::{host}/64 dev {device} nodad"));
        }
    }
    let pilot = lab.pilot(&tuned("\"rto\""));
    let indices = [c"eth0", c"eth1"].map(|name| index_of(&lab.net.near, name));
    for (index, times) in indices.into_iter().zip([1, 2]) {
        for _ in 0..times {
            let mut application = lab.actor();
            application.tell(&format!("connect [fe80::77%{index}]:5300"));
            application.tell("send 300000");
            application.tell("close");
        }
    }
    pilot.wait_closed(3);
    let known = pilot.ask("explain fe80::77");
    let paths = known["paths"].as_array().unwrap().iter();
    let mut of_links: Vec<_> = paths
        .filter(|path| !path["tuning"].is_null())
        .map(|path| {
            path["path"]["interface"]
                .as_str()
                .unwrap_or_default()
                .to_owned()
        })
        .collect();
    of_links.sort();
    let mut expected = indices.map(|index| index.to_string());
    expected.sort();
    assert_eq!(of_links, expected, "{known}");
}
