//! What must not stop the daemon, nor make it lose what it learned.

use std::{
    fs,
    io::{Read, Write},
    os::unix::{net::UnixStream, process::CommandExt},
    path::Path,
    process::Command,
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use serde_json::{Value, json};
use tcpilot_host_tests::{
    CAP_BPF, CAP_NET_ADMIN, CAP_PERFMON, Capabilities, Child, Daemon, FAR, Lab, Place, Sink,
    Watching, sh, until,
};

use crate::ALWAYS_BBR;

/// Longer than an answer takes on a slow machine, shorter than a client may take.
const SOON: Duration = Duration::from_secs(6);

fn answers_soon(pilot: &Daemon) {
    let asked = Instant::now();
    assert_eq!(pilot.status()["attached"], true);
    assert!(asked.elapsed() < SOON, "{:?}", asked.elapsed());
}

#[test]
fn a_client_that_asks_slowly_holds_nobody_up_and_a_signal_is_obeyed() {
    let lab = Lab::new();
    let pilot = lab.pilot(ALWAYS_BBR);
    let slow = UnixStream::connect(pilot.socket()).unwrap();
    let dribble = |mut slow: UnixStream| {
        thread::spawn(move || {
            for _ in 0..200 {
                if slow.write_all(b" ").is_err() {
                    return;
                }
                thread::sleep(Duration::from_millis(100));
            }
        })
    };
    let writer = dribble(slow.try_clone().unwrap());
    let _silent: Vec<_> = (0..200)
        .map(|_| UnixStream::connect(pilot.socket()).unwrap())
        .collect();
    answers_soon(&pilot);
    let told = Instant::now();
    assert_eq!(pilot.end(libc::SIGTERM).status, Some(0));
    assert!(told.elapsed() < SOON, "{:?}", told.elapsed());
    writer.join().unwrap();
}

#[test]
fn a_client_that_reads_slowly_holds_nobody_up() {
    let lab = Lab::new();
    let pilot = lab.pilot(ALWAYS_BBR);
    lab.run("spread --to-prefix 10.64.0.0/14 --port 5201 --distinct 1000");
    let mut slow: Vec<UnixStream> = (0..5)
        .map(|_| {
            let mut stream = UnixStream::connect(pilot.socket()).unwrap();
            stream.write_all(b"\"paths\"\n").unwrap();
            stream
        })
        .collect();
    answers_soon(&pilot);
    // Who reads in time gets all of it.
    let mut answer = String::new();
    slow[0].read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("{\"ok\":[") && answer.ends_with("]}\n"));
    assert!(answer.len() > 300_000, "{}", answer.len());
}

#[test]
fn a_question_that_is_too_long_is_refused_at_once() {
    let lab = Lab::new();
    let pilot = lab.pilot(ALWAYS_BBR);
    let mut stream = UnixStream::connect(pilot.socket()).unwrap();
    let part = vec![b' '; 1 << 20];
    let asked = Instant::now();
    for _ in 0..5 {
        if stream.write_all(&part).is_err() {
            break;
        }
    }
    let mut answer = [0; 9];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"{\"error\":");
    assert!(asked.elapsed() < SOON, "{:?}", asked.elapsed());
    let resident = pilot.status()["resident_bytes"].as_u64().unwrap();
    assert!(resident < 32_000_000, "{resident}");
}

/// User and system time, in clock ticks, proc(5).
fn cpu_ticks(pid: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split(' ').collect();
    [12, 13]
        .map(|field: usize| fields[field].parse::<u64>().unwrap())
        .iter()
        .sum()
}

fn limit_files(pilot: &Daemon, most: u64) {
    let limit = libc::rlimit {
        rlim_cur: most,
        rlim_max: 1000,
    };
    let pid = pilot.pid() as i32;
    let null = std::ptr::null_mut();
    // SAFETY: the limit is readable, and the old one is not asked for.
    let result = unsafe { libc::prlimit(pid, libc::RLIMIT_NOFILE, &raw const limit, null) };
    assert_eq!(result, 0);
}

