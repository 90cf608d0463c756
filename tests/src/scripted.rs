//! A peer of our own making: it acknowledges, loses and marks the kernel's segments exactly as a test says.
//!
//! The kernel's end is an ordinary socket. At the other end of its link no TCP answers, only the test: it sees each frame
//! and sends its own (packet(7)). So the rules of an RFC can be tried one by one, as scripts do with packetdrill.

use std::{
    io::{self, Write},
    net::{Ipv4Addr, TcpStream},
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
    time::{Duration, Instant},
};

use crate::{Netns, Tap, process::in_netns, process::sh};

/// Bytes of each segment's data.
pub const MSS: u32 = 1000;
const NEAR: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
const FAR: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);
const PORT: u16 = 5300;
const NEAR_MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
const FAR_MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];
const ETHERNET: usize = 14;
/// Without options.
const IP: usize = 20;
const FIRST_SEQ: u32 = 7000;
/// The longest wait for a segment, or for the effect of one.
const PATIENCE: Duration = Duration::from_secs(5);

/// Flags of TCP (RFC 9293, section 3.1).
const SYN: u8 = 2;
const ACK: u8 = 16;
/// The receiver saw a mark (RFC 3168).
pub const ECE: u8 = 64;
/// The sender has reduced its window.
pub const CWR: u8 = 128;

/// What an acknowledgement holds besides the number of packets.
#[derive(Clone, Copy, Debug, Default)]
pub struct With<'a> {
    /// Packets that came behind a gap, as ranges without their end, or the packet that came twice (RFC 2018, RFC 2883).
    pub sack: &'a [(u32, u32)],
    /// Further flags.
    pub flags: u8,
}

/// A segment of the kernel's socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Its number, from 0 on.
    pub packet: u32,
    /// It says that the window was reduced.
    pub has_cwr: bool,
}

/// The sender's state (`tcp_info` of linux/tcp.h), in packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    /// The congestion window.
    pub cwnd: u32,
    /// The slow start threshold.
    pub ssthresh: u32,
    /// Sent and not acknowledged.
    pub unacked: u32,
    /// Of these, acknowledged selectively.
    pub sacked: u32,
    /// Acknowledged since the beginning.
    pub acked: u32,
    /// 0: open, 1: disorder, 2: reduction by a mark, 3: recovery, 4: after a time-out.
    pub phase: u8,
}

/// Two ends of a link; the test plays the far one.
#[derive(Debug)]
pub struct Scripted {
    near: Netns,
    tap: Tap,
    _far: Netns,
}

/// A connection of a socket of the kernel's to the scripted peer.
#[derive(Debug)]
pub struct Connection<'a> {
    tap: &'a Tap,
    stream: TcpStream,
    port: u16,
    /// The sequence number of its first byte.
    first: u32,
}

impl Scripted {
    /// A link without delay. The kernel's end has neither tail loss probes nor detection of spurious time-outs, which send
    /// segments by clocks of their own. Its time-outs come late, so that a busy host causes none.
    ///
    /// # Panics
    /// When it cannot be made.
    pub fn new() -> Self {
        let (near, far) = (Netns::new(), Netns::new());
        let mac = |mac: [u8; 6]| mac.map(|byte| format!("{byte:02x}")).join(":");
        sh(&format!(
            "ip link add eth0 netns {} address {} type veth peer name eth0 netns {} address {}",
            near.name(),
            mac(NEAR_MAC),
            far.name(),
            mac(FAR_MAC)
        ));
        for (name, value) in [
            ("tcp_early_retrans", "0"),
            ("tcp_frto", "0"),
            ("tcp_ecn", "1"),
        ] {
            near.sysctl(&format!("net/ipv4/{name}"), value);
        }
        near.set_checksum_offload("eth0", false); // so there are no super-packets
        near.ip(&format!("addr add {NEAR}/24 dev eth0"));
        near.ip("link set eth0 up");
        far.ip("link set eth0 up");
        near.ip(&format!("neigh add {FAR} lladdr {} dev eth0", mac(FAR_MAC)));
        let tap = Tap::new(&far, "eth0");
        let peer = Self {
            near,
            tap,
            _far: far,
        };
        peer.set_least_time_out("3s");
        peer
    }

    /// Sets the least time-out of connections from now on.
    pub fn set_least_time_out(&self, time: &str) {
        let route = format!("route replace 10.77.0.0/24 dev eth0 rto_min {time}");
        self.near.ip(&route);
    }

