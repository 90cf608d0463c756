//! Locks of whole files, flock(2): the kernel frees a lock when its last descriptor is closed, however
//! the process ends. The standard library has them from Rust 1.89.

use std::{fs::File, io};

use rustix::{
    fs::{FlockOperation, flock},
    io::{Errno, retry_on_intr},
};

/// Takes the lock if it is free, and says whether it was.
///
/// # Errors
/// The kernel's.
pub fn try_lock(file: &File) -> io::Result<bool> {
    match retry_on_intr(|| flock(file, FlockOperation::NonBlockingLockExclusive)) {
        Ok(()) => Ok(true),
        Err(Errno::WOULDBLOCK) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Waits until the lock is free, and takes it.
///
/// # Errors
/// The kernel's.
pub fn wait_for(file: &File) -> io::Result<()> {
    Ok(retry_on_intr(|| {
        flock(file, FlockOperation::LockExclusive)
    })?)
}
