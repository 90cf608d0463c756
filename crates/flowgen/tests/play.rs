//! `play`, `reflect` and `calibrate` on loopback: every kind of work, and what is said when the
//! port is taken.

#![allow(clippy::unwrap_used)]

use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Output, Stdio};

const FLOWGEN: &str = env!("CARGO_BIN_EXE_flowgen");

/// A port that nobody listens on now.
fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

fn group(name: &str, port: u16, work: &Value) -> Value {
    json!({
        "name": name, "to": format!("127.0.0.1:{port}"), "start_s": 0.0, "end_s": 0.6,
        "streams": 2, "sample": true, "work": work,
    })
}

fn plan(port: u16, flows: &[Value]) -> Value {
    json!({
        "duration_s": 0.6, "sample_ms": 50, "drain_s": 2.0, "flows": flows,
        "serve": {"listen": format!("127.0.0.1:{port}"), "short_bytes": 128},
    })
}

fn play(folder: &Path, plan: &Value) -> Output {
    let path = folder.join("plan.json");
    std::fs::write(&path, plan.to_string()).unwrap();
    let mut command = Command::new(FLOWGEN);
    command.arg("play").arg(path).arg("--out").arg(folder);
    command.output().unwrap()
}

/// Rows of a CSV without commas in its fields.
fn rows(path: &Path) -> Vec<BTreeMap<String, String>> {
    let text = std::fs::read_to_string(path).unwrap();
    let mut lines = text.lines();
    let names: Vec<_> = lines.next().unwrap().split(',').collect();
    let row = |line: &str| {
        let fields = line.split(',').map(str::to_owned);
        names
            .iter()
            .map(|&name| name.to_owned())
            .zip(fields)
            .collect()
    };
    lines.map(row).collect()
}

#[test]
fn every_kind_of_work_is_noted() {
    let folder = tempfile::tempdir().unwrap();
    let port = free_port();
    let mut sized = group(
        "sized",
        port,
        &json!({"kind": "sized", "bytes": [1000, 70_000]}),
    );
    sized["connections"] = json!(6);
    sized["warmup"] = json!(2);
    let mut timed = group("timed", port, &json!({"kind": "timed"}));
    timed["cc"] = json!("reno");
    let exchange = json!({"kind": "exchange", "request_bytes": 5000, "response_bytes": 10,
        "think_ms": 20.0});
    let short = json!({"kind": "short", "answer_bytes": 128});
    let flows = [
        sized,
        timed,
        group("exchange", port, &exchange),
        group("short", port, &short),
    ];
    let output = play(folder.path(), &plan(port, &flows));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["errors"], 0);

    let flows = rows(&folder.path().join("flows.csv"));
    let of = |name: &'static str| flows.iter().filter(move |row| row["group"] == name);
    let sizes: Vec<_> = of("sized").map(|row| row["bytes"].as_str()).collect();
    assert_eq!(sizes, ["1000", "70000", "1000", "70000", "1000", "70000"]);
    assert_eq!(of("sized").filter(|row| row["warmup"] == "true").count(), 2);
    assert!(of("sized").all(|row| !row["fct_s"].is_empty()));
    assert_eq!(of("timed").count(), 2);
    assert!(of("timed").all(|row| row["cc_used"] == "reno" && row["fct_s"].is_empty()));
    assert!(of("timed").all(|row| row["bytes"].parse::<u64>().unwrap() > 100_000));
    assert!(of("exchange").count() >= 4);
    assert!(of("exchange").all(|row| row["bytes"] == "5010" && !row["fct_s"].is_empty()));
    assert!(of("short").count() >= 4 && of("short").all(|row| row["bytes"] == "128"));
    let samples = rows(&folder.path().join("samples.csv"));
    assert!(
        samples
            .iter()
            .any(|row| row["cc"] == "reno" && row["cwnd_packets"] != "0")
    );
}

#[test]
fn a_port_that_is_taken_is_said_with_its_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let timed = group("timed", port, &json!({"kind": "timed"}));
    let output = play(folder.path(), &plan(port, &[timed]));
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        said.contains(&format!("cannot listen on 127.0.0.1:{port}"))
            && said.contains("stop the other listener"),
        "{said}"
    );
    assert_eq!(said.lines().count(), 1);
    assert!(!folder.path().join("flows.csv").exists());
}

#[test]
fn an_algorithm_that_is_not_there_is_an_error_of_its_flow() {
    let folder = tempfile::tempdir().unwrap();
    let port = free_port();
    let mut timed = group("timed", port, &json!({"kind": "timed"}));
    timed["cc"] = json!("nosuchcc");
    let output = play(folder.path(), &plan(port, &[timed]));
    assert!(output.status.success());
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["errors"], 2);
    let first = report["first_error"].as_str().unwrap();
    assert!(
        first.contains("cannot set congestion control 'nosuchcc'"),
        "{first}"
    );
}

#[test]
fn an_idle_loopback_is_calibrated() {
    let to = format!("127.0.0.1:{}", free_port());
    let mut server = Command::new(FLOWGEN)
        .args(["reflect", "--listen", &to])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(server.stdout.as_mut().unwrap())
        .read_line(&mut line)
        .unwrap();
    let output = Command::new(FLOWGEN)
        .args([
            "calibrate",
            "--to",
            &to,
            "--rate-mbit",
            "10",
            "--loss-packets",
            "50",
        ])
        .output()
        .unwrap();
    server.kill().unwrap();
    server.wait().unwrap();
    assert!(output.status.success());
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["pings"], 11);
    assert_eq!(
        (&report["loss_packets_sent"], &report["loss_packets_lost"]),
        (&json!(50), &json!(0))
    );
    assert!(report["udp_rate_mbit"].as_f64().unwrap() > 1.0);
    assert!(report["idle_rtt_ms"].as_f64().unwrap() < 1000.0);
}