    /// Connects a socket with this congestion control, and answers its SYN; with ECN if both ends want it.
    ///
    /// # Panics
    /// When no SYN comes, or the kernel refuses the algorithm.
    pub fn connect(&self, algorithm: &str, has_ecn: bool) -> Connection<'_> {
        self.tap.drain();
        let fd = in_netns(&self.near, || begin_to_connect(algorithm));
        let syn = until_segment(&self.tap, |segment| segment.flags & SYN != 0);
        let answer = Sent {
            from: PORT,
            to: syn.from,
            seq: FIRST_SEQ,
            ack: syn.seq + 1,
            flags: SYN | ACK | if has_ecn { ECE } else { 0 },
            // Size of segments, selective acknowledgements, windows in units of 128 bytes.
            options: vec![2, 4, (MSS >> 8) as u8, MSS as u8, 4, 2, 1, 3, 3, 7, 1, 1],
        };
        self.tap.send(&answer.frame());
        until_segment(&self.tap, |segment| segment.flags == ACK);
        let stream = TcpStream::from(fd);
        stream.set_nonblocking(false).unwrap();
        Connection {
            tap: &self.tap,
            stream,
            port: syn.from,
            first: syn.seq + 1,
        }
    }
}

impl Default for Scripted {
    fn default() -> Self {
        Self::new()
    }
}

impl Connection<'_> {
    /// The application writes so many packets.
    ///
    /// # Panics
    /// When the socket takes no more.
    pub fn write(&mut self, packets: u32) {
        let bytes = vec![0; (packets * MSS) as usize];
        self.stream.write_all(&bytes).unwrap();
    }

    /// The next segment of data.
    ///
    /// # Panics
    /// When none comes.
    pub fn next(&self) -> Segment {
        let found = until_segment(self.tap, |segment| {
            segment.from == self.port && segment.bytes > 0
        });
        Segment {
            packet: found.seq.wrapping_sub(self.first) / MSS,
            has_cwr: found.flags & CWR != 0,
        }
    }

    /// The numbers of the next segments of data.
    ///
    /// # Panics
    /// As [`Connection::next`].
    pub fn packets(&self, count: u32) -> Vec<u32> {
        (0..count).map(|_| self.next().packet).collect()
    }

    /// Acknowledges all packets before this one.
    pub fn acknowledge(&self, before: u32, with: With<'_>) {
        let place = |packet: u32| self.first.wrapping_add(packet * MSS);
        let mut options = vec![];
        if !with.sack.is_empty() {
            options.extend([1, 1, 5, 2 + 8 * with.sack.len() as u8]);
            for (from, to) in with.sack {
                options.extend(place(*from).to_be_bytes());
                options.extend(place(*to).to_be_bytes());
            }
        }
        let answer = Sent {
            from: PORT,
            to: self.port,
            seq: FIRST_SEQ + 1,
            ack: place(before),
            flags: ACK | with.flags,
            options,
        };
        self.tap.send(&answer.frame());
    }

    /// The sender's state.
    ///
    /// # Panics
    /// When the kernel does not give it.
    pub fn state(&self) -> State {
        let mut bytes = [0u8; 128];
        let mut length = bytes.len() as u32;
        // SAFETY: the kernel writes at most `length` bytes.
        let got = unsafe {
            libc::getsockopt(
                self.stream.as_raw_fd(),
                libc::IPPROTO_TCP,
                libc::TCP_INFO,
                bytes.as_mut_ptr().cast(),
                &raw mut length,
            )
        };
        assert_eq!(got, 0, "{}", io::Error::last_os_error());
        let number = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap());
        State {
            cwnd: number(80),
            ssthresh: number(76),
            unacked: number(24),
            sacked: number(28),
            // Bytes, the SYN counted as one; it has 64 bits, and a test sends little.
            acked: number(120) / MSS,
            phase: bytes[1],
        }
    }

    /// Waits until the state is as asked for: a frame's effect may come a little later.
    ///
    /// # Errors
    /// The last state, with `what`.
    pub fn until(&self, what: &str, is_so: impl Fn(&State) -> bool) -> Result<State, String> {
        let start = Instant::now();
        loop {
            let state = self.state();
            if is_so(&state) {
                return Ok(state);
            }
            if start.elapsed() > PATIENCE {
                return Err(format!("not {what}: {state:?}"));
            }
            std::thread::sleep(Duration::from_micros(200));
        }
    }
}

