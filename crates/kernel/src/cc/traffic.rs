//! The data of the kernel's TCP sockets, by sock_diag(7): which part of a host's traffic could be steered. It needs no
//! program, so it works before anything is attached.

use std::{
    collections::HashMap,
    io,
    net::{IpAddr, Ipv6Addr},
};

use tcpilot_netlink::{Socket, Subsystem, attribute, text, u32_at, u64_at};

use super::users::{INET_DIAG_CONG, MESSAGE_BYTES, each_socket};
use crate::{host, socket::in_netns};

// linux/inet_diag.h and linux/sock_diag.h; libc has none of these.
const INET_DIAG_INFO: u16 = 2;
/// `SKNLGRP_INET_TCP_DESTROY` and `SKNLGRP_INET6_TCP_DESTROY`, as bits.
const ENDS: u32 = 1 << 0 | 1 << 2;
/// `tcpi_bytes_acked` of `struct tcp_info`.
const BYTES_ACKED: usize = 120;
/// TCP states with data that may be acknowledged: all but LISTEN and TIME_WAIT (net/tcp_states.h).
const STATES: u32 = 0xfff & !(1 << 10) & !(1 << 6);

/// A socket's acknowledged data.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Acked {
    cookie: u64,
    bytes: u64,
    algorithm: String,
}

/// Sums of acknowledged data between two looks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SocketTraffic {
    first: HashMap<u64, u64>,
    last: HashMap<u64, Acked>,
    is_begun: bool,
}

/// The ends of this namespace's sockets, and the sums.
#[derive(Debug)]
pub struct Watch {
    ends: Socket,
    seen: SocketTraffic,
}

impl Watch {
    /// Begins to count.
    ///
    /// # Errors
    /// The kernel does not list sockets (CONFIG_INET_DIAG).
    pub fn begin() -> io::Result<Watch> {
        let mut watch = Watch {
            ends: Socket::listen(Subsystem::SocketDiagnosis, ENDS)?,
            seen: SocketTraffic::default(),
        };
        watch.look()?;
        watch.seen.is_begun = true;
        Ok(watch)
    }

    /// Looks at all sockets again, and at those ended since. Call it about once a second.
    ///
    /// # Errors
    /// As [`Watch::begin`].
    pub fn look(&mut self) -> io::Result<()> {
        let mut entered = false;
        for netns in host::all_netns() {
            if let Ok(sockets) = in_netns(&netns, sockets_here) {
                entered = true;
                self.seen.take(sockets?);
            }
        }
        if !entered {
            self.seen.take(sockets_here()?);
        }
        let mut ended = Vec::new();
        self.ends.announced(|body| ended.extend(acked(body)))?;
        self.seen.take(ended);
        Ok(())
    }

    /// Bytes acknowledged since the beginning, for each algorithm.
    pub fn bytes(&self) -> HashMap<String, u64> {
        self.seen.bytes()
    }
}

impl SocketTraffic {
    /// Notes the sockets. Those that were not there at the beginning have sent all their data since.
    fn take(&mut self, sockets: Vec<Acked>) {
        for socket in sockets {
            if !self.is_begun {
                self.first.insert(socket.cookie, socket.bytes);
            }
            let algorithm = self
                .last
                .get(&socket.cookie)
                .map(|old| old.algorithm.clone());
            // The announcement of an end may have no algorithm.
            let algorithm = match socket.algorithm.is_empty() {
                true => algorithm.unwrap_or_default(),
                false => socket.algorithm.clone(),
            };
            self.last.insert(
                socket.cookie,
                Acked {
                    algorithm,
                    ..socket
                },
            );
        }
    }

    fn bytes(&self) -> HashMap<String, u64> {
        let mut sums = HashMap::new();
        for (cookie, socket) in &self.last {
            let before = self.first.get(cookie).copied().unwrap_or(0);
            *sums.entry(socket.algorithm.clone()).or_default() +=
                socket.bytes.saturating_sub(before);
        }
        sums
    }
}

/// The sockets of the calling thread's namespace, without those that stay on the host.
fn sockets_here() -> io::Result<Vec<Acked>> {
    let mut all = Vec::new();
    let wanted = 1 << (INET_DIAG_CONG - 1) | 1 << (INET_DIAG_INFO - 1);
    each_socket(wanted, STATES, |body| all.extend(acked(body)))?;
    Ok(all)
}

/// The acknowledged data in `struct inet_diag_msg` and its attributes; `None` for a socket that stays on the host.
fn acked(body: &[u8]) -> Option<Acked> {
    let attributes = body.get(MESSAGE_BYTES..)?;
    let family = i32::from(*body.first()?);
    let address = |offset: usize| -> Option<IpAddr> {
        let bytes: [u8; 16] = body.get(offset..offset + 16)?.try_into().ok()?;
        Some(match family {
            libc::AF_INET => IpAddr::from(*bytes.first_chunk::<4>()?),
            _ => IpAddr::from(Ipv6Addr::from(bytes)).to_canonical(),
        })
    };
    let (from, to) = (address(8)?, address(24)?);
    if from == to || to.is_loopback() {
        return None;
    }
    let [low, high] = [u32_at(body, 44)?, u32_at(body, 48)?].map(u64::from);
    Some(Acked {
        cookie: high << 32 | low,
        bytes: u64_at(attribute(attributes, INET_DIAG_INFO)?, BYTES_ACKED)?,
        algorithm: attribute(attributes, INET_DIAG_CONG).map_or_else(String::new, text),
    })
}

#[cfg(test)]
mod tests {
    use tcpilot_netlink::Attributes;

    use super::*;

    fn body(from: [u8; 4], to: [u8; 4], bytes: u64) -> Vec<u8> {
        let mut message = vec![0; MESSAGE_BYTES];
        message[0] = libc::AF_INET as u8;
        message[8..12].copy_from_slice(&from);
        message[24..28].copy_from_slice(&to);
        message[44] = 7;
        let mut info = vec![0; 232];
        info[BYTES_ACKED..BYTES_ACKED + 8].copy_from_slice(&bytes.to_ne_bytes());
        let attributes = Attributes::default()
            .add(INET_DIAG_INFO, &info)
            .text(INET_DIAG_CONG, "cubic");
        [&message, attributes.bytes()].concat()
    }

    #[test]
    fn sockets_that_stay_on_the_host_do_not_count() {
        let away = acked(&body([10, 0, 0, 1], [10, 0, 0, 2], 5000)).unwrap();
        assert_eq!(
            (away.cookie, away.bytes, away.algorithm.as_str()),
            (7, 5000, "cubic")
        );
        assert_eq!(acked(&body([10, 0, 0, 1], [10, 0, 0, 1], 5000)), None);
        assert_eq!(acked(&body([127, 0, 0, 1], [127, 0, 0, 1], 5000)), None);
        assert_eq!(acked(&[0; 20]), None);
    }

    #[test]
    fn only_data_since_the_beginning_counts() {
        let socket = |cookie, bytes| Acked {
            cookie,
            bytes,
            algorithm: "cubic".to_owned(),
        };
        let mut seen = SocketTraffic::default();
        seen.take(vec![socket(1, 1000)]);
        seen.is_begun = true;
        seen.take(vec![socket(1, 1500), socket(2, 70)]);
        // The second ends; its last message has no algorithm.
        seen.take(vec![Acked {
            algorithm: String::new(),
            ..socket(2, 90)
        }]);
        assert_eq!(seen.bytes(), [("cubic".to_owned(), 590)].into());
    }
}
