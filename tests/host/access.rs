//! Who may use the control socket: root, and with `[socket] group` the members of a group, to read.

use std::{
    fs,
    io::{Read, Write},
    os::unix::{fs::PermissionsExt, net::UnixStream, process::CommandExt},
    path::{Path, PathBuf},
    process::{Command, Output},
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
};

use serde_json::json;
use tcpilot_tests::{
    CAP_BPF, CAP_NET_ADMIN, CAP_PERFMON, Capabilities, Daemon, FAR, Lab, Place, binary, until,
};

use crate::{ALWAYS_BBR, metrics, saving::stored_path};

/// A group unused on this host.
const GROUP: u32 = 54_321;
const USER: u32 = 60_001;

/// A user, its group, and perhaps one further group.
#[derive(Clone, Copy)]
struct User {
    id: u32,
    group: u32,
    further: Option<u32>,
}

const MEMBER: User = User {
    id: USER,
    group: USER,
    further: Some(GROUP),
};
const STRANGER: User = User {
    id: USER,
    group: USER,
    further: None,
};

/// Becomes a user, in a child between fork and exec.
fn become_user(user: User) -> std::io::Result<()> {
    let further = user.further.unwrap_or_default();
    // SAFETY: plain system calls about this process; no memory is allocated.
    let done = unsafe {
        libc::setgroups(user.further.iter().len(), &raw const further) == 0
            && libc::setgid(user.group) == 0
            && libc::setuid(user.id) == 0
    };
    match done {
        true => Ok(()),
        false => Err(std::io::Error::last_os_error()),
    }
}

/// A copy of the program for other users: they may have no access to the build's folder.
struct Asking<'a> {
    pilot: &'a Daemon,
    program: PathBuf,
}

