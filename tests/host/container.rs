//! The daemon in a container: a cgroup namespace and mounts of its own.

use std::{
    fs,
    io::Read,
    os::unix::process::CommandExt,
    process::{Command, Stdio},
};

use tcpilot_tests::{Cgroup, Child, binary, cgroup_root, folder};

/// Runs a shell's line in a container of this cgroup, and waits for its end; returns its exit status and
/// standard error.
fn contained(cgroup: &Cgroup, line: &str) -> (Option<i32>, String) {
    let procs = cgroup.path().join("cgroup.procs");
    let procs = fs::File::options().write(true).open(procs).unwrap();
    let enter = move || {
        std::io::Write::write_all(&mut &procs, b"0")?;
        // SAFETY: a plain system call about this process.
        match unsafe { libc::unshare(libc::CLONE_NEWCGROUP | libc::CLONE_NEWNS) } {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        }
    };
    let mut command = Command::new("sh");
    command.args(["-euc", &format!("mount --make-rprivate /; {line}")]);
    // SAFETY: between fork and exec only system calls are made.
    unsafe { command.pre_exec(enter) };
    let mut child = Child(command.stderr(Stdio::piped()).spawn().unwrap());
    let status = child.wait().code();
    let mut said = String::new();
    let mut stderr = child.0.stderr.take().unwrap();
    stderr.read_to_string(&mut said).unwrap();
    (status, said)
}

#[test]
fn container_seeing_only_own_cgroup_is_refused() {
    let cgroup = Cgroup::new();
    let dir = folder();
    let run = format!(
        "{} run --state {dir}/state.db --socket {dir}/control.sock --dry-run",
        binary("tcpilot").display(),
        dir = dir.path().display()
    );
    let root = cgroup_root();
    let place = root.display();
    let mount = format!("umount -l {place}; mount -t cgroup2 cgroup2 {place}");
    let (status, said) = contained(&cgroup, &format!("{mount}; exec {run}"));
    assert_eq!(status, Some(4), "{said}");
    let line = format!(
        "tcpilot: {} is only a part of this host's cgroups: other sockets would not be steered; \
         give the container the host's /sys/fs/cgroup, or name this part with --cgroup\n",
        root.display()
    );
    assert_eq!(said, line);
    assert!(!dir.path().join("state.db").exists());
}
