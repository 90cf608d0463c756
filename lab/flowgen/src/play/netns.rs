//! Work done in another network namespace by the calling thread.

use crate::error::{Error, Result};
use rustix::fs::{Mode, OFlags};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

/// Does `work` with the calling thread in the namespace `path`; sockets that it opens stay there.
///
/// # Errors
/// [`Error::Io`] when the namespace cannot be entered (or left), and the error of `work`.
pub fn inside<T>(path: Option<&Path>, work: impl FnOnce() -> Result<T>) -> Result<T> {
    let Some(path) = path else {
        return work();
    };
    let home = open(Path::new("/proc/thread-self/ns/net"))?;
    enter(&open(path)?)?;
    let result = work();
    enter(&home)?;
    result
}

fn open(path: &Path) -> Result<OwnedFd> {
    rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
        .map_err(Error::io("opening a network namespace"))
}

fn enter(namespace: &OwnedFd) -> Result<()> {
    move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))
        .map_err(Error::io("entering a network namespace"))
}
