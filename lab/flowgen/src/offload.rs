//! `offload`: switches a device's work on packets for the kernel, for hosts without ethtool.

use crate::error::{Error, Result};
use std::io;
use std::os::fd::AsRawFd;

/// Work that a device may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offload {
    /// Join packets arriving close together (generic receive offload), as network cards do. A
    /// veth device can if its peer does not cut segments.
    Gro,
    /// Cut large segments.
    Tso,
}

impl Offload {
    /// `ETHTOOL_SGRO` and `ETHTOOL_STSO` (include/uapi/linux/ethtool.h).
    fn command(self) -> u32 {
        match self {
            Self::Gro => 0x2c,
            Self::Tso => 0x1f,
        }
    }
}

/// `struct ethtool_value`.
#[repr(C)]
struct Value {
    command: u32,
    data: u32,
}

/// Switches it on or off.
///
/// # Errors
/// [`Error::Usage`] for an invalid device name, [`Error::Io`] if the kernel refuses.
pub fn switch(device: &str, which: Offload, on: bool) -> Result<()> {
    let mut name = [0; libc::IFNAMSIZ];
    if device.is_empty() || device.len() >= name.len() {
        return Err(Error::Usage(format!("{device:?} is no device's name")));
    }
    for (to, from) in name.iter_mut().zip(device.bytes()) {
        *to = from as libc::c_char;
    }
    let mut value = Value {
        command: which.command(),
        data: u32::from(on),
    };
    let mut request = libc::ifreq {
        ifr_name: name,
        ifr_ifru: libc::__c_anonymous_ifr_ifru {
            ifru_data: (&raw mut value).cast(),
        },
    };
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").map_err(Error::io("opening a socket"))?;
    // SAFETY: the kernel reads `request` and the value it points to; both outlive the call.
    let result =
        unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL as _, &raw mut request) };
    if result < 0 {
        return Err(Error::io("setting an offload")(io::Error::last_os_error()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_no_device_can_have_are_refused() {
        for bad in ["", "a-name-of-16-bytes"] {
            let refused = switch(bad, Offload::Gro, true);
            assert!(matches!(refused, Err(Error::Usage(_))), "{bad}");
        }
        let absent = switch("none-such", Offload::Tso, false);
        assert!(matches!(absent, Err(Error::Io { .. })));
    }
}
