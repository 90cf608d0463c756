//! The kernel's `TCP_INFO`: reading it, and decoding it apart from the reading.
//!
//! The struct has only ever grown at its end (include/uapi/linux/tcp.h). So the fields of libc's struct
//! are taken from however many bytes the running kernel returned; the rest is zero.

use std::io;
use std::mem::MaybeUninit;
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd};
use tcpilot_netlink::u32_at;

/// `TCPI_OPT_ECN` (include/uapi/linux/tcp.h): ECN was negotiated. libc has it for the Hurd only.
const OPTION_ECN: u8 = 8;
const INFO_BYTES: usize = size_of::<libc::tcp_info>();
/// The kernel's word for "no threshold yet" (`TCP_INFINITE_SSTHRESH`).
const INFINITE_SSTHRESH: u32 = 0x7fff_ffff;

/// The fields used by the reports.
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
    /// Congestion window.
    pub cwnd_packets: u32,
    /// Slow start threshold; `None` before the first loss.
    pub ssthresh_packets: Option<u32>,
    /// Rate at which the kernel paces; `None` without pacing.
    pub pacing_rate_bytes_per_s: Option<u64>,
    /// Segments held lost now.
    pub lost_packets: u32,
    /// Segments in flight as RFC 6675 counts them: sent, not acknowledged, not held lost.
    pub inflight_packets: u32,
    /// Segments with data sent over the connection's life, those sent again included.
    pub sent_packets: u32,
    /// ECN was negotiated.
    pub ecn: bool,
    /// Time with data to send or to be acknowledged.
    pub busy_us: u64,
    /// Part of the busy time limited by the peer's window.
    pub window_limited_us: u64,
    /// Part of the busy time limited by the send buffer.
    pub buffer_limited_us: u64,
}

impl TcpInfo {
    /// Decodes the kernel's answer. Fields an older kernel does not have read as zero.
    #[must_use]
    pub fn decode(raw: &[u8]) -> Self {
        Self::from(&info_of(raw))
    }

    /// Asks the kernel about a TCP socket. Works in every state, closed included.
    ///
    /// # Errors
    /// From `getsockopt`: `EOPNOTSUPP` if the socket is not TCP.
    pub fn read(socket: impl AsFd) -> io::Result<Self> {
        let mut raw = [0u8; INFO_BYTES];
        let mut length = INFO_BYTES as libc::socklen_t;
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
        Ok(Self::decode(&raw[..(length as usize).min(INFO_BYTES)]))
    }
}

impl From<&libc::tcp_info> for TcpInfo {
    fn from(info: &libc::tcp_info) -> Self {
        let in_flight = info.tcpi_unacked.saturating_add(info.tcpi_retrans);
        let rate = Some(info.tcpi_pacing_rate);
        Self {
            retransmits: info.tcpi_total_retrans,
            min_rtt_us: Some(info.tcpi_min_rtt).filter(|&us| us != 0 && us != u32::MAX),
            srtt_us: info.tcpi_rtt,
            delivery_rate_bytes_per_s: info.tcpi_delivery_rate,
            acked_bytes: info.tcpi_bytes_acked,
            cwnd_packets: info.tcpi_snd_cwnd,
            ssthresh_packets: Some(info.tcpi_snd_ssthresh)
                .filter(|&packets| packets < INFINITE_SSTHRESH),
            pacing_rate_bytes_per_s: rate.filter(|&rate| rate != 0 && rate != u64::MAX),
            lost_packets: info.tcpi_lost,
            inflight_packets: in_flight
                .saturating_sub(info.tcpi_sacked.saturating_add(info.tcpi_lost)),
            sent_packets: info.tcpi_data_segs_out,
            ecn: info.tcpi_options & OPTION_ECN != 0,
            busy_us: info.tcpi_busy_time,
            window_limited_us: info.tcpi_rwnd_limited,
            buffer_limited_us: info.tcpi_sndbuf_limited,
        }
    }
}

fn info_of(raw: &[u8]) -> libc::tcp_info {
    let mut info = MaybeUninit::<libc::tcp_info>::zeroed();
    let length = raw.len().min(INFO_BYTES);
    // SAFETY: both have `length` bytes and do not overlap; a struct of integers is valid with any bytes.
    unsafe {
        std::ptr::copy_nonoverlapping(raw.as_ptr(), info.as_mut_ptr().cast(), length);
        info.assume_init()
    }
}

const SOL_MPTCP: i32 = 284;
const MPTCP_TCPINFO: i32 = 2;
const MPTCP_SUBFLOW_ADDRS: i32 = 3;
/// `struct mptcp_subflow_data`: four u32; the second is the number of subflows.
const SUBFLOW_HEADER_BYTES: usize = 16;
/// `struct mptcp_subflow_addrs`: two `sockaddr_storage`.
const SUBFLOW_ADDRESSES_BYTES: usize = 256;
const MOST_SUBFLOWS: usize = 8;

