//! Iterators over the connections of every network namespace.

use std::{
    fs::File,
    io::Read,
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd},
        unix::fs::MetadataExt,
    },
    sync::Once,
};

use libbpf_rs::{Link, ProgramMut, libbpf_sys::bpf_iter_create};

use super::hashed::hashed;
use crate::{
    Error, host,
    object::map_error,
    socket::{enter_netns, in_netns},
};

/// Runs an iterator over connections in every network namespace, and returns its output.
pub(super) fn iterate(program: &ProgramMut<'_>, action: &'static str) -> Result<Vec<u8>, Error> {
    let link = attach(program, action)?;
    let mut bytes = Vec::new();
    each_netns(|| {
        bytes.append(&mut walk(link.as_fd())?);
        Ok(())
    })?;
    Ok(bytes)
}

/// Runs an iterator over TCP sockets for the namespace of the calling thread, if it has any: each walk looks at the
/// table of all namespaces.
fn walk(link: BorrowedFd<'_>) -> Result<Vec<u8>, Error> {
    if hashed() == Some(0) {
        return Ok(Vec::new());
    }
    read_iterator(link)
}

/// Makes an iterator readable.
pub(super) fn attach(program: &ProgramMut<'_>, action: &'static str) -> Result<Link, Error> {
    program.attach().map_err(map_error(action))
}

/// Calls `f` in every network namespace: on this thread in the process's own, else on a thread that has entered it.
pub(super) fn each_netns(mut f: impl FnMut() -> Result<(), Error> + Send) -> Result<(), Error> {
    f()?;
    for netns in others() {
        match in_netns(&netns, &mut f) {
            Ok(done) => done?,
            Err(error) => tell_closed(&error),
        }
    }
    Ok(())
}

/// Logs once that a namespace cannot be entered. Without CAP_SYS_ADMIN none can, and the daemon says so when it starts.
fn tell_closed(error: &Error) {
    static TOLD: Once = Once::new();
    if host::may_enter_netns() {
        TOLD.call_once(|| {
            tracing::warn!(%error, "connections of a network namespace cannot be listed");
        });
    }
}

/// Namespaces other than this process's own. The process is in its own already, and would need CAP_SYS_ADMIN to
/// enter it again.
fn others() -> impl Iterator<Item = File> {
    let own = host::own_netns_inum();
    let is_own = move |netns: &File| {
        let inum = netns.metadata().map(|meta| u32::try_from(meta.ino()).ok());
        inum.is_ok_and(|inum| inum == own)
    };
    host::all_netns()
        .into_iter()
        .filter(move |netns| !is_own(netns))
}

/// Runs an iterator of an attached program, and returns its output. The calling thread enters the namespaces
/// itself, so its processor time includes all the work.
pub(super) fn run_here(link: BorrowedFd<'_>) -> Result<Vec<u8>, Error> {
    let own = File::open("/proc/thread-self/ns/net").map_err(cannot_list)?;
    let mut bytes = walk(link)?;
    for netns in others() {
        if let Err(error) = enter_netns(&netns) {
            tell_closed(&error);
            continue;
        }
        let read = walk(link);
        enter_netns(&own)?;
        bytes.append(&mut read?);
    }
    Ok(bytes)
}

fn cannot_list(source: std::io::Error) -> Error {
    Error::System {
        action: "list the connections",
        source,
    }
}

/// Runs an iterator for the namespace of the calling thread, and returns its output.
pub(super) fn read_iterator(link: BorrowedFd<'_>) -> Result<Vec<u8>, Error> {
    // SAFETY: a plain system call; the descriptor is checked, and owned from here on.
    let fd = unsafe { bpf_iter_create(link.as_raw_fd()) };
    if fd < 0 {
        return Err(cannot_list(std::io::Error::last_os_error()));
    }
    // SAFETY: fd is a descriptor just opened here, without another owner.
    let mut file = unsafe { <File as std::os::fd::FromRawFd>::from_raw_fd(fd) };
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).map_err(cannot_list)?;
    Ok(bytes)
}
