//! The leftovers of an interrupted run of tests on the host: none, or none after the next run has begun.

use std::{
    fs,
    process::{Command, Stdio},
};

use tcpilot_tests::{Child, binary, until};

/// A run of one long test of this binary.
fn suite(only: &str) -> Command {
    let mut command = Command::new(binary("suite"));
    command
        .args(["--only", only])
        .arg(std::env::current_exe().unwrap());
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// The number of namespaces made by a process, by their names.
fn namespaces_of(pid: u32) -> usize {
    let names = fs::read_dir("/run/netns").into_iter().flatten().flatten();
    let prefix = format!("tp{pid}-");
    let own = |name: &str| name.starts_with(&prefix);
    names
        .filter(|n| own(&n.file_name().to_string_lossy()))
        .count()
}

fn children_of(pid: u32) -> Vec<u32> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task"))
        .into_iter()
        .flatten()
        .flatten();
    let lists = tasks.filter_map(|t| fs::read_to_string(t.path().join("children")).ok());
    let numbers = |list: String| {
        list.split_whitespace()
            .map(|n| n.parse().unwrap())
            .collect::<Vec<_>>()
    };
    lists.flat_map(numbers).collect()
}

/// Starts a run, and ends it in the middle of its test; returns the test's process.
fn interrupted(signal: i32) -> u32 {
    let mut run = Child(suite("killed_under_load").spawn().unwrap());
    let test = until("its test has a laboratory", || {
        let mut tests = children_of(run.0.id()).into_iter();
        tests.find(|pid| namespaces_of(*pid) == 2)
    });
    run.signal(signal);
    run.wait();
    test
}

#[test]
fn signal_ends_run_and_removes_test_leftovers() {
    for signal in [libc::SIGINT, libc::SIGTERM] {
        assert_eq!(namespaces_of(interrupted(signal)), 0);
    }
}

#[test]
fn next_run_removes_leftovers_of_killed_run() {
    let test = interrupted(libc::SIGKILL);
    until("the test died with it", || {
        (!fs::exists(format!("/proc/{test}")).unwrap()).then_some(())
    });
    assert!(suite("missing_cgroup").status().unwrap().success());
    assert_eq!(namespaces_of(test), 0);
}
