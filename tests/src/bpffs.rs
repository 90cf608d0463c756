//! A BPF file system of a test's own, and the right to register congestion controls.
//!
//! The whole kernel shares the names of congestion controls, so two tests that register some would
//! collide. Each takes [`Registrations`] first, and waits until the other has ended.

use std::{
    fs::{self, File},
    os::fd::AsRawFd,
    path::Path,
    process::Command,
};

use tempfile::TempDir;

use crate::{
    process::{binary, sh},
    unique::folder,
};

/// A lock: only its holder may register congestion controls.
#[derive(Debug)]
pub struct Registrations(#[allow(dead_code, reason = "unlocks when it is dropped")] File);

impl Registrations {
    /// Waits until no other test on this host has it.
    ///
    /// # Panics
    /// When the lock's file cannot be made.
    pub fn lock() -> Self {
        Self::locked(libc::LOCK_EX)
    }

    /// Waits until nobody has it alone. Daemons with the default algorithms share it: they register the same one.
    ///
    /// # Panics
    /// As [`Registrations::lock`].
    pub fn share() -> Self {
        Self::locked(libc::LOCK_SH)
    }

    fn locked(how: i32) -> Self {
        // In /run: the same file for all users of the host who may run these tests.
        let file = File::create("/run/tcpilot-tests.lock").unwrap();
        // SAFETY: no pointers; the descriptor outlives the call.
        let locked = unsafe { libc::flock(file.as_raw_fd(), how) };
        assert_eq!(locked, 0, "{}", std::io::Error::last_os_error());
        Self(file)
    }
}

/// A mounted BPF file system; on drop its pins are unloaded.
#[derive(Debug)]
pub struct Bpffs {
    dir: TempDir,
    _registrations: Registrations,
}

impl Bpffs {
    /// Mounts one, for a test that will register congestion controls.
    pub fn new() -> Self {
        let registrations = Registrations::lock();
        let dir = folder();
        sh(&format!("mount -t bpf bpf {}", dir.path().display()));
        Self {
            dir,
            _registrations: registrations,
        }
    }

    /// Where it is mounted.
    pub fn path(&self) -> &Path {
        self.dir.path()
    }
}

impl Default for Bpffs {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Bpffs {
    fn drop(&mut self) {
        unload_and_unmount(self.path());
    }
}

/// Does nothing if no BPF file system is mounted at the folder.
pub(crate) fn unload_and_unmount(dir: &Path) {
    let mounts = fs::read_to_string("/proc/mounts").unwrap_or_default();
    let is_mounted = |line: &str| line.split(' ').nth(1) == dir.to_str();
    if !mounts.lines().any(is_mounted) {
        return;
    }
    // Before 6.4 a registration outlives its file.
    let pins = fs::read_dir(dir.join("tcpilot")).into_iter().flatten();
    for pin in pins.flatten() {
        let mut unload = Command::new(binary("tcpilot"));
        unload.args(["cc", "unload"]).arg(pin.file_name());
        let _ = unload.args(["--force", "--bpffs"]).arg(dir).output();
    }
    let _ = Command::new("umount").arg(dir).status();
}