/// Local address and `TCP_INFO` of each subflow of an MPTCP socket (include/uapi/linux/mptcp.h).
///
/// # Errors
/// From `getsockopt`. A socket that fell back to TCP has no subflows.
pub fn subflows(socket: impl AsFd) -> io::Result<Vec<(IpAddr, TcpInfo)>> {
    let infos = subflow_option(&socket, MPTCP_TCPINFO, INFO_BYTES)?;
    let addresses = subflow_option(&socket, MPTCP_SUBFLOW_ADDRS, SUBFLOW_ADDRESSES_BYTES)?;
    let pairs = addresses.iter().zip(&infos);
    Ok(pairs
        .filter_map(|(address, info)| Some((address_at(address)?, TcpInfo::decode(info))))
        .collect())
}

fn subflow_option(socket: impl AsFd, option: i32, each_bytes: usize) -> io::Result<Vec<Vec<u8>>> {
    let mut raw = vec![0u8; SUBFLOW_HEADER_BYTES + MOST_SUBFLOWS * each_bytes];
    raw[..4].copy_from_slice(&(SUBFLOW_HEADER_BYTES as u32).to_ne_bytes());
    raw[12..16].copy_from_slice(&(each_bytes as u32).to_ne_bytes());
    let mut length = raw.len() as libc::socklen_t;
    // SAFETY: `raw` and `length` outlive the call; it writes at most `length` bytes.
    let result = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            SOL_MPTCP,
            option,
            raw.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(split_subflows(&raw, each_bytes))
}

/// The kernel's structs one after the other, each as long as the shorter of its own and ours.
fn split_subflows(raw: &[u8], each_bytes: usize) -> Vec<Vec<u8>> {
    let count = u32_at(raw, 4).unwrap_or(0) as usize;
    let kernel_bytes = u32_at(raw, 8).unwrap_or(0) as usize;
    let stride = match kernel_bytes.min(each_bytes) {
        0 => each_bytes,
        shorter => shorter,
    };
    let body = raw.get(SUBFLOW_HEADER_BYTES..).unwrap_or_default();
    body.chunks_exact(stride)
        .take(count)
        .map(<[u8]>::to_vec)
        .collect()
}

/// Address of a `sockaddr_in` or `sockaddr_in6`.
fn address_at(raw: &[u8]) -> Option<IpAddr> {
    let family = raw.get(..2)?.try_into().ok().map(u16::from_ne_bytes)?;
    match i32::from(family) {
        libc::AF_INET => {
            let octets: [u8; 4] = raw.get(4..8)?.try_into().ok()?;
            Some(IpAddr::from(octets))
        }
        libc::AF_INET6 => {
            let octets: [u8; 16] = raw.get(8..24)?.try_into().ok()?;
            Some(IpAddr::from(octets))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::mem::offset_of;
    use std::net::{TcpListener, TcpStream, UdpSocket};

    #[test]
    fn fields_missing_in_older_kernel_are_none() {
        let mut raw = [0; INFO_BYTES + 40];
        for (offset, value) in [
            (offset_of!(libc::tcp_info, tcpi_rtt), 250u32),
            (offset_of!(libc::tcp_info, tcpi_total_retrans), 7),
            (offset_of!(libc::tcp_info, tcpi_min_rtt), 9),
        ] {
            raw[offset..offset + 4].copy_from_slice(&value.to_ne_bytes());
        }
        let expected = TcpInfo {
            retransmits: 7,
            srtt_us: 250,
            ssthresh_packets: Some(0),
            ..TcpInfo::default()
        };
        assert_eq!(TcpInfo::decode(&raw[..104]), expected);
        assert_eq!(TcpInfo::decode(&raw).min_rtt_us, Some(9));
    }

    #[test]
    fn no_rtt_sample_is_none() {
        assert_eq!(TcpInfo::decode(&[0xff; 256]).min_rtt_us, None);
        assert_eq!(TcpInfo::decode(&[]).min_rtt_us, None);
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
    fn subflow_spacing_follows_kernel_struct_size() {
        let mut raw = vec![0u8; SUBFLOW_HEADER_BYTES + 24];
        raw[4..8].copy_from_slice(&2u32.to_ne_bytes());
        raw[8..12].copy_from_slice(&8u32.to_ne_bytes());
        raw[SUBFLOW_HEADER_BYTES + 8] = 7;
        let found = split_subflows(&raw, 12);
        assert_eq!(found.len(), 2);
        assert_eq!(found[1], [7, 0, 0, 0, 0, 0, 0, 0]);
        assert!(split_subflows(&raw[..3], 12).is_empty());
    }

    #[test]
    fn inflight_excludes_acknowledged_and_lost_packets() {
        let mut info = info_of(&[]);
        info.tcpi_options = OPTION_ECN;
        (info.tcpi_unacked, info.tcpi_sacked) = (10, 3);
        (info.tcpi_lost, info.tcpi_retrans) = (2, 1);
        (info.tcpi_snd_cwnd, info.tcpi_snd_ssthresh) = (20, INFINITE_SSTHRESH);
        let info = TcpInfo::from(&info);
        assert_eq!((info.cwnd_packets, info.ssthresh_packets), (20, None));
        assert_eq!((info.inflight_packets, info.lost_packets), (6, 2));
        assert!(info.ecn && info.pacing_rate_bytes_per_s.is_none());
    }

    #[test]
    fn other_sockets_are_an_error() {
        assert!(TcpInfo::read(UdpSocket::bind("127.0.0.1:0").unwrap()).is_err());
    }
}