#[test]
fn without_a_free_descriptor_it_waits_and_says_so_once() {
    let lab = Lab::new();
    let pilot = lab.pilot(ALWAYS_BBR);
    let open = fs::read_dir(format!("/proc/{}/fd", pilot.pid()))
        .unwrap()
        .count();
    limit_files(&pilot, open as u64);
    let waiting = UnixStream::connect(pilot.socket()).unwrap();
    until("it notices", || {
        pilot.log().contains("could not be taken").then_some(())
    });
    let before = cpu_ticks(pilot.pid());
    thread::sleep(Duration::from_secs(3));
    let spent = cpu_ticks(pilot.pid()) - before;
    assert!(spent < 100, "{spent} ticks in 3 s");
    assert_eq!(pilot.log().matches("could not be taken").count(), 1);
    drop(waiting);
    limit_files(&pilot, 1000);
    answers_soon(&pilot);
}

#[test]
fn a_lost_terminal_ends_it_as_a_signal_does_and_nothing_is_lost() {
    let lab = Lab::new();
    let pilot = lab.pilot(ALWAYS_BBR);
    lab.upload(FAR, 1, 100_000);
    pilot.wait_closed(1);
    let ended = pilot.end(libc::SIGHUP);
    assert_eq!(ended.status, Some(0), "{}", ended.stderr);
    let pilot = lab.pilot(ALWAYS_BBR);
    assert_eq!(pilot.path(FAR)["connections"], 1);
}

/// Makes this process the leader of a session whose terminal is `slave`, and another process group the
/// foreground of it. To be called between fork and exec.
fn into_background(slave: i32) -> std::io::Result<()> {
    let check = |result: i32| match result {
        -1 => Err(std::io::Error::last_os_error()),
        result => Ok(result),
    };
    // SAFETY: plain system calls about this process and its child; no memory is allocated.
    unsafe {
        check(libc::setsid())?;
        check(libc::ioctl(slave, libc::TIOCSCTTY, 0))?;
        for fd in 0..2 {
            check(libc::dup2(slave, fd))?;
        }
        let child = check(libc::fork())?;
        if child == 0 {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            libc::close_range(0, u32::MAX, 0);
            loop {
                libc::pause();
            }
        }
        check(libc::setpgid(child, child))?;
        check(libc::tcsetpgrp(slave, child)).map(drop)
    }
}

#[test]
fn in_the_background_of_its_terminal_it_runs_without_a_live_view() {
    let lab = Lab::new();
    let (mut master, mut slave) = (0, 0);
    let (name, settings, size) = (std::ptr::null_mut(), std::ptr::null(), std::ptr::null());
    // SAFETY: both numbers may be written; nothing else is given.
    let made = unsafe { libc::openpty(&raw mut master, &raw mut slave, name, settings, size) };
    assert_eq!(made, 0);
    let log = lab.dir.path().join("log");
    let socket = lab.dir.path().join("control.sock");
    let mut command = Place::here().command("tcpilot");
    command
        .args(["run", "--live"])
        .arg("--cgroup")
        .arg(lab.cgroup.path());
    command.arg("--state").arg(lab.dir.path().join("state.db"));
    command.arg("--socket").arg(&socket);
    command.stderr(fs::File::create(&log).unwrap());
    // SAFETY: between fork and exec only system calls are made.
    unsafe { command.pre_exec(move || into_background(slave)) };
    let mut child = Child(command.spawn().unwrap());
    until("it answers or is stopped", || {
        let stat = fs::read_to_string(format!("/proc/{}/stat", child.0.id())).unwrap();
        assert!(!stat.contains(") T "), "stopped: {stat}");
        let mut stream = UnixStream::connect(&socket).ok()?;
        stream.write_all(b"\"status\"\n").ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        answer.contains("\"attached\":true").then_some(())
    });
    assert!(fs::read_to_string(&log).unwrap().contains("no live view"));
    child.signal(libc::SIGTERM);
    assert_eq!(
        child.wait().code(),
        Some(0),
        "{}",
        fs::read_to_string(&log).unwrap()
    );
}

/// Runs `f` on a thread that has a small file system of its own at `dir`; so has the daemon that it starts.
fn with_small_disk(dir: &Path, f: impl FnOnce() + Send) {
    let target = std::ffi::CString::new(dir.to_str().unwrap()).unwrap();
    let enter = move || {
        let none = std::ptr::null();
        // SAFETY: plain system calls about this thread's mounts; all texts end with 0.
        unsafe {
            assert_eq!(libc::unshare(libc::CLONE_NEWNS), 0);
            let private = libc::MS_REC | libc::MS_PRIVATE;
            assert_eq!(
                libc::mount(none, c"/".as_ptr(), none, private, none.cast()),
                0
            );
            let (kind, size) = (c"tmpfs".as_ptr(), c"size=128k".as_ptr());
            assert_eq!(libc::mount(kind, target.as_ptr(), kind, 0, size.cast()), 0);
        }
        f();
    };
    thread::scope(|scope| scope.spawn(enter).join().unwrap());
}

