//! Which algorithms are in use: counts the TCP sockets of all namespaces by sock_diag(7).

use std::{collections::BTreeMap, io};

use tcpilot_netlink::{Question, Socket, Subsystem, attribute, text};

use crate::{Error, host, socket::in_netns};

// linux/sock_diag.h and linux/inet_diag.h; libc has none of these.
pub(super) const SOCK_DIAG_BY_FAMILY: u16 = 20;
pub(super) const INET_DIAG_CONG: u16 = 4;
/// `struct inet_diag_req_v2` and `struct inet_diag_msg`.
pub(super) const REQUEST_BYTES: usize = 56;
pub(super) const MESSAGE_BYTES: usize = 72;
const ALL_STATES: u32 = u32::MAX;

/// The number of sockets for each algorithm, including listening ones, in every namespace open to
/// this process. Without the privilege to enter them only this namespace counts.
///
/// # Errors
/// [`Error::System`] if the kernel does not list sockets (CONFIG_INET_DIAG).
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
    each_socket(1 << (INET_DIAG_CONG - 1), ALL_STATES, |body| {
        names.extend(algorithm(body));
    })?;
    Ok(names)
}

/// Asks for the TCP sockets of the calling thread's namespace in these states (bits), with these attributes (bits).
pub(super) fn each_socket(wanted: u8, states: u32, mut each: impl FnMut(&[u8])) -> io::Result<()> {
    let socket = Socket::open(Subsystem::SocketDiagnosis)?;
    for family in [libc::AF_INET, libc::AF_INET6] {
        let question = Question {
            kind: SOCK_DIAG_BY_FAMILY,
            flags: libc::NLM_F_DUMP,
            fixed: &request(family as u8, wanted, states),
            attributes: &[],
        };
        socket.ask(&question, &mut each)?;
    }
    Ok(())
}

/// `struct inet_diag_req_v2`.
fn request(family: u8, wanted: u8, states: u32) -> [u8; REQUEST_BYTES] {
    let mut bytes = [0; REQUEST_BYTES];
    bytes[..4].copy_from_slice(&[family, libc::IPPROTO_TCP as u8, wanted, 0]);
    bytes[4..8].copy_from_slice(&states.to_ne_bytes());
    bytes
}

/// The name of the algorithm in the description of a socket.
fn algorithm(body: &[u8]) -> Option<String> {
    attribute(body.get(MESSAGE_BYTES..)?, INET_DIAG_CONG).map(text)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use tcpilot_netlink::Attributes;

    use super::*;

    #[test]
    fn own_sockets_are_counted() {
        let listeners: Vec<_> = ["127.0.0.1:0", "[::1]:0"]
            .into_iter()
            .filter_map(|address| TcpListener::bind(address).ok())
            .collect();
        // Other tests open and close sockets meanwhile, but ours are always there.
        let names = algorithms_here().unwrap();
        assert!(names.len() >= listeners.len() && !names.is_empty());
        assert!(names.iter().all(|name| !name.is_empty()), "{names:?}");
    }

    #[test]
    fn the_name_is_found_behind_other_attributes() {
        let attributes = Attributes::default()
            .add(1, &[7])
            .text(INET_DIAG_CONG, "reno");
        let body = [&[0; MESSAGE_BYTES], attributes.bytes()].concat();
        assert_eq!(algorithm(&body).as_deref(), Some("reno"));
        assert_eq!(algorithm(&body[..MESSAGE_BYTES + 8]), None);
        assert_eq!(algorithm(&[0, 0, 0]), None);
    }
}
