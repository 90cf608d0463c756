//! `tcpilot watch --read`: a capture shows the flow of a live watch.

use std::{
    io::{BufRead as _, BufReader, Read as _},
    path::Path,
    process::Stdio,
};

use serde_json::Value;
use tcpilot_tests::{Capabilities, Child, FAR, Lab, PORT, Place};

use crate::watch::until_attached;

/// The lines of a complete report.
fn lines(output: std::process::Output) -> Vec<Value> {
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// The flow to the server.
fn upload(lines: &[Value]) -> &Value {
    let ending = format!("> {FAR}:{PORT}");
    let mut flows = lines.iter().filter(|line| line["type"] == "flow");
    let is_upload = |flow: &&Value| flow["flow"].as_str().unwrap().ends_with(&ending);
    flows.find(is_upload).unwrap()
}

/// Captures at the far end, behind the queue, until it is dropped.
fn capture(lab: &Lab, file: &Path) -> Child {
    let mut command = Place::outside(&lab.net.far).command("flowgen");
    command.args(["capture", "eth0", "--out"]).arg(file);
    let mut child = Child(command.stdout(Stdio::piped()).spawn().unwrap());
    let mut line = String::new();
    let stdout = child.0.stdout.as_mut().unwrap();
    BufReader::new(stdout.take(64))
        .read_line(&mut line)
        .unwrap();
    assert!(line.starts_with("capturing"), "{line}");
    child
}

/// Reads a file as somebody without any privilege.
fn read(file: &Path, more: &[&str]) -> std::process::Output {
    let place = Place {
        capabilities: Capabilities::Only(&[]),
        ..Place::here()
    };
    let mut command = place.command("tcpilot");
    command.args(["watch", "--json", "--read"]).arg(file);
    command.args(more).output().unwrap()
}

#[test]
fn a_capture_shows_what_a_live_watch_saw() {
    let lab = Lab::new();
    let file = lab.dir.path().join("far.pcap");
    let mut capturing = capture(&lab, &file);
    let mut command = Place::outside(&lab.net.near).command("tcpilot");
    command.args(["watch", "eth0", "--once", "--json", "--every-round"]);
    let watching = command
        .args(["--for", "12"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    until_attached(watching.id());
    lab.run(&format!("bulk --to {FAR}:{PORT} --seconds 6"));
    let live = lines(watching.wait_with_output().unwrap());
    capturing.signal(libc::SIGTERM);
    capturing.wait();
    let read = lines(read(&file, &[]));
    let (live, read) = (upload(&live), upload(&read));
    let number = |of: &Value, key: &str| of[key].as_f64().unwrap();
    // The capture has round trips beyond the least for a queue, one look a round, and shows up to twice the mean of
    // the packets' own times in the queue.
    for (key, share) in [("bytes", 0.05), ("min_rtt_us", 1.0), ("queue_us", 0.7)] {
        let (here, there) = (number(live, key), number(read, key));
        println!("{key}: {here} live, {there} read");
        assert!(
            (here - there).abs() <= here.max(there) * share,
            "{key}: {here} live, {there} read"
        );
    }
    assert_eq!(live["handshake"], read["handshake"]);
    let is_judged =
        |of: &Value| !["unknown", "mouse", "ant"].contains(&of["group"].as_str().unwrap());
    if is_judged(live) && is_judged(read) {
        assert_eq!(live["group"], read["group"]);
    }
}

#[test]
fn other_files_are_refused_in_one_line() {
    let lab = Lab::new();
    let file = lab.dir.path().join("text");
    std::fs::write(&file, "no capture, but a text of some length\n").unwrap();
    let refused = |output: std::process::Output| {
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert_eq!(error.lines().count(), 1, "{error}");
        error
    };
    assert!(refused(read(&file, &[])).contains("neither pcap nor pcapng"));
    assert!(refused(read(Path::new("/nowhere"), &[])).contains("No such file"));
    std::fs::write(&file, "").unwrap();
    assert!(refused(read(&file, &[])).contains("no packets"));
}