/// In the caller's namespace.
fn begin_to_connect(algorithm: &str) -> OwnedFd {
    let check = |result: i32| assert!(result >= 0, "{algorithm}: {}", io::Error::last_os_error());
    let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    let room: i32 = 1 << 22;
    let address = libc::sockaddr_in {
        sin_family: libc::AF_INET as u16,
        sin_port: PORT.to_be(),
        sin_addr: libc::in_addr {
            s_addr: u32::from_ne_bytes(FAR.octets()),
        },
        sin_zero: [0; 8],
    };
    // SAFETY: plain system calls; each pointer is readable for the length beside it.
    unsafe {
        let fd = libc::socket(libc::AF_INET, kind, 0);
        check(fd);
        let fd = OwnedFd::from_raw_fd(fd);
        let raw = fd.as_raw_fd();
        check(libc::setsockopt(
            raw,
            libc::IPPROTO_TCP,
            libc::TCP_CONGESTION,
            algorithm.as_ptr().cast(),
            algorithm.len() as u32,
        ));
        check(libc::setsockopt(
            raw,
            libc::SOL_SOCKET,
            libc::SO_SNDBUFFORCE,
            (&raw const room).cast(),
            size_of_val(&room) as u32,
        ));
        let begun = libc::connect(
            raw,
            (&raw const address).cast(),
            size_of_val(&address) as u32,
        );
        let error = io::Error::last_os_error().raw_os_error();
        assert!(begun == 0 || error == Some(libc::EINPROGRESS), "{error:?}");
        fd
    }
}

/// A segment as it was seen.
struct Seen {
    from: u16,
    seq: u32,
    flags: u8,
    bytes: usize,
}

fn until_segment(tap: &Tap, is_wanted: impl Fn(&Seen) -> bool) -> Seen {
    let start = Instant::now();
    loop {
        let frame = tap.next_within(PATIENCE.saturating_sub(start.elapsed()));
        let frame = frame.expect("no such segment came");
        if let Some(seen) = seen(&frame).filter(&is_wanted) {
            return seen;
        }
    }
}

/// `None` if it is not TCP over IPv4.
fn seen(frame: &[u8]) -> Option<Seen> {
    let is_tcp = frame.get(12..14)? == [8, 0] && *frame.get(ETHERNET + 9)? == 6;
    let tcp = frame.get(ETHERNET + IP..).filter(|_| is_tcp)?;
    let total = usize::from(u16::from_be_bytes(frame[16..18].try_into().ok()?));
    let header = usize::from(tcp.get(12)? >> 4) * 4;
    Some(Seen {
        from: u16::from_be_bytes(tcp[..2].try_into().ok()?),
        seq: u32::from_be_bytes(tcp[4..8].try_into().ok()?),
        flags: tcp[13],
        bytes: total.checked_sub(IP + header)?,
    })
}

/// A segment of the scripted peer. Options fill whole words.
struct Sent {
    from: u16,
    to: u16,
    seq: u32,
    ack: u32,
    flags: u8,
    options: Vec<u8>,
}

impl Sent {
    fn frame(&self) -> Vec<u8> {
        let mut tcp = vec![];
        tcp.extend(self.from.to_be_bytes());
        tcp.extend(self.to.to_be_bytes());
        tcp.extend(self.seq.to_be_bytes());
        tcp.extend(self.ack.to_be_bytes());
        tcp.extend([((20 + self.options.len()) << 2) as u8, self.flags]);
        tcp.extend([0xff, 0xff, 0, 0, 0, 0]); // its window, no checksum yet
        tcp.extend(&self.options);
        let mut pseudo = vec![];
        pseudo.extend(FAR.octets());
        pseudo.extend(NEAR.octets());
        pseudo.extend([0, 6]);
        pseudo.extend((tcp.len() as u16).to_be_bytes());
        pseudo.extend(&tcp);
        tcp[16..18].copy_from_slice(&checksum(&pseudo).to_be_bytes());
        let mut ip = vec![0x45, 0];
        ip.extend(((IP + tcp.len()) as u16).to_be_bytes());
        ip.extend([0, 0, 0x40, 0, 64, 6, 0, 0]);
        ip.extend(FAR.octets());
        ip.extend(NEAR.octets());
        let sum = checksum(&ip);
        ip[10..12].copy_from_slice(&sum.to_be_bytes());
        [&NEAR_MAC[..], &FAR_MAC, &[8, 0], &ip, &tcp].concat()
    }
}

/// RFC 1071.
fn checksum(bytes: &[u8]) -> u16 {
    let mut sum: u32 = bytes
        .chunks(2)
        .map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0)))
        .sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}
