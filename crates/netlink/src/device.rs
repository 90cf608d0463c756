//! Devices by name and by index, in this network namespace.

use std::io;

use crate::{Question, Socket, Subsystem, attribute, text, u32_at};

/// Bytes of `struct ifinfomsg`, and the offset of its index.
const IFINFO_BYTES: usize = 16;
const IFINFO_INDEX: usize = 4;
/// linux/if_link.h: an attribute within `IFLA_LINKINFO`.
const IFLA_INFO_KIND: u16 = 1;

/// The ports of a bridge, by name; `None` if the device is no bridge.
///
/// # Errors
/// The kernel's.
pub fn ports_of_bridge(index: u32) -> io::Result<Option<Vec<String>>> {
    let (mut is_bridge, mut ports) = (false, Vec::new());
    let question = Question {
        kind: libc::RTM_GETLINK,
        flags: libc::NLM_F_DUMP,
        fixed: &[0; IFINFO_BYTES],
        attributes: &[],
    };
    Socket::open(Subsystem::Route)?.ask(&question, |body| {
        let attributes = body.get(IFINFO_BYTES..).unwrap_or_default();
        let of = |kind| attribute(attributes, kind);
        if u32_at(body, IFINFO_INDEX) == Some(index) {
            let info = of(libc::IFLA_LINKINFO).unwrap_or_default();
            is_bridge = attribute(info, IFLA_INFO_KIND).map(text).as_deref() == Some("bridge");
        } else if of(libc::IFLA_MASTER).and_then(|m| u32_at(m, 0)) == Some(index) {
            ports.extend(of(libc::IFLA_IFNAME).map(text));
        }
    })?;
    Ok(is_bridge.then_some(ports))
}

/// The index of a device of this network namespace; 0 if there is none of this name.
pub fn index_of(name: &str) -> u32 {
    let Ok(socket) = rustix::net::socket(
        rustix::net::AddressFamily::INET,
        rustix::net::SocketType::DGRAM,
        None,
    ) else {
        return 0;
    };
    rustix::net::netdevice::name_to_index(&socket, name).unwrap_or(0)
}

/// The name of a device of this network namespace, by its index.
pub fn name_of(index: u32) -> Option<String> {
    let socket = rustix::net::socket(
        rustix::net::AddressFamily::INET,
        rustix::net::SocketType::DGRAM,
        None,
    );
    rustix::net::netdevice::index_to_name(socket.ok()?, index).ok()
}
