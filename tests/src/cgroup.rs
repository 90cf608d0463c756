//! A cgroup for a single test, below the cgroup v2 mount.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use crate::unique;

/// The root of the cgroup v2 hierarchy.
///
/// # Panics
/// When none is mounted.
pub fn root() -> PathBuf {
    let mounts = fs::read_to_string("/proc/mounts").unwrap();
    let mut mounts = mounts.lines().map(|line| line.split(' '));
    let found = mounts.find_map(|mut f| f.nth(1).filter(|_| f.next() == Some("cgroup2")));
    found.expect("a cgroup v2 mount").into()
}

/// A cgroup. On drop its processes are killed, and it is removed.
#[derive(Debug)]
pub struct Cgroup {
    path: PathBuf,
}

impl Cgroup {
    /// A new cgroup below the root.
    pub fn new() -> Self {
        Self::below(&root())
    }

    /// A new cgroup below another one.
    ///
    /// # Panics
    /// When it cannot be made.
    pub fn below(parent: &Path) -> Self {
        let path = parent.join(unique());
        fs::create_dir(&path).unwrap();
        Self { path }
    }

    /// Its directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its path as in the configuration: relative to the root.
    ///
    /// # Panics
    /// Never: each cgroup is made below the root.
    pub fn name(&self) -> &str {
        self.path.strip_prefix(root()).unwrap().to_str().unwrap()
    }

    pub(crate) fn open_procs(&self) -> File {
        let procs = self.path.join("cgroup.procs");
        File::options().write(true).open(procs).unwrap()
    }

    /// Removes it, and makes it again after `gap`, as the restart of a service does.
    ///
    /// # Panics
    /// When it cannot be made.
    pub fn remake(&self, gap: Duration) {
        self.remove();
        thread::sleep(gap);
        fs::create_dir(&self.path).unwrap();
    }

    /// Kills its processes, and removes it.
    pub fn remove(&self) {
        kill_and_remove(&self.path);
    }
}

impl Default for Cgroup {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        self.remove();
    }
}

/// A killed process leaves its cgroup a little later.
pub(crate) fn kill_and_remove(path: &Path) {
    for _ in 0..500 {
        let _ = fs::write(path.join("cgroup.kill"), "1");
        let _ = fs::remove_dir(path);
        if !path.exists() {
            return;
        }
        thread::sleep(Duration::from_millis(10));
    }
    eprintln!("{} could not be removed", path.display());
}