#[test]
fn on_a_full_disk_it_runs_without_saving_and_saves_once_there_is_room() {
    let lab = Lab::new();
    let disk = lab.dir.path().join("disk");
    fs::create_dir(&disk).unwrap();
    std::os::unix::fs::symlink("disk/state.db", lab.dir.path().join("state.db")).unwrap();
    let often = format!("{ALWAYS_BBR}\n[state]\nsave_interval_s = 1\n");
    with_small_disk(&disk, || {
        let filling = disk.join("filling");
        let full = fs::write(&filling, vec![0; 1 << 20]).unwrap_err();
        assert_eq!(full.kind(), std::io::ErrorKind::StorageFull);
        let pilot = lab.pilot(&often);
        lab.upload(FAR, 1, 100_000);
        pilot.wait_closed(1);
        let degraded = pilot.status()["degraded"].to_string();
        assert!(degraded.contains("the disk is full"), "{degraded}");
        fs::remove_file(&filling).unwrap();
        until("it saves", || {
            pilot.log().contains("is saved again").then_some(())
        });
        assert_eq!(
            pilot.log().matches("the disk is full").count(),
            1,
            "{}",
            pilot.log()
        );
        assert_eq!(pilot.end(libc::SIGKILL).status, None);
        let pilot = lab.pilot(&often);
        assert_eq!(pilot.path(FAR)["connections"], 1);
        assert_eq!(pilot.end(libc::SIGTERM).status, Some(0));
    });
}

#[test]
fn a_state_that_vanished_is_made_anew_and_a_last_save_that_fails_is_told() {
    let lab = Lab::new();
    let file = lab.dir.path().join("state.db");
    let pilot = lab.pilot(ALWAYS_BBR);
    lab.upload(FAR, 1, 100_000);
    pilot.wait_closed(1);
    state(&lab, "show"); // saves
    fs::remove_file(&file).unwrap();
    assert_eq!(pilot.end(libc::SIGTERM).status, Some(0));
    let pilot = lab.pilot(ALWAYS_BBR);
    assert_eq!(pilot.path(FAR)["connections"], 1);
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    let ended = pilot.end(libc::SIGTERM);
    assert_eq!(ended.status, Some(1));
    let [line] = ended.errors()[..] else {
        panic!("{}", ended.stderr)
    };
    assert!(
        line.contains("not saved") && line.contains("state.db"),
        "{line}"
    );
}

/// Runs `tcpilot state …` on the files of a daemon, whether that runs or not; gives what it prints.
fn state(lab: &Lab, arguments: &str) -> String {
    let mut command = Place::here().command("tcpilot");
    command.arg("state").args(arguments.split(' '));
    for (option, file) in [("--state", "state.db"), ("--socket", "control.sock")] {
        command.arg(option).arg(lab.dir.path().join(file));
    }
    let output = command.output().unwrap();
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments}: {message}");
    String::from_utf8(output.stdout).unwrap()
}

fn stored_path(prefix: &str, updated_unix_s: u64) -> Value {
    json!({"netns": "host", "prefix": prefix, "policy": "default", "updated_unix_s": updated_unix_s,
        "min_rtt_us": 0, "srtt_us": 0, "max_delivery_rate": 0, "sent_packets": 0, "lost_packets": 0,
        "instances": 1, "connections": 1, "arms": []})
}

fn import(lab: &Lab, paths: &[Value]) {
    let file = lab.dir.path().join("import.json");
    fs::write(
        &file,
        json!({"tcpilot_state": 1, "paths": paths}).to_string(),
    )
    .unwrap();
    state(lab, &format!("import {}", file.display()));
}

fn now_unix_s() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_secs()
}

#[test]
fn an_import_changes_no_other_path() {
    let lab = Lab::new();
    let pilot = lab.pilot(ALWAYS_BBR);
    lab.upload(FAR, 1, 100_000);
    pilot.wait_closed(1);
    state(&lab, "show"); // saves
    lab.upload(FAR, 2, 100_000);
    pilot.wait_closed(3);
    // More than fit into a question.
    let paths: Vec<Value> = (0..2500)
        .map(|i| stored_path(&format!("11.{}.{}.0/24", i / 256, i % 256), now_unix_s()))
        .collect();
    import(&lab, &paths);
    assert_eq!(pilot.path(FAR)["connections"], 3);
    assert_eq!(pilot.path("11.0.9.0/24")["connections"], 1);
    assert_eq!(pilot.path("11.9.9.0/24")["connections"], 1);
}

