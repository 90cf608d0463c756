//! `play`, `reflect` and `calibrate` on loopback: every kind of work, and what is said when the
//! port is taken.

#![allow(clippy::unwrap_used)]

use flowgen::protocol::RECEIVER_REPORT_BYTES;
use rustix::net::{self, AddressFamily, SocketType};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

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
    let seconds = |row: &BTreeMap<String, String>, key: &str| row[key].parse::<f64>().unwrap();
    for row in of("sized") {
        let limited = seconds(row, "window_limited_s") + seconds(row, "buffer_limited_s");
        let (busy, all) = (seconds(row, "busy_s"), seconds(row, "fct_s"));
        // The kernel counts in ticks.
        assert!(limited <= busy && busy <= all + 0.01, "{row:?}");
    }
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
fn connections_reach_each_server_at_given_times() {
    let folder = tempfile::tempdir().unwrap();
    let port = free_port();
    let mut sized = group(
        "many",
        port,
        &json!({"kind": "sized", "bytes": [1000, 2000]}),
    );
    sized["destinations"] = json!([format!("127.0.0.2:{port}"), format!("127.0.0.3:{port}")]);
    sized["at_s"] = json!([0.3, 0.1, 0.2]);
    let mut plan = plan(port, &[sized]);
    plan["serve"]["listen"] = json!(format!("0.0.0.0:{port}"));
    let output = play(folder.path(), &plan);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    let flows = rows(&folder.path().join("flows.csv"));
    let of = |name: &str| -> Vec<&str> { flows.iter().map(|row| row[name].as_str()).collect() };
    assert_eq!(of("to"), ["127.0.0.2", "127.0.0.3", "127.0.0.2"]);
    assert_eq!(of("bytes"), ["1000", "2000", "1000"]);
    for (start, least_s) in of("start_s").iter().zip([0.1, 0.2, 0.3]) {
        assert!(start.parse::<f64>().unwrap() >= least_s, "{start}");
    }
}

#[test]
fn source_rate_holds_and_probes_are_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let port = free_port();
    let mut paced = group("paced", port, &json!({"kind": "timed"}));
    paced["source"] = json!({"rate_mbit": 8.0});
    paced["streams"] = json!(1);
    let mut plan = plan(port, &[paced]);
    let to = format!("127.0.0.1:{}", free_port());
    plan["probes"] = json!([{"name": "ping", "to": to, "start_s": 0.0, "end_s": 0.4,
        "interval_ms": 20.0, "bytes": 64, "echo": true}]);
    let output = play(folder.path(), &plan);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    let flows = rows(&folder.path().join("flows.csv"));
    // 8 Mbit/s for 0.6 s; at full speed loopback carries a hundred times as much.
    let bytes = flows[0]["bytes"].parse::<u64>().unwrap();
    assert!((300_000..=620_000).contains(&bytes), "{bytes}");
    let probes = rows(&folder.path().join("probes.csv"));
    assert_eq!(probes.len(), 20);
    assert!(
        probes
            .iter()
            .all(|row| row["probe"] == "ping" && !row["delay_ms"].is_empty())
    );
}

#[test]
fn occupied_port_error_includes_remedy() {
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

/// A listener whose queue is full: who connects is not answered until somebody accepts.
fn listener_without_room() -> (OwnedFd, u16, TcpStream) {
    let listener = net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    net::bind(&listener, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)).unwrap();
    net::listen(&listener, 0).unwrap();
    let address = SocketAddr::try_from(net::getsockname(&listener).unwrap()).unwrap();
    let first = TcpStream::connect(address).unwrap();
    (listener, address.port(), first)
}

/// Whether a SYN to the port awaits its answer.
fn somebody_waits_for(port: u16) -> bool {
    const SYN_SENT: &str = "02";
    let sockets = std::fs::read_to_string("/proc/net/tcp").unwrap();
    sockets.lines().any(|line| {
        let fields: Vec<_> = line.split_whitespace().collect();
        fields[2].ends_with(&format!(":{port:04X}")) && fields[3] == SYN_SENT
    })
}

fn late_plan(port: u16, group_end_s: f64) -> Value {
    let mut timed = group("timed", port, &json!({"kind": "timed", "seconds": 0.2}));
    timed["end_s"] = json!(group_end_s);
    timed["streams"] = json!(1);
    timed["connections"] = json!(1);
    json!({"duration_s": 5.0, "sample_ms": 50, "drain_s": 2.0, "flows": [timed]})
}

/// The first SYN is lost, and the connection is established after its length has passed.
#[test]
fn connection_duration_starts_at_establishment() {
    let folder = tempfile::tempdir().unwrap();
    let (listener, port, first) = listener_without_room();
    let server = std::thread::spawn(move || {
        while !somebody_waits_for(port) {
            std::thread::sleep(Duration::from_millis(20));
        }
        std::thread::sleep(Duration::from_millis(400));
        drop(net::accept(&listener).unwrap());
        let mut late = TcpStream::from(net::accept(&listener).unwrap());
        std::io::copy(&mut late, &mut std::io::sink()).unwrap();
        late.write_all(&[0; RECEIVER_REPORT_BYTES]).unwrap();
    });
    let output = play(folder.path(), &late_plan(port, 5.0));
    server.join().unwrap();
    drop(first);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    let flows = rows(&folder.path().join("flows.csv"));
    let seconds = |name: &str| flows[0][name].parse::<f64>().unwrap();
    assert_eq!(flows[0]["error"].trim_matches('"'), "");
    assert!(seconds("start_s") > 0.4, "{flows:?}");
    // To the end of the run it would be four seconds.
    assert!(seconds("end_s") - seconds("start_s") < 2.0, "{flows:?}");
}

#[test]
fn unestablished_connection_ends_with_its_group() {
    let folder = tempfile::tempdir().unwrap();
    let (_listener, port, _first) = listener_without_room();
    let output = play(folder.path(), &late_plan(port, 0.6));
    assert!(output.status.success());
    let flows = rows(&folder.path().join("flows.csv"));
    assert_eq!(
        flows[0]["error"].trim_matches('"'),
        "not established when its time was over"
    );
    assert_eq!(flows[0]["bytes"], "0");
}

#[test]
fn unavailable_algorithm_fails_flows_not_the_run() {
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
