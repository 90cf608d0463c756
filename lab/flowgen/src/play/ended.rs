//! The sender's sockets as they end, for servers that are programs of their own: the kernel announces each
//! with its counters (sock_diag(7), `SKNLGRP_INET_TCP_DESTROY`).

use super::netns;
use crate::error::{Error, Result};
use crate::tcp_info::TcpInfo;
use std::collections::{HashMap, VecDeque};
use std::io;
use std::path::Path;
use tcpilot_netlink::{Socket, Subsystem, attribute};

// linux/sock_diag.h and linux/inet_diag.h; libc has none of these. A bit for each group.
const TCP_DESTROYED: u32 = 1 << 0;
const TCP6_DESTROYED: u32 = 1 << 2;
const INET_DIAG_INFO: u16 = 2;
/// `struct inet_diag_msg`, and in it the ports, in the network's byte order.
const MESSAGE_BYTES: usize = 72;
const OWN_PORT: usize = 4;
const PEER_PORT: usize = 6;

/// Listens in one namespace from when it is made.
#[derive(Debug)]
pub struct Ended {
    socket: Socket,
    port: u16,
    /// By the client's port, the earlier first.
    seen: HashMap<u16, VecDeque<TcpInfo>>,
}

impl Ended {
    /// Listens for sockets of the server on this port, in the namespace `path`.
    ///
    /// # Errors
    /// [`Error::Io`]; another namespace can be entered with CAP_SYS_ADMIN only.
    pub fn listen(path: Option<&Path>, port: u16) -> Result<Self> {
        let groups = TCP_DESTROYED | TCP6_DESTROYED;
        let open = || Socket::listen(Subsystem::SocketDiagnosis, groups);
        let socket = netns::inside(path, || {
            open().map_err(Error::io("listening for the ends of sockets"))
        })?;
        Ok(Self {
            socket,
            port,
            seen: HashMap::new(),
        })
    }

    /// Reads the announcements up to now.
    ///
    /// # Errors
    /// [`Error::Io`] if announcements were lost.
    pub fn look(&mut self) -> Result<()> {
        let (port, seen) = (self.port, &mut self.seen);
        let taken = self.socket.announced(|body| {
            if let Some((client, info)) = read(body, port) {
                seen.entry(client).or_default().push_back(info);
            }
        });
        taken.map_err(|source: io::Error| Error::Io {
            action: "reading the ends of sockets",
            source,
        })
    }

    /// The counters of the connection from the client's port; of several, the one that ended first.
    pub fn take(&mut self, client: u16) -> Option<TcpInfo> {
        self.seen.get_mut(&client)?.pop_front()
    }
}

/// The client's port and the counters, if it was a connection of the server.
fn read(body: &[u8], server: u16) -> Option<(u16, TcpInfo)> {
    let port = |at: usize| Some(u16::from_be_bytes([*body.get(at)?, *body.get(at + 1)?]));
    if port(OWN_PORT)? != server {
        return None;
    }
    let info = attribute(body.get(MESSAGE_BYTES..)?, INET_DIAG_INFO)?;
    Some((port(PEER_PORT)?, TcpInfo::decode(info)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::time::{Duration, Instant};

    #[test]
    fn only_complete_server_sockets_are_read() {
        let mut body = vec![0; MESSAGE_BYTES];
        body[OWN_PORT..PEER_PORT + 2].copy_from_slice(&[31, 144, 200, 1]);
        let info = tcpilot_netlink::Attributes::default().add(INET_DIAG_INFO, &[0; 104]);
        body.extend(info.bytes());
        assert_eq!(
            read(&body, 8080),
            Some((51_201, TcpInfo::decode(&[0; 104])))
        );
        assert_eq!(read(&body, 80), None);
        assert_eq!(read(&body[..MESSAGE_BYTES], 8080), None);
        assert_eq!(read(&[], 8080), None);
    }

    #[test]
    fn a_connection_is_announced_with_what_it_sent() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let mut ended = Ended::listen(None, port).unwrap();
        let mut client = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let client_port = client.local_addr().unwrap().port();
        let (mut server, _) = listener.accept().unwrap();
        server.write_all(&[7; 5000]).unwrap();
        let mut bytes = [0; 5000];
        client.read_exact(&mut bytes).unwrap();
        drop((client, server));
        let until = Instant::now() + Duration::from_secs(10);
        let info = loop {
            ended.look().unwrap();
            if let Some(info) = ended.take(client_port) {
                break info;
            }
            assert!(Instant::now() < until, "nothing was announced");
            std::thread::sleep(Duration::from_millis(5));
        };
        assert!((5000..=5002).contains(&info.acked_bytes), "{info:?}");
        assert_eq!(ended.take(client_port), None);
    }
}
