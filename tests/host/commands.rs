//! The command line's messages: refusals with the remedy, and answers to common input.

use std::{fs, os::unix::process::CommandExt};

use serde_json::Value;
use tcpilot_tests::{Lab, Place, Sink};

use crate::ALWAYS_BBR;

#[test]
fn user_namespace_is_refused_with_status_3() {
    let lab = Lab::new();
    let mut command = Place::here().command("tcpilot");
    command
        .args(["run", "--state"])
        .arg(lab.dir.path().join("state.db"));
    command
        .arg("--socket")
        .arg(lab.dir.path().join("control.sock"));
    let enter = || {
        // SAFETY: a plain system call about this process.
        if unsafe { libc::unshare(libc::CLONE_NEWUSER) } != 0 {
            return Err(std::io::Error::last_os_error());
        }
        fs::write("/proc/self/uid_map", "0 0 1")
    };
    // SAFETY: between fork and exec; the file's name and text are short and need no lock.
    unsafe { command.pre_exec(enter) };
    let output = command.output().unwrap();
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{message}");
    assert!(message.contains("user namespace"), "{message}");
}

#[test]
fn a_refused_run_leaves_nothing_behind() {
    let lab = Lab::new();
    let _pilot = lab.pilot(ALWAYS_BBR);
    let dir = tempfile::tempdir().unwrap();
    let new = dir.path().join("new");
    let mut command = Place::here().command("tcpilot");
    command.arg("run").arg("--cgroup").arg(lab.cgroup.path());
    command.arg("--state").arg(new.join("state.db"));
    command.arg("--socket").arg(new.join("control.sock"));
    let output = command.output().unwrap();
    assert_eq!(
        output.status.code(),
        Some(5),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(!new.exists());
}

/// Runs a command that ends by itself; returns its exit status and its lines of standard error.
fn told(arguments: &[&str]) -> (Option<i32>, Vec<String>) {
    let output = Place::here()
        .command("tcpilot")
        .args(arguments)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    (
        output.status.code(),
        text.lines().map(str::to_owned).collect(),
    )
}

#[test]
fn each_config_error_is_one_escaped_line() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("t.toml");
    let name = file.to_str().unwrap();
    fs::write(&file, "\"\\u001b[2J\" = 1\nepsilonn = 2\n").unwrap();
    let (status, lines) = told(&["config", "check", name]);
    assert_eq!((status, lines.len()), (Some(2), 2), "{lines:?}");
    assert!(
        lines[0].contains(":1: ") && lines[1].contains(":2: "),
        "{lines:?}"
    );
    assert!(!lines[0].contains('\u{1b}'), "{lines:?}");
    fs::write(&file, "\n".repeat(2 << 20)).unwrap();
    let (status, lines) = told(&["config", "check", name]);
    assert_eq!((status, lines.len()), (Some(2), 1), "{lines:?}");
    assert!(lines[0].contains("more than 1 MiB"), "{lines:?}");
}

#[test]
fn explicit_socket_never_falls_back_to_default_state() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("nobody.sock");
    for what in ["show", "export", "reset"] {
        let (status, lines) = told(&["state", what, "--socket", socket.to_str().unwrap()]);
        assert_eq!(status, Some(5), "{what}: {lines:?}");
        assert!(
            lines[0].contains("nobody.sock") && lines[0].contains("--state"),
            "{lines:?}"
        );
    }
}

#[test]
fn top_without_a_terminal_says_what_to_use() {
    let lab = Lab::new();
    let pilot = lab.pilot(ALWAYS_BBR);
    let (status, lines) = told(&["top", "--socket", pilot.socket().to_str().unwrap()]);
    assert_eq!((status, lines.len()), (Some(2), 1), "{lines:?}");
    assert!(lines[0].contains("needs a terminal"), "{lines:?}");
}

#[test]
fn explain_takes_a_path_as_it_is_shown() {
    let lab = Lab::new();
    let _sink = Sink::new(&lab.net.far, 5300);
    let pilot = lab.pilot(ALWAYS_BBR);
    let mut application = lab.actor();
    application.tell("connect 10.64.0.4:5300");
    application.tell("send 200000");
    application.tell("close");
    pilot.wait_closed(1);
    application.tell("connect 10.64.0.4:5300");
    let netns = lab.net.near.name();
    let socket = pilot.socket();
    let explain = |words: &[&str]| {
        let mut command = Place::here().command("tcpilot");
        command.arg("explain").args(words).arg("--json");
        command.arg("--socket").arg(&socket).output().unwrap()
    };
    let of = |words: &[&str]| {
        let explained: Value = serde_json::from_slice(&explain(words).stdout).unwrap();
        let count = |key: &str| explained[key].as_array().unwrap().len();
        (count("paths"), count("flows"))
    };
    for shown in ["10.64.0.4", "10.64.0.0/24"] {
        assert_eq!(of(&[shown]), (1, 1));
        assert_eq!(of(&[shown, &format!("@{netns}")]), (1, 1));
        assert_eq!(of(&[&format!("{shown} @elsewhere")]).0, 0);
    }
    assert_eq!(of(&["8.8.5.0/24"]).1, 0);
    let refused = String::from_utf8(explain(&["10.64.0.4/24"]).stderr).unwrap();
    assert!(refused.contains("10.64.0.0/24"), "{refused}");
}
