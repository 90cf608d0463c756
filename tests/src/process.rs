//! Processes in a place: a network namespace, a cgroup, with less than all capabilities.

use std::{
    fs::File,
    io,
    os::{
        fd::{AsRawFd, FromRawFd},
        unix::process::CommandExt,
    },
    path::{Path, PathBuf},
    process::{Command, ExitStatus},
};

use crate::{Cgroup, Netns, signals, until};

/// The binary of this name: named by an environment variable, or in the folder of the test's own.
///
/// # Panics
/// When there is none, with a remedy.
pub fn binary(name: &str) -> PathBuf {
    let variable = format!("{}_BIN", name.to_uppercase());
    if let Some(path) = std::env::var_os(&variable) {
        return path.into();
    }
    let own = std::env::current_exe().unwrap(); // <target>/<profile>/deps/<test>, or a folder above
    let mut beside = own.ancestors().skip(1).take(2).map(|dir| dir.join(name));
    beside
        .find(|path| path.exists())
        .unwrap_or_else(|| panic!("no {name}: cargo build -p {name}, or set {variable}"))
}

/// Runs a line of words; quotes have no meaning.
///
/// # Panics
/// When it fails, with its standard error.
pub fn sh(line: &str) -> String {
    let mut words = line.split_whitespace();
    let output = Command::new(words.next().unwrap())
        .args(words)
        .output()
        .unwrap_or_else(|e| panic!("{line}: {e}"));
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{line}: {error}");
    String::from_utf8(output.stdout).unwrap()
}

/// capabilities(7), by number.
pub const CAP_NET_ADMIN: u32 = 12;
/// As above.
pub const CAP_PERFMON: u32 = 38;
/// As above.
pub const CAP_BPF: u32 = 39;

/// The capabilities of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capabilities {
    /// All that the tests have.
    All,
    /// Only these, by number, capabilities(7).
    Only(&'static [u32]),
}

/// Where a process runs.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// Its network namespace; none: the test's own.
    pub netns: Option<&'a Netns>,
    /// Its cgroup; none: the test's own.
    pub cgroup: Option<&'a Cgroup>,
    /// Its capabilities.
    pub capabilities: Capabilities,
    /// The socket it takes for a service manager's, sd_notify(3).
    pub manager: Option<&'a Path>,
    /// Seconds by which its monotonic clock is behind the host's, by a time namespace of its own; 0: it has none.
    pub clock_behind_s: u32,
}

impl<'a> Place<'a> {
    /// In a namespace and a cgroup.
    pub fn new(netns: &'a Netns, cgroup: &'a Cgroup) -> Self {
        Self {
            netns: Some(netns),
            cgroup: Some(cgroup),
            ..Self::here()
        }
    }

    /// In a namespace, outside of the tests' cgroups.
    pub fn outside(netns: &'a Netns) -> Self {
        Self {
            netns: Some(netns),
            ..Self::here()
        }
    }

    /// Where the test itself runs.
    pub fn here() -> Self {
        Self {
            netns: None,
            cgroup: None,
            capabilities: Capabilities::All,
            manager: None,
            clock_behind_s: 0,
        }
    }

    /// A command to run there, and not outlive the test.
    pub fn command(&self, program: &str) -> Command {
        let netns = self.netns.map(Netns::open);
        let procs = self.cgroup.map(Cgroup::open_procs);
        let capabilities = self.capabilities;
        let behind_s = self.clock_behind_s;
        let offsets = format!("monotonic -{behind_s} 0\nboottime -{behind_s} 0\n");
        let mut command = Command::new(binary(program));
        command.env_remove("NOTIFY_SOCKET");
        command.envs(self.manager.map(|socket| ("NOTIFY_SOCKET", socket)));
        let enter = move || {
            if let Some(netns) = &netns {
                check(unsafe_setns(netns))?;
            }
            if let Some(procs) = &procs {
                io::Write::write_all(&mut &*procs, b"0")?;
            }
            if behind_s > 0 {
                enter_time_namespace(&offsets)?;
            }
            if let Capabilities::Only(kept) = capabilities {
                drop_other_capabilities(kept)?;
            }
            die_with_parent()
        };
        // SAFETY: between fork and exec only system calls are made; no memory is allocated.
        unsafe { command.pre_exec(enter) };
        command
    }
}