#[test]
fn a_path_that_is_not_used_keeps_the_time_of_its_last_use() {
    let lab = Lab::new();
    // Before this host was booted, for all that most hosts of tests are.
    let then = now_unix_s() - 6 * 86400;
    import(&lab, &[stored_path("192.0.2.0/24", then)]);
    let pilot = lab.pilot(ALWAYS_BBR);
    pilot.path("192.0.2.0/24");
    assert_eq!(pilot.end(libc::SIGTERM).status, Some(0));
    let export: Value = serde_json::from_str(&state(&lab, "export")).unwrap();
    assert_eq!(export["paths"][0]["updated_unix_s"], then);
}

#[test]
fn it_says_how_many_stored_paths_found_room() {
    let lab = Lab::new();
    let paths: Vec<Value> = (0..200)
        .map(|i| stored_path(&format!("11.0.{i}.0/24"), now_unix_s()))
        .collect();
    import(&lab, &paths);
    let pilot = lab.pilot(&format!("paths_max = 64\n{ALWAYS_BBR}"));
    let there = pilot.status()["paths"].as_u64().unwrap();
    assert!(there <= 64);
    let told = format!("stored=200 paths={there}");
    assert!(pilot.log().contains(&told), "{told}: {}", pilot.log());
}

#[test]
fn without_the_right_to_enter_others_it_lists_the_connections_of_its_own_namespace() {
    let lab = Lab::new();
    let _sink = Sink::new(&lab.net.far, 5300);
    let place = Place {
        capabilities: Capabilities::Only(&[CAP_NET_ADMIN, CAP_PERFMON, CAP_BPF]),
        ..Place::outside(&lab.net.near)
    };
    let pilot = lab.spawn_pilot(place, ALWAYS_BBR, &[]).ready();
    let mut application = lab.actor();
    application.tell(&format!("connect {FAR}:5300"));
    let flows = pilot.ask("flows");
    assert_eq!(flows.as_array().unwrap().len(), 1, "{flows}");
}

#[test]
fn in_a_user_namespace_it_says_so_and_is_not_started_again() {
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

/// Runs a command that ends by itself; gives its exit status and its lines of standard error.
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
fn each_mistake_of_a_configuration_is_a_line_that_no_terminal_obeys() {
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
fn a_socket_that_was_named_is_not_taken_for_the_default_state() {
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
    application.tell("connect 8.8.4.4:5300");
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
    assert_eq!(of(&["8.8.4.0/24"]), (1, 1));
    assert_eq!(of(&["8.8.4.0/24", &format!("@{netns}")]), (1, 1));
    assert_eq!(of(&["8.8.4.0/24 @elsewhere"]).0, 0);
    assert_eq!(of(&["8.8.5.0/24"]), (0, 0));
    let refused = String::from_utf8(explain(&["8.8.4.4/24"]).stderr).unwrap();
    assert!(refused.contains("8.8.4.0/24"), "{refused}");
}

#[test]
fn a_device_that_vanishes_while_it_is_made_fair_is_waited_for() {
    let lab = Lab::new();
    let (near, far) = (&lab.net.near, &lab.net.far);
    let add = || {
        let (a, b) = (near.name(), far.name());
        sh(&format!(
            "ip link add gone0 netns {a} type veth peer name gone0 netns {b}"
        ));
    };
    let is_begun = || {
        let words = ["-n", near.name(), "qdisc", "show", "dev", "gone0", "root"];
        let output = Command::new("tc").args(words).output().unwrap();
        String::from_utf8_lossy(&output.stdout)
            .contains("htb")
            .then_some(())
    };
    add();
    // So many queues take long to make.
    let words = ["--fair", "--rate", "20", "--qdisc", "htb", "--queues", "64"];
    let mut watching = Watching::start(Place::outside(near), "gone0", &words);
    for _ in 0..12 {
        until("it begins", is_begun);
        near.ip("link del gone0");
        watching.until("it notices", |look| {
            (look.totals["present"] == false).then_some(())
        });
        add();
        let ended = watching.child.0.try_wait().unwrap();
        assert!(ended.is_none(), "{ended:?}");
    }
    until("it is fair again", is_begun);
}
