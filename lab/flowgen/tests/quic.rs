//! QUIC and multipath QUIC over loopback, with bytes checked exactly. Links that are full or broken are in
//! tests.

// Clippy takes only the test functions themselves for tests, not their helpers.
#![allow(clippy::unwrap_used)]

use flowgen::bulk::{self, BulkOptions, ConnectionReport};
use flowgen::protocol::Limit;
use flowgen::server::{ServeOptions, Server};
use flowgen::transport::Transport;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const FLOWGEN: &str = env!("CARGO_BIN_EXE_flowgen");
const WAIT: Duration = Duration::from_secs(10);

/// Starts a server that lives as long as the test's process.
fn serve(listen: &str) -> SocketAddr {
    let options = ServeOptions {
        listen: listen.parse().unwrap(),
        once: false,
        short_bytes: 128,
        mptcp: false,
        quic_paths: Some(8),
        cc: None,
    };
    let mut server = Server::bind(options).unwrap();
    let address = server.local_address().unwrap();
    std::thread::spawn(move || server.run());
    address
}

fn options(to: SocketAddr, transport: Transport, limit: Limit) -> BulkOptions {
    BulkOptions {
        to,
        transport,
        paths: Vec::new(),
        limit,
        reverse: false,
        count: 1,
        parallel: 1,
        cc: None,
        bind: None,
        gap: Duration::ZERO,
        wait: WAIT,
    }
}

fn run(options: &BulkOptions) -> ConnectionReport {
    let mut reports = Vec::new();
    bulk::run(options, |report| reports.push(report.clone()));
    reports.pop().unwrap()
}

#[test]
fn quic_delivers_exactly_the_bytes_asked_for() {
    for listen in ["127.0.0.1:0", "[::1]:0"] {
        let to = serve(listen);
        for bytes in [0, 1, 131_072, 10_000_019] {
            let report = run(&options(to, Transport::Quic, Limit::Bytes(bytes)));
            assert_eq!((report.error, report.bytes), (None, bytes));
            assert_eq!(report.cc_start.as_deref(), Some("cubic"));
            assert_eq!(report.paths.len(), 1);
            assert_eq!(report.local.unwrap().ip(), to.ip());
        }
    }
}

#[test]
fn several_paths_deliver_exactly_the_bytes_asked_for() {
    let to = serve("127.0.0.1:0");
    for cc in ["cubic", "tp_olia"] {
        let report = run(&BulkOptions {
            paths: vec!["127.0.0.5".parse().unwrap(), "127.0.0.6".parse().unwrap()],
            cc: Some(cc.into()),
            ..options(to, Transport::Mpquic, Limit::Bytes(20_000_003))
        });
        assert_eq!((report.error, report.bytes), (None, 20_000_003));
        let locals: Vec<_> = report.paths.iter().map(|p| p.local.to_string()).collect();
        assert_eq!(locals, ["127.0.0.1", "127.0.0.5", "127.0.0.6"]);
        let acked: u64 = report.paths.iter().map(|path| path.acked_bytes).sum();
        assert!((19_000_000..=20_400_000).contains(&acked), "{acked}");
        assert_eq!(report.cc_end.as_deref(), Some(cc));
    }
}

#[test]
fn a_time_limit_is_kept() {
    let to = serve("127.0.0.1:0");
    let limit = Limit::Time(Duration::from_millis(300));
    let report = run(&options(to, Transport::Quic, limit));
    assert_eq!(report.error, None);
    assert!(report.bytes > 100_000 && report.goodput_bits_per_s.is_some());
    assert!(report.elapsed_seconds >= 0.3, "{}", report.elapsed_seconds);
}

#[test]
fn only_the_client_sends() {
    let reverse = BulkOptions {
        reverse: true,
        ..options(serve("127.0.0.1:0"), Transport::Quic, Limit::Bytes(1))
    };
    let said = run(&reverse).error.unwrap();
    assert!(said.contains("--reverse"), "{said}");
}

#[test]
fn unknown_algorithm_error_lists_available_ones() {
    let vegas = BulkOptions {
        cc: Some("vegas".into()),
        ..options(serve("127.0.0.1:0"), Transport::Quic, Limit::Bytes(1))
    };
    let said = run(&vegas).error.unwrap();
    assert!(
        said.contains("'vegas'") && said.contains("lia, olia or balia"),
        "{said}"
    );
}

