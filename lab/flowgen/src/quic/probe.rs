//! Whether a path carries anything again, asked without a connection.
//!
//! Opening a path of QUIC on a link still dead uses up one of the path identifiers allowed by the server. The
//! server renews identifiers only for paths it knew. So the client first sends a packet of an unknown QUIC
//! version: every server answers it, without a connection, with a Version Negotiation packet (RFC 9000,
//! sections 6.1 and 17.2.1).

use super::endpoint;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use tokio::net::UdpSocket;
use tokio::time::timeout;

/// Smallest datagram a server must answer (RFC 9000, section 14.1).
const DATAGRAM_BYTES: usize = 1200;
/// A reserved version (RFC 9000, section 15).
const VERSION: u32 = 0x1a2a_3a4a;
/// The source connection ID; the answer repeats it as its destination.
const SOURCE_ID: [u8; 8] = *b"tcplprob";
const DESTINATION_ID: [u8; 8] = *b"flowgen?";
/// First byte, version, and both identifiers with their lengths.
const HEADER_BYTES: usize = 1 + 4 + 1 + 8 + 1 + 8;

/// Asks once; whether an answer comes by this path within `wait`.
pub async fn answers(local: IpAddr, remote: SocketAddr, wait: Duration) -> bool {
    let asked = ask(local, remote);
    // A refusal by the kernel, such as for an address no longer this host's, is no answer either.
    timeout(wait, asked).await.is_ok_and(|asked| asked.is_ok())
}

async fn ask(local: IpAddr, remote: SocketAddr) -> io::Result<()> {
    let socket = UdpSocket::from_std(endpoint::socket((local, 0).into())?)?;
    socket.connect(remote).await?;
    socket.send(&question()).await?;
    let mut answer = [0; DATAGRAM_BYTES];
    loop {
        let bytes = socket.recv(&mut answer).await?;
        if is_answer(&answer[..bytes]) {
            return Ok(());
        }
    }
}

fn question() -> [u8; DATAGRAM_BYTES] {
    let mut header = Vec::with_capacity(HEADER_BYTES);
    header.push(0xc0);
    header.extend(VERSION.to_be_bytes());
    for id in [DESTINATION_ID, SOURCE_ID] {
        header.push(id.len() as u8);
        header.extend(id);
    }
    let mut datagram = [0; DATAGRAM_BYTES];
    datagram[..HEADER_BYTES].copy_from_slice(&header);
    datagram
}

/// A long header of version 0, with the identifiers changed over.
fn is_answer(datagram: &[u8]) -> bool {
    let [first, 0, 0, 0, 0, 8, ids @ ..] = datagram else {
        return false;
    };
    first & 0x80 != 0
        && ids.starts_with(&SOURCE_ID)
        && ids[8..].starts_with(&[8])
        && ids[9..].starts_with(&DESTINATION_ID)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quic::{runtime, serve};

    #[test]
    fn running_server_answers_closed_port_does_not() {
        let server = serve("127.0.0.1:0".parse().unwrap(), 2).unwrap();
        let nobody = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let silent = nobody.local_addr().unwrap();
        let closed = "127.0.0.1:1".parse().unwrap();
        let (local, wait) = ("127.0.0.1".parse().unwrap(), Duration::from_millis(500));
        runtime().unwrap().block_on(async {
            assert!(answers(local, server, 10 * wait).await);
            assert!(!answers(local, silent, wait).await);
            assert!(!answers(local, closed, wait).await);
            let foreign = "192.0.2.1".parse().unwrap();
            assert!(!answers(foreign, server, wait).await);
        });
    }

    #[test]
    fn only_the_answer_to_this_question_counts() {
        let mut answer = vec![0x80 | 0x2a, 0, 0, 0, 0];
        for id in [SOURCE_ID, DESTINATION_ID] {
            answer.push(8);
            answer.extend(id);
        }
        answer.extend([0, 0, 0, 1]);
        assert!(is_answer(&answer));
        for (at, value) in [(0, 0x2a), (4, 1), (5, 7), (6, 0), (14, 0), (22, 0)] {
            let mut other = answer.clone();
            other[at] = value;
            assert!(!is_answer(&other), "{at}");
        }
        assert!(!is_answer(&answer[..22]) && !is_answer(&[]));
    }
}
