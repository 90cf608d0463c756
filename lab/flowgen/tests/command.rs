//! The binary: ready line, output, exit status.

// Clippy takes only the test functions themselves for tests, not their helpers.
#![allow(clippy::unwrap_used)]

use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Output, Stdio};

const FLOWGEN: &str = env!("CARGO_BIN_EXE_flowgen");

/// Starts `serve --once`; returns it with the address it printed.
fn serve_once(listen: &str) -> (Child, String) {
    let mut command = Command::new(FLOWGEN);
    command.args(["serve", "--once", "--listen", listen]);
    let mut server = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(server.stdout.as_mut().unwrap())
        .read_line(&mut line)
        .unwrap();
    let address = line.trim().strip_prefix("listening ").unwrap().to_owned();
    (server, address)
}

fn flowgen(arguments: &str) -> Output {
    Command::new(FLOWGEN)
        .args(arguments.split(' '))
        .output()
        .unwrap()
}

fn json_lines(output: &Output) -> Vec<Value> {
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn once_serves_one_connection_and_exits() {
    for listen in ["127.0.0.1:0", "[::1]:0"] {
        let (mut server, to) = serve_once(listen);
        let output = flowgen(&format!("bulk --to {to} --bytes 300k"));
        assert!(output.status.success());
        let lines = json_lines(&output);
        assert_eq!(lines.len(), 1, "one connection has no summary");
        assert_eq!(lines[0]["bytes"], 300_000);
        assert!(server.wait().unwrap().success());
    }
}

#[test]
fn failure_exits_1_with_one_line_remedy() {
    let output = flowgen("bulk --to 127.0.0.1:1 --bytes 1 --count 2");
    assert_eq!(output.status.code(), Some(1));
    let lines = json_lines(&output);
    assert_eq!(lines.len(), 3);
    assert_eq!(lines[2]["summary"], true);
    assert_eq!(lines[2]["errors"], 2);
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(message.lines().count(), 1);
    assert!(
        message.contains("127.0.0.1:1") && message.contains("flowgen serve"),
        "{message}"
    );
}

#[test]
fn wrong_usage_exits_2() {
    for wrong in [
        "bulk --to nowhere",
        "bulk --to 127.0.0.1:1 --bytes 1 --seconds 1",
        "spread --to-prefix 10.0.0.0/30 --port 1 --distinct 9",
        "abort --to 127.0.0.1:1",
    ] {
        assert_eq!(flowgen(wrong).status.code(), Some(2), "{wrong}");
    }
}

#[test]
fn text_is_a_table() {
    let (_server, to) = serve_once("127.0.0.1:0");
    let output = flowgen(&format!("bulk --to {to} --bytes 2M --text"));
    let text = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 2);
    assert!(
        lines[0].starts_with("conn") && lines[1].contains(" 2.000 "),
        "{text}"
    );
}
