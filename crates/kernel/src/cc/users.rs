//! Which algorithms are in use: counts the TCP sockets of all namespaces by sock_diag(7).

use std::{
    collections::BTreeMap,
    io,
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
};

use crate::{Error, host, socket::in_netns};

/// linux/sock_diag.h, linux/inet_diag.h, linux/netlink.h
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const INET_DIAG_CONG: u16 = 4;
const HEADER: usize = 16;
const REQUEST: usize = 56;
const MESSAGE: usize = 72;
const ALL_STATES: u32 = u32::MAX;

/// The number of sockets, listening ones included, for each algorithm, over every namespace that may be
/// entered; without the privilege for that, of this one.
///
/// # Errors
/// [`Error::System`] where the kernel does not list sockets (CONFIG_INET_DIAG).
pub fn sockets_by_algorithm() -> Result<BTreeMap<String, u64>, Error> {
    let mut counts = BTreeMap::new();
    let mut count = |names: Vec<String>| {
        for name in names {
            *counts.entry(name).or_default() += 1;
        }
    };
    let mut entered = false;
    for netns in host::all_netns() {
        if let Ok(names) = in_netns(&netns, algorithms_here) {
            entered = true;
            count(names.map_err(cannot_list)?);
        }
    }
    if !entered {
        count(algorithms_here().map_err(cannot_list)?);
    }
    Ok(counts)
}

fn cannot_list(source: io::Error) -> Error {
    Error::System {
        action: "list the sockets (sock_diag)",
        source,
    }
}

/// An entry for each TCP socket of the calling thread's namespace.
fn algorithms_here() -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for family in [libc::AF_INET, libc::AF_INET6] {
        let socket = diag_socket()?;
        send(&socket, &request(family as u8))?;
        let mut buffer = vec![0u8; 1 << 16];
        loop {
            let length = receive(&socket, &mut buffer)?;
            if !collect(&buffer[..length], &mut names)? {
                break;
            }
        }
    }
    Ok(names)
}

fn diag_socket() -> io::Result<OwnedFd> {
    // SAFETY: a plain system call; the descriptor is checked, and owned from here on.
    unsafe {
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
        let fd = libc::socket(libc::AF_NETLINK, kind, libc::NETLINK_SOCK_DIAG);
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(OwnedFd::from_raw_fd(fd))
    }
}

/// nlmsghdr and inet_diag_req_v2: every TCP socket of a family, with its algorithm.
fn request(family: u8) -> Vec<u8> {
    let length = (HEADER + REQUEST) as u32;
    let flags = (libc::NLM_F_REQUEST | libc::NLM_F_DUMP) as u16;
    let mut bytes = Vec::with_capacity(HEADER + REQUEST);
    bytes.extend(length.to_ne_bytes());
    bytes.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    bytes.extend(flags.to_ne_bytes());
    bytes.extend([0; 8]); // sequence, port
    bytes.extend([
        family,
        libc::IPPROTO_TCP as u8,
        1 << (INET_DIAG_CONG - 1),
        0,
    ]);
    bytes.extend(ALL_STATES.to_ne_bytes());
    bytes.resize(HEADER + REQUEST, 0);
    bytes
}

fn send(socket: &OwnedFd, bytes: &[u8]) -> io::Result<()> {
    // SAFETY: bytes is readable for the length given.
    let sent = unsafe { libc::send(socket.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), 0) };
    if sent < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

fn receive(socket: &OwnedFd, buffer: &mut [u8]) -> io::Result<usize> {
    // SAFETY: buffer is writable for the length given.
    let length = unsafe {
        let to = buffer.as_mut_ptr().cast();
        libc::recv(socket.as_raw_fd(), to, buffer.len(), 0)
    };
    usize::try_from(length).map_err(|_| io::Error::last_os_error())
}

fn u16_at(bytes: &[u8], at: usize) -> Option<usize> {
    let two = bytes.get(at..at + 2)?.try_into().ok()?;
    Some(u16::from_ne_bytes(two).into())
}

fn u32_at(bytes: &[u8], at: usize) -> Option<usize> {
    let four = bytes.get(at..at + 4)?.try_into().ok()?;
    usize::try_from(u32::from_ne_bytes(four)).ok()
}

/// Takes the messages of one datagram apart; false when they were the last.
fn collect(mut bytes: &[u8], names: &mut Vec<String>) -> io::Result<bool> {
    while let (Some(length), Some(kind)) = (u32_at(bytes, 0), u16_at(bytes, 4)) {
        match kind as i32 {
            libc::NLMSG_DONE => return Ok(false),
            libc::NLMSG_ERROR => return Err(io::ErrorKind::Other.into()),
            _ => {}
        }
        let message = bytes.get(HEADER..length).unwrap_or_default();
        names.extend(algorithm(message.get(MESSAGE..).unwrap_or_default()));
        bytes = bytes
            .get(length.next_multiple_of(4).max(HEADER)..)
            .unwrap_or_default();
    }
    Ok(true)
}

/// The attribute with the algorithm's name.
fn algorithm(mut attributes: &[u8]) -> Option<String> {
    while let (Some(length), Some(kind)) = (u16_at(attributes, 0), u16_at(attributes, 2)) {
        if kind == usize::from(INET_DIAG_CONG) {
            let text = attributes.get(4..length)?;
            let end = text.iter().position(|b| *b == 0).unwrap_or(text.len());
            return String::from_utf8(text[..end].to_vec()).ok();
        }
        attributes = attributes.get(length.next_multiple_of(4).max(4)..)?;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_sockets_are_counted() {
        let before = algorithms_here().unwrap().len();
        let _listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        // Other tests open and close sockets meanwhile; ours is there in any case.
        assert!(!algorithms_here().unwrap().is_empty(), "{before} before");
    }

    #[test]
    fn the_name_is_found_behind_other_attributes() {
        let mut bytes = vec![5, 0, 1, 0, 7, 0, 0, 0]; // one byte, padded
        bytes.extend([9, 0, 4, 0]);
        bytes.extend(b"reno\0");
        assert_eq!(algorithm(&bytes), Some("reno".into()));
        assert_eq!(algorithm(&bytes[..8]), None);
        assert_eq!(algorithm(&[0, 0, 0]), None);
    }
}