fn play(folder: &Path, plan: &Value) -> Value {
    let path = folder.join("plan.json");
    std::fs::write(&path, plan.to_string()).unwrap();
    let mut command = Command::new(FLOWGEN);
    command.arg("play").arg(path).arg("--out").arg(folder);
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Rows of a CSV without commas in its fields.
fn rows(path: &Path) -> Vec<BTreeMap<String, String>> {
    let text = std::fs::read_to_string(path).unwrap();
    let mut lines = text.lines();
    let names: Vec<_> = lines
        .next()
        .unwrap()
        .split(',')
        .map(str::to_owned)
        .collect();
    lines
        .map(|line| {
            let fields = line.split(',').map(str::to_owned);
            names.iter().cloned().zip(fields).collect()
        })
        .collect()
}

/// A plan whose server is `play`'s own, on a port that was free a moment ago.
fn plan(flows: &[(&str, &str, Value)]) -> Value {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let to = free.local_addr().unwrap().to_string();
    let group = |(name, transport, work): &(&str, &str, Value)| {
        let paths = if *transport == "mpquic" {
            json!([{"local": "127.0.0.5"}])
        } else {
            json!([])
        };
        json!({"name": name, "to": to, "transport": transport, "paths": paths, "cc": "lia",
            "start_s": 0.0, "end_s": 0.8, "streams": 1, "sample": true, "work": work})
    };
    json!({
        "duration_s": 0.8, "sample_ms": 50, "drain_s": 2.0,
        "flows": flows.iter().map(group).collect::<Vec<_>>(),
        "serve": {"listen": to, "short_bytes": 1, "quic_paths": 4},
        "links": {"127.0.0.1": "first", "127.0.0.5": "second"},
    })
}

#[test]
fn a_run_notes_flows_and_paths() {
    let folder = tempfile::tempdir().unwrap();
    let timed = json!({"kind": "timed"});
    let sized = json!({"kind": "sized", "bytes": [1_000_000]});
    let report = play(
        folder.path(),
        &plan(&[("timed", "mpquic", timed), ("sized", "quic", sized)]),
    );
    assert_eq!(report["errors"], 0, "{report}");
    let flows = rows(&folder.path().join("flows.csv"));
    let of = |name: &str| flows.iter().filter(|row| row["group"] == name).count();
    assert_eq!(of("timed"), 1);
    assert!(of("sized") >= 2, "one after the other: {flows:?}");
    for row in &flows {
        assert_eq!(
            (row["cc_start"].as_str(), row["cc_used"].as_str()),
            ("lia", "lia")
        );
        assert_ne!(row["local_port"], "0");
        let (bytes, sent) = (&row["bytes"], &row["sent_packets"]);
        assert!(sent.parse::<u64>().unwrap() > 500, "{row:?}");
        if row["group"] == "sized" && row["error"] == "\"\"" {
            assert_eq!(bytes, "1000000");
            assert!(!row["fct_s"].is_empty());
        } else {
            assert!(bytes.parse::<u64>().unwrap() > 100_000, "{row:?}");
        }
    }
    let samples = rows(&folder.path().join("samples.csv"));
    let timed = flows.iter().find(|row| row["group"] == "timed").unwrap();
    let links: BTreeSet<_> = samples
        .iter()
        .filter(|row| row["flow"] == timed["flow"])
        .map(|row| row["link"].as_str())
        .collect();
    assert_eq!(links, BTreeSet::from(["first", "second"]));
    assert!(samples.iter().all(|row| row["cc"] == "lia"));
    let last = samples.iter().rfind(|row| row["link"] == "first").unwrap();
    assert!(
        last["bytes_acked"].parse::<u64>().unwrap() > 100_000,
        "{last:?}"
    );
    assert!(last["srtt_us"].parse::<u64>().unwrap() > 0);
}

#[test]
fn flow_to_absent_server_ends_with_group() {
    let folder = tempfile::tempdir().unwrap();
    let mut plan = plan(&[("lost", "quic", json!({"kind": "timed"}))]);
    plan["serve"] = Value::Null;
    let report = play(folder.path(), &plan);
    assert_eq!(
        report["first_error"],
        "not established when its time was over"
    );
    let flows = rows(&folder.path().join("flows.csv"));
    assert_eq!(flows[0]["bytes"], "0");
}
