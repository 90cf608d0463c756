//! The bytes sent by open connections.

use std::os::fd::{AsFd, OwnedFd};

use tcpilot_abi::from_bytes;

use super::{Pilot, ends::link_of, iterate::run_here};
use crate::Error;

/// Adds up the bytes sent by the pilot's open connections.
pub struct Tally {
    /// The iterator's link.
    link: OwnedFd,
}

impl Tally {
    /// Acknowledged bytes of all of them, in each network namespace open to this process. The
    /// calling thread enters these namespaces, and the time grows with the number of sockets. So it needs a
    /// thread of its own.
    ///
    /// # Errors
    /// [`Error::System`] if they cannot be listed.
    pub fn open_bytes(&self) -> Result<u64, Error> {
        let words = run_here(self.link.as_fd())?;
        let words = words.chunks_exact(size_of::<u64>());
        Ok(words.filter_map(from_bytes::<u64>).sum())
    }
}

impl Pilot {
    /// A tally to move to a thread; it outlives the pilot.
    ///
    /// # Errors
    /// [`Error::Map`] or [`Error::System`] if the kernel has no memory.
    pub fn tally(&self) -> Result<Tally, Error> {
        let link = link_of(
            &self.skel.progs.tally,
            "attach the iterator over connections",
        )?;
        Ok(Tally { link })
    }
}
