//! A failure is one line: the address, the reason, and the remedy.

use std::process::Output;

use serde_json::json;
use tcpilot_tests::{Capabilities, Place, folder};

use crate::links::Links;

const MPQUIC: &str = "--transport mpquic --bytes 1k --wait 3";

/// Runs `flowgen bulk` until it fails; returns its one line.
fn said(net: &Links, arguments: &str) -> String {
    let mut command = Place::outside(&net.near).command("flowgen");
    command.args(["bulk", "--to", "10.1.1.2:5201"]);
    line(command.args(arguments.split_whitespace()).output().unwrap())
}

fn line(output: Output) -> String {
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(said.lines().count(), 1, "{said}");
    said
}

#[test]
fn failed_path_is_named_with_reason_and_remedy() {
    let net = Links::new(2, 1, "--quic");
    for (ends, reason, remedy) in [
        (
            "10.9.9.9=10.2.1.2",
            "Cannot assign requested address",
            "an address of this host",
        ),
        (
            "10.2.1.1=192.0.2.1",
            "Network is unreachable",
            "ip route get",
        ),
        ("10.2.1.1=10.2.1.77", "nothing comes back", "ip rule"),
    ] {
        let said = said(&net, &format!("{MPQUIC} --path {ends}"));
        let (local, remote) = ends.split_once('=').unwrap();
        let named = format!("cannot open a path from {local} to {remote}:5201: {reason}");
        assert!(said.contains(&named) && said.contains(remedy), "{said}");
    }
}

#[test]
fn more_paths_than_the_server_allows_are_refused() {
    let net = Links::new(1, 3, "--quic --quic-paths 2");
    let paths = "--path 10.1.2.1=10.1.2.2 --path 10.1.3.1=10.1.3.2";
    let said = said(&net, &format!("{MPQUIC} {paths}"));
    assert!(
        said.contains("from 10.1.3.1 to 10.1.3.2:5201: the server allows no more paths")
            && said.contains("--quic-paths"),
        "{said}"
    );
}

#[test]
fn a_peer_without_multipath_is_named() {
    let net = Links::new(1, 2, "--quic --quic-paths 1");
    let said = said(&net, &format!("{MPQUIC} --path 10.1.2.1=10.1.2.2"));
    assert!(
        said.contains("10.1.1.2:5201 does not speak multipath QUIC")
            && said.contains("--quic-paths"),
        "{said}"
    );
    let one = net.run("--transport quic --bytes 1k");
    assert!(one["error"].is_null() && one["bytes"] == 1000, "{one}");
}

#[test]
fn peer_without_quic_times_out_with_remedy() {
    let net = Links::new(1, 1, "");
    let said = said(&net, "--transport quic --bytes 1k --wait 1");
    assert!(
        said.contains("connecting: nothing for 1 s") && said.contains("--wait"),
        "{said}"
    );
}

#[test]
fn bind_must_match_route_source_of_first_path() {
    let net = Links::new(2, 1, "--quic");
    let said = said(&net, &format!("{MPQUIC} --bind 10.2.1.1"));
    assert!(
        said.contains("has the source 10.1.1.1, not 10.2.1.1"),
        "{said}"
    );
}

#[test]
fn another_namespace_without_the_privilege_is_said() {
    let net = Links::new(1, 1, "--quic");
    let folder = folder();
    let plan = json!({
        "duration_s": 1, "sample_ms": 100, "drain_s": 1,
        "flows": [{"name": "a", "to": "10.1.1.2:5201", "transport": "mpquic", "start_s": 0,
            "end_s": 1, "streams": 1, "sample": true, "work": {"kind": "timed"}}],
        "serve": {"netns": format!("/run/netns/{}", net.far.name()), "listen": "0.0.0.0:5202",
            "short_bytes": 1, "quic_paths": 2},
    });
    let file = folder.path().join("plan.json");
    std::fs::write(&file, plan.to_string()).unwrap();
    let place = Place {
        capabilities: Capabilities::Only(&[]),
        ..Place::here()
    };
    let mut command = place.command("flowgen");
    command
        .arg("play")
        .arg(&file)
        .arg("--out")
        .arg(folder.path());
    let said = line(command.output().unwrap());
    assert!(
        said.contains("entering a network namespace: Operation not permitted")
            && said.contains("run it as root"),
        "{said}"
    );
}
