//! The kernel's `TCP_INFO`: reading it, and decoding it apart from the reading.
//!
//! The struct has only ever grown at its end (include/uapi/linux/tcp.h), so fields are taken at
//! fixed offsets from whatever number of bytes the running kernel returned.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// Room for the struct with space for fields of later kernels.
const BUFFER_BYTES: usize = 512;

const RTT_OFFSET: usize = 68;
const TOTAL_RETRANS_OFFSET: usize = 100;
const BYTES_ACKED_OFFSET: usize = 120;
const MIN_RTT_OFFSET: usize = 148;
const DELIVERY_RATE_OFFSET: usize = 160;

/// The fields that the reports use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TcpInfo {
    /// Segments sent again, over the connection's life.
    pub retransmits: u32,
    /// Lowest round-trip time seen in the kernel's window; `None` before the first sample.
    pub min_rtt_us: Option<u32>,
    /// Smoothed round-trip time.
    pub srtt_us: u32,
    /// Most recent delivery rate sample.
    pub delivery_rate_bytes_per_s: u64,
    /// Bytes the peer has acknowledged; the SYN counts as one.
    pub acked_bytes: u64,
}

impl TcpInfo {
    /// Decodes what the kernel returned. Fields an older kernel does not have read as zero.
    #[must_use]
    pub fn decode(raw: &[u8]) -> Self {
        let min_rtt_us = u32_at(raw, MIN_RTT_OFFSET).filter(|&us| us != u32::MAX);
        Self {
            retransmits: u32_at(raw, TOTAL_RETRANS_OFFSET).unwrap_or(0),
            min_rtt_us,
            srtt_us: u32_at(raw, RTT_OFFSET).unwrap_or(0),
            delivery_rate_bytes_per_s: u64_at(raw, DELIVERY_RATE_OFFSET).unwrap_or(0),
            acked_bytes: u64_at(raw, BYTES_ACKED_OFFSET).unwrap_or(0),
        }
    }

    /// Asks the kernel about a TCP socket. Works in every state, closed included.
    ///
    /// # Errors
    /// What `getsockopt` says, `EOPNOTSUPP` when the socket is not TCP.
    pub fn read(socket: impl AsFd) -> io::Result<Self> {
        let mut raw = [0u8; BUFFER_BYTES];
        let mut length = BUFFER_BYTES as libc::socklen_t;
        // SAFETY: the descriptor is borrowed for the call; `raw` and `length` outlive it, and the
        // kernel writes at most `length` bytes into `raw`.
        let result = unsafe {
            libc::getsockopt(
                socket.as_fd().as_raw_fd(),
                libc::IPPROTO_TCP,
                libc::TCP_INFO,
                raw.as_mut_ptr().cast(),
                &raw mut length,
            )
        };
        if result != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Self::decode(&raw[..(length as usize).min(BUFFER_BYTES)]))
    }
}

fn u32_at(raw: &[u8], offset: usize) -> Option<u32> {
    raw.get(offset..offset + 4)?
        .try_into()
        .ok()
        .map(u32::from_ne_bytes)
}

fn u64_at(raw: &[u8], offset: usize) -> Option<u64> {
    raw.get(offset..offset + 8)?
        .try_into()
        .ok()
        .map(u64::from_ne_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream, UdpSocket};

    #[test]
    fn short_kernel_bytes_read_as_missing() {
        let mut raw = [0xffu8; 104];
        raw[RTT_OFFSET..RTT_OFFSET + 4].copy_from_slice(&250u32.to_ne_bytes());
        raw[TOTAL_RETRANS_OFFSET..].copy_from_slice(&7u32.to_ne_bytes());
        let expected = TcpInfo {
            retransmits: 7,
            srtt_us: 250,
            ..TcpInfo::default()
        };
        assert_eq!(TcpInfo::decode(&raw), expected);
        assert_eq!(TcpInfo::decode(&[]), TcpInfo::default());
    }

    #[test]
    fn no_rtt_sample_is_none() {
        assert_eq!(TcpInfo::decode(&[0xff; 256]).min_rtt_us, None);
    }

    #[test]
    fn loopback_counts_acknowledged_bytes() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        client.write_all(&[1; 5000]).unwrap();
        server.read_exact(&mut [0; 5000]).unwrap();
        // The answer carries the acknowledgement of everything before it.
        server.write_all(&[2]).unwrap();
        client.read_exact(&mut [0; 1]).unwrap();
        let info = TcpInfo::read(&client).unwrap();
        assert_eq!(info.acked_bytes, 5001);
        assert_eq!(info.retransmits, 0);
        assert!(info.srtt_us > 0 && info.min_rtt_us.is_some());
        assert!(info.delivery_rate_bytes_per_s > 0);
    }

    #[test]
    fn other_sockets_are_an_error() {
        assert!(TcpInfo::read(UdpSocket::bind("127.0.0.1:0").unwrap()).is_err());
    }
}
