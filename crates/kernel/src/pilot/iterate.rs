//! Iterators over the connections of every network namespace.

use std::{
    fs::File,
    io::Read,
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd},
        unix::fs::MetadataExt,
    },
};

use libbpf_rs::{ProgramMut, libbpf_sys::bpf_iter_create};

use crate::{Error, host, object::map_error, socket::in_netns};

/// Runs an iterator over connections in every network namespace, and returns what it wrote.
pub(super) fn iterate(program: &ProgramMut<'_>, action: &'static str) -> Result<Vec<u8>, Error> {
    let link = program.attach().map_err(map_error(action))?;
    iterate_by(link.as_fd())
}

/// The same of a program that is attached already: its link needs no program.
pub(super) fn iterate_by(link: BorrowedFd<'_>) -> Result<Vec<u8>, Error> {
    let link_fd = link.as_raw_fd();
    // This process is in its own already: to enter that again it would need CAP_SYS_ADMIN, too.
    let mut bytes = read_iterator(link_fd)?;
    let own = host::own_netns_inum();
    let is_own = |netns: &File| {
        let inum = netns.metadata().map(|meta| u32::try_from(meta.ino()).ok());
        inum.is_ok_and(|inum| inum == own)
    };
    for netns in host::all_netns().iter().filter(|netns| !is_own(netns)) {
        // One that is gone by now has no connections either.
        if let Ok(part) = in_netns(netns, || read_iterator(link_fd)) {
            bytes.append(&mut part?);
        }
    }
    Ok(bytes)
}

/// Runs an iterator for the namespace of the calling thread, and returns what it wrote.
fn read_iterator(link_fd: i32) -> Result<Vec<u8>, Error> {
    let fail = |source| Error::System {
        action: "list the connections",
        source,
    };
    // SAFETY: a plain system call; the descriptor is checked, and owned from here on.
    let fd = unsafe { bpf_iter_create(link_fd) };
    if fd < 0 {
        return Err(fail(std::io::Error::last_os_error()));
    }
    // SAFETY: fd is a descriptor that was just opened and that nobody else has.
    let mut file = unsafe { <File as std::os::fd::FromRawFd>::from_raw_fd(fd) };
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).map_err(fail)?;
    Ok(bytes)
}