/// For a child, between fork and exec: it will not outlive its parent thread, and it handles
/// signals as usual, whatever its parent does.
pub(crate) fn die_with_parent() -> io::Result<()> {
    signals::unblock();
    // SAFETY: a plain system call about this process.
    check(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) })
}

fn unsafe_setns(netns: &File) -> i32 {
    // SAFETY: a plain system call about the calling thread.
    unsafe { libc::setns(netns.as_raw_fd(), libc::CLONE_NEWNET) }
}

/// time_namespaces(7): the offsets are set before the first process enters.
fn enter_time_namespace(offsets: &str) -> io::Result<()> {
    const CLONE_NEWTIME: i32 = 0x80;
    let open = |path: &std::ffi::CStr, flags| {
        // SAFETY: a plain system call; the descriptor is checked, and owned from here on.
        unsafe {
            let fd = libc::open(path.as_ptr(), flags | libc::O_CLOEXEC);
            check(fd)?;
            Ok::<_, io::Error>(File::from_raw_fd(fd))
        }
    };
    // SAFETY: a plain system call about this process, which has one thread.
    check(unsafe { libc::unshare(CLONE_NEWTIME) })?;
    let mut file = open(c"/proc/self/timens_offsets", libc::O_WRONLY)?;
    io::Write::write_all(&mut file, offsets.as_bytes())?;
    let namespace = open(c"/proc/self/ns/time_for_children", libc::O_RDONLY)?;
    // SAFETY: as above.
    check(unsafe { libc::setns(namespace.as_raw_fd(), CLONE_NEWTIME) })
}

fn check(result: i32) -> io::Result<()> {
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Root keeps the capabilities of the bounding set at exec, capabilities(7).
fn drop_other_capabilities(kept: &[u32]) -> io::Result<()> {
    const LAST: u32 = 40; // CAP_CHECKPOINT_RESTORE, the last one of kernel 6.1
    for capability in (0..=LAST).filter(|c| !kept.contains(c)) {
        // SAFETY: a plain system call about this process.
        check(unsafe { libc::prctl(libc::PR_CAPBSET_DROP, libc::c_ulong::from(capability)) })?;
    }
    Ok(())
}

/// Runs `f` on a thread of its own inside a namespace.
///
/// # Panics
/// When it cannot be entered, or `f` panics.
pub fn in_netns<T: Send>(netns: &Netns, f: impl FnOnce() -> T + Send) -> T {
    let file = netns.open();
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            check(unsafe_setns(&file)).unwrap();
            f()
        });
        thread.join().unwrap()
    })
}

/// A running process, killed on drop.
#[derive(Debug)]
pub struct Child(pub std::process::Child);

impl Child {
    /// Sends a signal.
    ///
    /// # Panics
    /// When the process is gone.
    pub fn signal(&self, signal: i32) {
        // SAFETY: a plain system call; the child is not reaped yet, so the number is still its own.
        check(unsafe { libc::kill(self.0.id() as i32, signal) }).unwrap();
    }

    /// Kills its own children, as if they were killed with it.
    ///
    /// # Panics
    /// When the kernel does not list them.
    pub fn kill_children(&self) {
        let pid = self.0.id();
        let path = format!("/proc/{pid}/task/{pid}/children");
        for child in std::fs::read_to_string(path).unwrap().split_whitespace() {
            // SAFETY: a plain system call; the process is a child of ours.
            unsafe { libc::kill(child.parse().unwrap(), libc::SIGKILL) };
        }
    }

    /// Waits for its end.
    ///
    /// # Panics
    /// When it does not come.
    pub fn wait(&mut self) -> ExitStatus {
        until("a process ends", || self.0.try_wait().unwrap())
    }
}

impl From<std::process::Child> for Child {
    fn from(child: std::process::Child) -> Self {
        Self(child)
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