impl<'a> Asking<'a> {
    fn new(lab: &Lab, pilot: &'a Daemon) -> Asking<'a> {
        fs::set_permissions(lab.dir.path(), fs::Permissions::from_mode(0o711)).unwrap();
        let program = lab.dir.path().join("tcpilot");
        fs::copy(binary("tcpilot"), &program).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        Asking { pilot, program }
    }

    fn run(&self, user: User, words: &[&str]) -> Output {
        let mut command = Command::new(&self.program);
        command.args(words).arg("--socket").arg(self.pilot.socket());
        // SAFETY: between fork and exec only system calls are made.
        unsafe { command.pre_exec(move || become_user(user)) };
        command.output().unwrap()
    }

    /// Asserts that the user gets an answer.
    fn may(&self, user: User, words: &[&str]) {
        let output = self.run(user, words);
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{words:?}: {message}");
    }

    /// Asserts that the user is refused in a line with this text.
    fn may_not(&self, user: User, words: &[&str], why: &str) {
        let output = self.run(user, words);
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{words:?}: {message}");
        assert!(message.contains(why), "{words:?}: {message}");
    }
}

fn of_group(group: &str) -> String {
    format!("{ALWAYS_BBR}\n[socket]\ngroup = \"{group}\"\n")
}

fn members_read_and_only_root_writes(lab: &Lab, pilot: &Daemon) {
    let asking = Asking::new(lab, pilot);
    lab.upload(FAR, 1, 100_000);
    pilot.wait_closed(1);
    let of_group = User {
        group: GROUP,
        ..STRANGER
    };
    for member in [MEMBER, of_group] {
        for read in ["status", "paths", "flows", "report", "metrics"] {
            asking.may(member, &[read]);
        }
        asking.may(member, &["explain", FAR]);
        asking.may(member, &["state", "export"]);
    }
    // What the command itself refuses, it does not ask for.
    let dump = lab.dir.path().join("dump.json");
    let path = stored_path("192.0.2.1", 0);
    fs::write(
        &dump,
        json!({"tcpilot_state": 1, "paths": [path]}).to_string(),
    )
    .unwrap();
    fs::set_permissions(&dump, fs::Permissions::from_mode(0o644)).unwrap();
    for change in [
        &["state", "reset"][..],
        &["state", "import", dump.to_str().unwrap()],
        &["report", "--trial", "1h"],
        &["run", "--upgrade"],
    ] {
        asking.may_not(
            MEMBER,
            change,
            "only root may change something; ask as root",
        );
        asking.may_not(STRANGER, change, "no permission to use");
    }
    asking.may_not(STRANGER, &["status"], "no permission to use");
    assert_eq!(pilot.paths().len(), 1, "nothing was forgotten");
    assert_eq!(pilot.take_overs(), (0, 0));
}

#[test]
fn group_members_can_read_only_root_can_write() {
    let lab = Lab::new();
    let pilot = lab.pilot(&of_group(&GROUP.to_string()));
    members_read_and_only_root_writes(&lab, &pilot);
}

/// A service has no CAP_CHOWN, so the socket still belongs to root.
#[test]
fn group_access_works_without_cap_chown() {
    let lab = Lab::new();
    let place = Place {
        capabilities: Capabilities::Only(&[CAP_NET_ADMIN, CAP_PERFMON, CAP_BPF]),
        ..Place::here()
    };
    let pilot = lab
        .spawn_pilot(place, &of_group(&GROUP.to_string()), &[])
        .ready();
    members_read_and_only_root_writes(&lab, &pilot);
}

#[test]
fn reload_grants_and_revokes_group_access() {
    let lab = Lab::new();
    let pilot = lab.pilot(ALWAYS_BBR);
    let asking = Asking::new(&lab, &pilot);
    asking.may_not(MEMBER, &["status"], "no permission to use");
    pilot.configure(&of_group(&GROUP.to_string()));
    pilot.take_over();
    asking.may(MEMBER, &["status"]);
    asking.may_not(MEMBER, &["state", "reset"], "only root");
    pilot.configure(ALWAYS_BBR);
    pilot.take_over();
    asking.may_not(MEMBER, &["status"], "no permission to use");
}

#[test]
fn unknown_group_is_reported_and_steering_continues() {
    let lab = Lab::new();
    let pilot = lab.pilot(&of_group("no-such-group"));
    let mode = fs::metadata(pilot.socket()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let degraded = pilot.status()["degraded"].to_string();
    assert!(
        degraded.contains("/etc/group has no such group"),
        "{degraded}"
    );
    assert!(pilot.log().contains("no-such-group"));
    lab.upload(FAR, 1, 100_000);
    pilot.wait_closed(1);
}

/// Makes this thread a member of the group; the process stays root's.
fn become_member() {
    let group = GROUP;
    // SAFETY: plain system calls about this thread: libc's functions would change all threads.
    unsafe {
        assert_eq!(libc::syscall(libc::SYS_setgroups, 1, &raw const group), 0);
        assert_eq!(libc::syscall(libc::SYS_setresgid, USER, USER, USER), 0);
        assert_eq!(libc::syscall(libc::SYS_setresuid, USER, USER, USER), 0);
    }
}

/// Asks for all paths again and again, and counts the answers that begin.
fn flood(socket: &Path, begun: &AtomicU64, is_over: &AtomicBool) {
    become_member();
    let mut buffer = vec![0; 1 << 20];
    while !is_over.load(Ordering::Relaxed) {
        let Ok(mut stream) = UnixStream::connect(socket) else {
            thread::yield_now(); // the quota is used up, or it is upgraded
            continue;
        };
        let _ = stream.write_all(b"\"paths\"\n");
        if matches!(stream.read(&mut buffer), Ok(1..)) {
            begun.fetch_add(1, Ordering::Relaxed);
            while matches!(stream.read(&mut buffer), Ok(1..)) {}
        }
    }
}

#[test]
fn flood_of_readers_delays_neither_root_nor_reload() {
    const READERS: usize = 40;
    const QUESTIONS: u64 = 5;
    let lab = Lab::new();
    let config = of_group(&GROUP.to_string());
    let pilot = lab
        .spawn_pilot(Place::here(), &config, &["--listen", "0"])
        .ready();
    for part in 0..4 {
        let path = |n| stored_path(&format!("192.0.{part}.{n}"), 0);
        let paths: Vec<_> = (0..250).map(path).collect();
        pilot.raw(&json!({"state-import": paths}));
    }
    fs::set_permissions(lab.dir.path(), fs::Permissions::from_mode(0o711)).unwrap();
    let (socket, begun, is_over) = (pilot.socket(), AtomicU64::new(0), AtomicBool::new(false));
    let overtaken = thread::scope(|scope| {
        for _ in 0..READERS {
            scope.spawn(|| flood(&socket, &begun, &is_over));
        }
        until("readers are answered", || {
            (begun.load(Ordering::Relaxed) >= 100).then_some(())
        });
        let before = begun.load(Ordering::Relaxed);
        for _ in 0..QUESTIONS {
            assert_eq!(pilot.status()["attached"], true);
        }
        let during = begun.load(Ordering::Relaxed) - before;
        let answer = metrics::get(&metrics::address(&pilot), "/healthz");
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        pilot.take_over();
        is_over.store(true, Ordering::Relaxed);
        during
    });
    // In the order of arrival, each of root's questions would wait for nearly all readers.
    assert!(
        overtaken < QUESTIONS * READERS as u64 / 4,
        "{overtaken} readers were answered before root"
    );
}
