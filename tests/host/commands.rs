//! The command line's messages: refusals with the remedy, and answers to common input.

use std::{
    fs,
    os::{
        fd::OwnedFd,
        unix::{fs::PermissionsExt, net::UnixStream, process::CommandExt},
    },
};

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
fn an_environment_variable_names_the_socket() {
    let lab = Lab::new();
    let pilot = lab.pilot(ALWAYS_BBR);
    let status = |more: &[&str]| {
        let mut command = Place::here().command("tcpilot");
        command.env("TCPILOT_SOCKET", pilot.socket());
        command.arg("status").args(more).output().unwrap()
    };
    let found = status(&["--json"]);
    assert!(found.status.success(), "{found:?}");
    let document: Value = serde_json::from_slice(&found.stdout).unwrap();
    assert_eq!(document["pid"], pilot.status()["pid"]);
    let other = status(&["--socket", "/nowhere/nobody.sock"]);
    assert_eq!(other.status.code(), Some(5), "the option goes first");
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
    let flow = &pilot.command("flows")["flows"][0];
    for shown in [flow["remote"].as_str().unwrap(), "10.64.0.4%eth0"] {
        assert_eq!(of(&[shown]), (1, 1), "{shown}");
    }
    assert_eq!(of(&["8.8.5.0/24"]).1, 0);
    let refused = String::from_utf8(explain(&["10.64.0.4/24"]).stderr).unwrap();
    assert!(refused.contains("10.64.0.0/24"), "{refused}");
}

#[test]
fn commands_end_quietly_when_nobody_reads() {
    let lab = Lab::new();
    let pilot = lab.pilot(ALWAYS_BBR);
    let file = lab.dir.path().join("t.toml");
    fs::write(&file, ALWAYS_BBR).unwrap();
    let socket = pilot.socket();
    let (file, socket) = (file.to_str().unwrap(), socket.to_str().unwrap());
    let asks = [
        "status",
        "paths",
        "paths --json",
        "flows",
        "report",
        "report --html -",
        "report --trial 0",
        "explain 10.64.0.4",
        "metrics",
        "state show",
        "state export -",
    ];
    let asks = asks.map(|words| format!("{words} --socket {socket}"));
    let others = [
        &format!("config show {file}"),
        &format!("config check {file}"),
        "completions bash",
        "watch --schema",
        "cc list",
        "--help",
        "help watch",
    ];
    let others = others.map(str::to_owned);
    for words in asks.iter().chain(&others) {
        let (reader, writer) = UnixStream::pair().unwrap();
        drop(reader);
        let mut command = Place::here().command("tcpilot");
        command.args(words.split(' ')).stdout(OwnedFd::from(writer));
        let output = command.output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), &*error), (Some(0), ""), "{words}");
    }
}

/// The owner of a folder may lead root to another file by a link, or guess the name of a file to come.
#[test]
fn written_files_follow_no_links() {
    let lab = Lab::new();
    let pilot = lab.pilot(ALWAYS_BBR);
    let folder = tempfile::tempdir().unwrap();
    let goal = folder.path().join("goal");
    let socket = pilot.socket();
    let socket = socket.to_str().unwrap();
    for (words, mode) in [
        ("metrics --textfile", 0o644),
        ("state export", 0o600),
        ("report --html", 0o600),
    ] {
        let file = folder.path().join("file");
        fs::write(&goal, "precious").unwrap();
        std::os::unix::fs::symlink(&goal, &file).unwrap();
        let line = format!("{words} {} --socket {socket}", file.display());
        let line: Vec<&str> = line.split(' ').collect();
        let (status, lines) = told(&line);
        assert_eq!((status, lines.len()), (Some(1), 1), "{lines:?}");
        assert!(lines[0].contains("not a regular file"), "{lines:?}");
        assert_eq!(fs::read_to_string(&goal).unwrap(), "precious");
        fs::remove_file(&file).unwrap();
        assert_eq!(told(&line), (Some(0), vec![]));
        let found = fs::metadata(&file).unwrap().permissions();
        assert_eq!(found.mode() & 0o777, mode, "{words}");
        fs::remove_file(&file).unwrap();
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn daemon_deletes_no_file_for_its_socket() {
    let lab = Lab::new();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("precious");
    fs::write(&file, "precious").unwrap();
    let mut command = Place::here().command("tcpilot");
    command.arg("run").arg("--cgroup").arg(lab.cgroup.path());
    command.arg("--state").arg(folder.path().join("state.db"));
    let output = command.arg("--socket").arg(&file).output().unwrap();
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert_eq!(message.lines().count(), 1, "{message}");
    assert!(message.contains("not a socket of tcpilot"), "{message}");
    assert_eq!(fs::read_to_string(&file).unwrap(), "precious");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}
