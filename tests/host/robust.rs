//! Events that must neither stop the daemon nor hold it up.

use std::{
    fs,
    io::{Read, Write},
    os::{
        fd::{AsRawFd, FromRawFd, OwnedFd},
        unix::{net::UnixStream, process::CommandExt},
    },
    process::Command,
    thread,
    time::{Duration, Instant},
};

use tcpilot_tests::{
    CAP_BPF, CAP_NET_ADMIN, CAP_PERFMON, Capabilities, Child, Daemon, FAR, Lab, Place, Sink,
    Watching, configured,
    flood::{Flood, Peers},
    sh, until,
};

use crate::ALWAYS_BBR;

/// Longer than an answer takes on a slow machine, but shorter than a client may take.
const SOON: Duration = Duration::from_secs(6);

fn answers_soon(pilot: &Daemon) {
    let asked = Instant::now();
    assert_eq!(pilot.status()["attached"], true);
    assert!(asked.elapsed() < SOON, "{:?}", asked.elapsed());
}

#[test]
fn slow_question_delays_neither_answers_nor_shutdown() {
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
    let peers = Peers {
        paths: 1000,
        per_group: 10,
        arms: 1,
    };
    Flood::new(pilot.pid(), peers).write(1000);
    until("their paths are known", || {
        (pilot.status()["paths"] == 1000).then_some(())
    });
    let mut slow: Vec<UnixStream> = (0..5)
        .map(|_| {
            let mut stream = UnixStream::connect(pilot.socket()).unwrap();
            stream.write_all(b"\"paths\"\n").unwrap();
            stream
        })
        .collect();
    answers_soon(&pilot);
    // A client reading in time gets the whole answer.
    let mut answer = String::new();
    slow[0].read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("{\"ok\":[") && answer.ends_with("]}\n"));
    assert!(answer.len() > 300_000, "{}", answer.len());
}

#[test]
fn oversized_question_is_refused_at_once() {
    let lab = Lab::new();
    let pilot = lab.pilot(ALWAYS_BBR);
    let resident = || pilot.status()["resident_bytes"].as_u64().unwrap();
    let before = resident();
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
    let after = resident();
    assert!(after < before + 4_000_000, "{before} {after}");
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
fn daemon_waits_for_free_descriptor_and_warns_once() {
    let lab = Lab::new();
    let pilot = lab.pilot(ALWAYS_BBR);
    limit_files(&pilot, 3); // open files stay open, and the first three numbers are taken
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

/// The two ends of a terminal: the test's master, and the end for programs.
fn terminal() -> (OwnedFd, i32) {
    let (mut master, mut slave) = (0, 0);
    let (name, settings, size) = (std::ptr::null_mut(), std::ptr::null(), std::ptr::null());
    // SAFETY: both numbers may be written; nothing else is given.
    let made = unsafe { libc::openpty(&raw mut master, &raw mut slave, name, settings, size) };
    assert_eq!(made, 0);
    // SAFETY: it was just opened, and nobody else in this process has it.
    (unsafe { OwnedFd::from_raw_fd(master) }, slave)
}

/// `tcpilot run` with the files of `lab`, and its log in the same folder.
fn command_in_terminal(lab: &Lab) -> Command {
    let mut command = Place::here().command("tcpilot");
    command.arg("run").arg("--cgroup").arg(lab.cgroup.path());
    command.arg("--state").arg(lab.dir.path().join("state.db"));
    command
        .arg("--socket")
        .arg(lab.dir.path().join("control.sock"));
    command.stderr(fs::File::create(lab.dir.path().join("log")).unwrap());
    command
}

/// Waits until a daemon in a terminal is attached.
fn wait_until_attached(lab: &Lab, child: &Child) {
    until("it answers or is stopped", || {
        let stat = fs::read_to_string(format!("/proc/{}/stat", child.0.id())).unwrap();
        assert!(!stat.contains(") T "), "stopped: {stat}");
        let mut stream = UnixStream::connect(lab.dir.path().join("control.sock")).ok()?;
        stream.write_all(b"\"status\"\n").ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        answer.contains("\"attached\":true").then_some(())
    });
}

/// Makes this process the leader of a session with the terminal `slave`. Call it between fork and exec.
fn into_terminal(slave: i32, master: i32) -> std::io::Result<()> {
    // SAFETY: plain system calls about this process; no memory is allocated.
    unsafe {
        libc::close(master);
        if libc::setsid() < 0 || libc::ioctl(slave, libc::TIOCSCTTY, 0) < 0 {
            return Err(std::io::Error::last_os_error());
        }
        libc::close(slave);
    }
    Ok(())
}

#[test]
fn lost_terminal_ends_daemon_cleanly_with_state_saved() {
    let lab = Lab::new();
    let (master, slave) = terminal();
    let config = lab.dir.path().join("tcpilot.toml");
    fs::write(&config, configured(ALWAYS_BBR)).unwrap();
    let mut command = command_in_terminal(&lab);
    command.arg("--config").arg(config);
    let number = master.as_raw_fd();
    // SAFETY: between fork and exec only system calls are made.
    unsafe { command.pre_exec(move || into_terminal(slave, number)) };
    let mut child = Child(command.spawn().unwrap());
    // SAFETY: nobody else in this process uses it.
    unsafe { libc::close(slave) };
    wait_until_attached(&lab, &child);
    lab.upload(FAR, 1, 100_000);
    drop(master); // the kernel sends SIGHUP
    let log = || fs::read_to_string(lab.dir.path().join("log")).unwrap();
    assert_eq!(child.wait().code(), Some(0), "{}", log());
    let pilot = lab.pilot(ALWAYS_BBR);
    assert_eq!(pilot.path(FAR)["connections"], 1);
}

/// Makes this process the leader of a session with the terminal `slave`, and another process group its
/// foreground. Call it between fork and exec.
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
fn background_start_runs_without_live_view() {
    let lab = Lab::new();
    let (_master, slave) = terminal();
    let log = lab.dir.path().join("log");
    let mut command = command_in_terminal(&lab);
    command.arg("--live");
    // SAFETY: between fork and exec only system calls are made.
    unsafe { command.pre_exec(move || into_background(slave)) };
    let mut child = Child(command.spawn().unwrap());
    wait_until_attached(&lab, &child);
    assert!(fs::read_to_string(&log).unwrap().contains("no live view"));
    child.signal(libc::SIGTERM);
    assert_eq!(
        child.wait().code(),
        Some(0),
        "{}",
        fs::read_to_string(&log).unwrap()
    );
}

#[test]
fn own_namespace_is_listed_without_cap_sys_admin() {
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

/// `ip netns` makes a plain file first, and leaves one if it is killed.
#[test]
fn an_empty_name_of_a_namespace_is_not_entered() {
    struct Name(String);
    impl Drop for Name {
        fn drop(&mut self) {
            let _ = fs::remove_file(&self.0);
        }
    }
    let lab = Lab::new();
    let name = Name(format!("/run/netns/{}-empty", lab.net.near.name()));
    fs::write(&name.0, "").unwrap();
    let _sink = Sink::new(&lab.net.far, 5300);
    let pilot = lab.pilot(ALWAYS_BBR);
    let mut application = lab.actor();
    application.tell(&format!("connect {FAR}:5300"));
    assert_eq!(pilot.ask("flows").as_array().unwrap().len(), 1);
    assert!(!pilot.log().contains("cannot be listed"), "{}", pilot.log());
}

#[test]
fn fair_waits_for_a_vanishing_device() {
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
    // So many queues take a long time to make.
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
