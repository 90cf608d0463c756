//! Removes the leftovers of killed test processes from the host: namespaces, cgroups, BPF file systems and
//! folders with a name made by `unique` and a dead process.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{bpffs, cgroup, unique::PREFIX};

/// Removes the leftovers of dead test processes. Things of living processes stay.
pub fn sweep() {
    for folder in entries(&std::env::temp_dir()) {
        if is_left_over(&folder) {
            bpffs::unload_and_unmount(&folder);
            let _ = fs::remove_dir_all(&folder);
        }
    }
    for path in entries(&cgroup::root()) {
        if is_left_over(&path) {
            remove_cgroups(&path);
        }
    }
    for netns in entries(Path::new("/run/netns")) {
        if is_left_over(&netns) {
            let mut ip = Command::new("ip");
            let _ = ip
                .args(["netns", "del"])
                .arg(netns.file_name().unwrap())
                .status();
        }
    }
}

fn entries(dir: &Path) -> Vec<PathBuf> {
    let found = fs::read_dir(dir).into_iter().flatten().flatten();
    found.map(|entry| entry.path()).collect()
}

/// Removes a cgroup after those below it: the kernel refuses any other order.
fn remove_cgroups(path: &Path) {
    for below in entries(path).into_iter().filter(|p| p.is_dir()) {
        remove_cgroups(&below);
    }
    cgroup::kill_and_remove(path);
}

fn is_left_over(path: &Path) -> bool {
    let name = path.file_name().and_then(|n| n.to_str());
    name.and_then(maker)
        .is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists())
}

/// The process behind this name: for `tp123-4` and `tp123-4.more` it is 123.
fn maker(name: &str) -> Option<u32> {
    let (pid, count) = name.strip_prefix(PREFIX)?.split_once('-')?;
    let count = count.split('.').next()?;
    count.parse::<u32>().ok()?;
    pid.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_tests_make_have_a_maker() {
        assert_eq!(maker("tp123-4"), Some(123));
        assert_eq!(maker("tp123-4.x8Kd0a"), Some(123));
        for other in [
            "tp-1", "tp123", "tp12x-4", "tcp123-4", "tp123-", "tp123-4x", "web123-4",
        ] {
            assert_eq!(maker(other), None, "{other}");
        }
    }
}
