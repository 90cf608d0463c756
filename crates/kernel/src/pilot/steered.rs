//! Whether one of our programs steers a cgroup already.

use std::{
    fs::{DirEntry, File},
    os::fd::AsRawFd,
    path::Path,
};

use libbpf_rs::libbpf_sys::BPF_F_QUERY_EFFECTIVE;

use crate::{host, object::program_info};

/// The names of the sockops programs begin with this; another instance is recognised by it.
pub const PROGRAM: &str = "tcpilot";

/// Whether the kernel runs one of our programs for sockets of this cgroup, including its ancestors'
/// programs, or of a cgroup below it. This finds daemons without a visible claim: in a container with a
/// /run of its own, or of a version without claims. Reading the names needs CAP_SYS_ADMIN; without it
/// nothing is found.
pub(super) fn is_steered(cgroup: &Path, dir: &File) -> bool {
    let has_ours = |dir: &File, flags| {
        programs(dir, flags)
            .iter()
            .any(|name| name.starts_with(PROGRAM))
    };
    let below = |entry: DirEntry| File::open(entry.path()).is_ok_and(|dir| has_ours(&dir, 0));
    has_ours(dir, BPF_F_QUERY_EFFECTIVE) || host::subtree(cgroup).any(below)
}

/// Names of the sockops programs that run for sockets of this cgroup, its ancestors' included, and of those in the cgroups
/// below it. Reading them needs CAP_SYS_ADMIN; without it nothing is found.
pub fn sockops_programs(cgroup: &Path) -> Vec<String> {
    let of = |path: &Path, flags| File::open(path).map(|dir| programs(&dir, flags));
    let own = of(cgroup, BPF_F_QUERY_EFFECTIVE).unwrap_or_default();
    let below = host::subtree(cgroup).flat_map(|entry| of(&entry.path(), 0).unwrap_or_default());
    let mut all: Vec<String> = own.into_iter().chain(below).collect();
    all.sort();
    all.dedup();
    all
}

/// Names of a cgroup's sockops programs: its own, or with BPF_F_QUERY_EFFECTIVE its ancestors' too.
fn programs(cgroup: &File, flags: u32) -> Vec<String> {
    use libbpf_rs::libbpf_sys::{BPF_CGROUP_SOCK_OPS, bpf_prog_get_fd_by_id, bpf_prog_query};
    let mut ids = [0u32; 64];
    let mut count = ids.len() as u32;
    // SAFETY: ids has room for count entries; the other outputs may be null.
    let result = unsafe {
        bpf_prog_query(
            cgroup.as_raw_fd(),
            BPF_CGROUP_SOCK_OPS,
            flags,
            std::ptr::null_mut(),
            ids.as_mut_ptr(),
            &raw mut count,
        )
    };
    if result != 0 {
        return Vec::new();
    }
    let name_of = |&id: &u32| {
        // SAFETY: a plain system call; the descriptor is owned from here on.
        let fd = unsafe { bpf_prog_get_fd_by_id(id) };
        if fd < 0 {
            return None;
        }
        // SAFETY: fd is a descriptor just opened here, without another owner.
        let fd = unsafe { <std::os::fd::OwnedFd as std::os::fd::FromRawFd>::from_raw_fd(fd) };
        let name = program_info(fd.as_raw_fd())?.name;
        let text: Vec<u8> = name
            .iter()
            .take_while(|c| **c != 0)
            .map(|c| *c as u8)
            .collect();
        String::from_utf8(text).ok()
    };
    ids.iter()
        .take(count as usize)
        .filter_map(name_of)
        .collect()
}
