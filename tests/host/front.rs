//! The first commands of a user, with real traffic: check, status, paths, explain, report.

use std::{os::unix::process::CommandExt, process::Command};

use serde_json::Value;
use tcpilot_tests::{Daemon, FAR, Lab, Place, Sink, arm, until};

use crate::{
    ALWAYS_BBR,
    rescue::{OTHER, lossy_way},
};

/// Two algorithms, one of them much better if packets are lost.
const RENO_OR_BBR: &str = r#"
    algorithms = ["bbr", "reno"]
    replace_defaults = ["reno", "bbr"]
    [learner]
    kind = "thompson"
    [rescue]
    algorithm = ""
    [effect]
    hold_out_percent = 0
"#;

/// The text of a command.
fn text(pilot: &Daemon, words: &str) -> String {
    let mut command = Place::here().command("tcpilot");
    command
        .args(words.split(' '))
        .arg("--socket")
        .arg(pilot.socket());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{words}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// The path with most experience to an address.
fn main_path(pilot: &Daemon, address: &str) -> Option<Value> {
    let paths = pilot.paths().into_iter();
    let of_address = paths.filter(|path| path["prefix"] == address);
    of_address.max_by(|a, b| {
        let [a, b] = [a, b].map(|path| path["experience"].as_f64().unwrap());
        a.total_cmp(&b)
    })
}

#[test]
fn status_and_paths_show_mbits_with_and_without() {
    let lab = Lab::new();
    // Its default is reno there.
    let near = Place::outside(&lab.net.near);
    let pilot = lab.spawn_pilot(near, RENO_OR_BBR, &[]).ready();
    assert_eq!(text(&pilot, "paths"), "no path has been seen yet\n");
    assert_eq!(text(&pilot, "status").lines().count(), 5);
    let _way = lossy_way(&lab);
    let path = until("bbr is known to be better", || {
        lab.upload(OTHER, 6, 150_000);
        let path = main_path(&pilot, OTHER)?;
        let sure = arm(&path, "bbr")["effect_low"].as_f64()? > 0.0;
        let favourite = arm(&path, "bbr")["share"].as_f64()? > 0.5;
        (sure && favourite).then_some(path)
    });
    rates_fit_the_decisions(&pilot, &path);
    texts_show_the_gain(&pilot);
}

/// The expected rates of a path against its last decisions.
fn rates_fit_the_decisions(pilot: &Daemon, path: &Value) {
    assert_eq!(path["baseline"], "reno");
    let expected = |name: &str| arm(path, name)["expected_rate"].as_f64().unwrap();
    let low = arm(path, "bbr")["expected_rate_low"].as_f64().unwrap();
    let high = arm(path, "bbr")["expected_rate_high"].as_f64().unwrap();
    assert!(expected("bbr") > expected("reno"), "{path}");
    assert!(low < expected("bbr") && expected("bbr") < high, "{path}");
    // The expectation is that of the decisions that the path remembers.
    let explained = pilot.ask(&format!("explain {OTHER}"));
    let decisions = explained["paths"].as_array().unwrap().iter();
    let decisions = decisions.flat_map(|path| path["decisions"].as_array().unwrap());
    let rates: Vec<f64> = decisions
        .filter(|one| one["algorithm"] == "bbr")
        .filter_map(|one| one["goodput"].as_f64())
        .collect();
    let seen = rates.iter().sum::<f64>() / rates.len() as f64;
    let ratio = expected("bbr") / seen;
    assert!(
        (0.4..2.5).contains(&ratio),
        "expected {ratio} of what was seen: {rates:?}"
    );
}

/// The texts of `paths`, `status` and `explain`, with a sure gain on one path.
fn texts_show_the_gain(pilot: &Daemon) {
    let table = text(pilot, "paths");
    let rows: Vec<&str> = table.lines().collect();
    for heading in [
        "Path",
        "Algorithm",
        "Mbit/s",
        "Without",
        "Loss",
        "RTT",
        "Connections",
        "Sure",
    ] {
        assert!(rows[0].contains(heading), "{table}");
    }
    let of_address: Vec<_> = rows.iter().filter(|row| row.starts_with(OTHER)).collect();
    assert_eq!(of_address.len(), 1, "{table}");
    assert!(
        of_address[0].contains("bbr") && of_address[0].ends_with("yes"),
        "{table}"
    );
    let all = text(pilot, "paths --all");
    assert!(
        all.contains("Share") && all.lines().count() > rows.len(),
        "{all}"
    );
    assert_eq!(text(pilot, "paths --filter 9.9.9.9"), "no path matches\n");

    let status = text(pilot, "status");
    let lines: Vec<&str> = status.lines().collect();
    assert_eq!(lines.len(), 5, "{status}");
    assert_eq!(lines[1], "wrong  nothing", "{status}");
    assert!(
        lines[3].contains(OTHER) && lines[3].contains("Mbit/s (bbr"),
        "{status}"
    );
    assert!(text(pilot, "status --verbose").contains("memory   "));
    let explained = text(pilot, &format!("explain {OTHER}"));
    assert!(
        explained.contains("most connections get bbr: "),
        "{explained}"
    );
    assert!(explained.contains("this gain is sure"), "{explained}");
}

/// The daemon's namespace has another default than that of the connections. Held-out connections show it.
#[test]
fn baseline_is_the_default_of_the_connections_namespace() {
    let lab = Lab::new();
    lab.net.far.sysctl("net/ipv4/tcp_congestion_control", "bbr");
    let held_out = RENO_OR_BBR.replace(
        "hold_out_percent = 0",
        "hold_out = \"block\"\nhold_out_percent = 50\nblock_s = 2\nsettle_s = 0",
    );
    let far = Place::outside(&lab.net.far);
    let pilot = lab.spawn_pilot(far, &held_out, &[]).ready();
    let path = until("connections were held out, and others steered", || {
        lab.upload(FAR, 4, 100_000);
        let path = main_path(&pilot, FAR)?;
        let is_known = pilot.opened("held-out") > 1 && path["baseline"] == "reno";
        (is_known && arm(&path, "bbr")["effect"].is_f64()).then_some(path)
    });
    assert_eq!(path["baseline"], "reno", "{path}");
    assert!(arm(&path, "reno")["effect"].is_null(), "{path}");
    let explained = text(&pilot, &format!("explain {FAR}"));
    assert!(
        explained.contains("the kernel's default reno"),
        "{explained}"
    );
}

fn check(place: Place<'_>, lab: &Lab, more: &[&str]) -> Command {
    let mut command = place.command("tcpilot");
    command.args(["check", "--cgroup"]).arg(lab.cgroup.path());
    let config = lab.dir.path().join("check.toml");
    std::fs::write(&config, RENO_OR_BBR).unwrap();
    command.arg("--config").arg(config).args(more);
    command
}

#[test]
fn check_measures_traffic_and_sees_a_running_tcpilot() {
    let lab = Lab::new();
    let _sink = Sink::new(&lab.net.far, 5300);
    let near = Place::outside(&lab.net.near);
    let mut command = check(near, &lab, &["--seconds", "6", "--json"]);
    let mut running = command
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    while running.try_wait().unwrap().is_none() {
        lab.upload(FAR, 1, 2_000_000);
    }
    let output = running.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (&found["schema"], &found["ready"]),
        (&1.into(), &true.into())
    );
    let steerable = found["traffic"]["steered_bytes"].as_u64().unwrap();
    let sent = found["traffic"]["sent_bytes"].as_u64().unwrap();
    assert!(sent >= 2_000_000, "{found}");
    // Sockets of other namespaces count, too: those of other tests.
    assert!(steerable * 10 > sent * 8, "{found}");
    for one in found["checks"].as_array().unwrap() {
        assert!(one["state"] == "ok" || one["state"] == "note", "{one}");
    }

    let pilot = lab.pilot(ALWAYS_BBR);
    let output = check(Place::here(), &lab, &["--seconds", "0"])
        .output()
        .unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(5), "{printed}");
    let line = printed
        .lines()
        .find(|line| line.starts_with("fails"))
        .unwrap();
    assert!(
        line.contains("programs") && line.contains("tcpilot status"),
        "{line}"
    );
    drop(pilot);
}

#[test]
fn check_without_rights_says_which_are_missing() {
    let lab = Lab::new();
    let program = lab.dir.path().join("tcpilot");
    std::fs::copy(tcpilot_tests::binary("tcpilot"), &program).unwrap();
    let mut command = Command::new(&program);
    command
        .args(["check", "--seconds", "0"])
        .uid(65534)
        .gid(65534);
    command.current_dir("/");
    let allow = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(lab.dir.path(), allow).unwrap();
    let output = command.output().unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(3), "{printed}");
    assert!(printed.contains("fails rights"), "{printed}");
    assert!(printed.contains("CAP_BPF"), "{printed}");
}
