//! The ends of network namespaces, as they happen.

use std::os::fd::OwnedFd;

use libbpf_rs::{MapCore, MapHandle};
use tcpilot_abi::from_bytes;

use super::{Pilot, ends::link_of};
use crate::{Error, object::map_error, trace::may_trace};

/// The kernel's function for the end of a namespace.
const FUNCTION: &str = "tcp_sk_exit";

/// Whether the ends of namespaces can be seen on this kernel.
pub(super) fn are_seen() -> bool {
    may_trace(FUNCTION)
}

/// Collects the cookies of ended namespaces as long as it lives.
pub struct NetnsEnds {
    ended: MapHandle,
    _link: OwnedFd,
}

impl NetnsEnds {
    /// The cookies of the namespaces that have ended since the last call. If more than 4096 have ended, the oldest are
    /// missing.
    pub fn take(&self) -> Vec<u64> {
        let pop = || self.ended.lookup_and_delete(&[]).ok().flatten();
        std::iter::from_fn(pop)
            .filter_map(|cookie| from_bytes(&cookie))
            .collect()
    }
}

impl Pilot {
    /// Begins to collect the ends of namespaces.
    ///
    /// # Errors
    /// [`Error::Map`], [`Error::System`] if the kernel does not let programs see them.
    pub fn netns_ends(&self) -> Result<NetnsEnds, Error> {
        let action = "see the ends of network namespaces";
        if !self.needs.netns_ends {
            let source = std::io::ErrorKind::Unsupported.into();
            return Err(Error::System { action, source });
        }
        let ended = MapHandle::try_from(&self.skel.maps.ended_netns).map_err(map_error(action))?;
        let link = link_of(&self.skel.progs.netns_ended, action)?;
        Ok(NetnsEnds { ended, _link: link })
    }
}
