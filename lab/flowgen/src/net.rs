//! Non-blocking TCP calls in the shape the modes need them, and an epoll set.

use crate::error::{Error, Result};
use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, ipproto, recv, send, sockopt,
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

/// Bytes given to the kernel in one send.
pub const BLOCK_BYTES: usize = 128 * 1024;
/// Most bytes taken from the kernel in one receive.
pub const DISCARD_BYTES: usize = 1024 * 1024;
/// The payload: one block that stays in the CPU's cache.
pub static ZEROS: [u8; BLOCK_BYTES] = [0; BLOCK_BYTES];
/// The wanted backlog; `net.core.somaxconn` bounds it.
const BACKLOG: i32 = 65_535;
/// Open files asked for, the kernel's default `fs.nr_open`.
const OPEN_FILES: u64 = 1 << 20;
const EVENTS_PER_WAIT: usize = 256;

/// Choices made on a client's socket before it connects.
#[derive(Debug, Clone, Copy, Default)]
pub struct ConnectOptions<'a> {
    /// Congestion control the application chooses for itself.
    pub cc: Option<&'a str>,
    /// Source address.
    pub bind: Option<IpAddr>,
    /// Multipath TCP (RFC 8684) instead of TCP.
    pub mptcp: bool,
    /// The kernel paces the packets, as it does under the qdisc `fq`.
    pub fq_paced: bool,
}

/// Starts connecting without waiting; the socket turns writable when done.
///
/// # Errors
/// [`Error::Connect`], or [`Error::CongestionControl`] when the kernel refuses the name.
pub fn start_connect(to: SocketAddr, options: ConnectOptions<'_>) -> Result<OwnedFd> {
    let failed = |source: Errno| Error::Connect {
        to,
        source: source.into(),
    };
    let socket = stream_socket(to, options.mptcp).map_err(failed)?;
    if let Some(name) = options.cc {
        set_congestion(&socket, name)?;
    }
    if options.fq_paced {
        pace(&socket).map_err(failed)?;
    }
    if let Some(source) = options.bind {
        rustix::net::bind(&socket, &SocketAddr::new(source, 0)).map_err(failed)?;
    }
    match rustix::net::connect(&socket, &to) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
        Err(source) => Err(failed(source)),
    }
}

/// # Errors
/// [`Error::CongestionControl`] when the kernel refuses the name.
pub fn set_congestion(socket: impl AsFd, name: &str) -> Result<()> {
    sockopt::set_tcp_congestion(socket, name).map_err(|source| Error::CongestionControl {
        name: name.to_owned(),
        source: source.into(),
    })
}

/// Any bound on a socket's pacing rate makes the kernel pace it at its congestion control's rate (socket(7)).
fn pace(socket: impl AsFd) -> rustix::io::Result<()> {
    set_option(
        socket,
        libc::SOL_SOCKET,
        libc::SO_MAX_PACING_RATE,
        u64::MAX / 2,
    )
}

/// Bounds unsent data in the socket (tcp(7), `TCP_NOTSENT_LOWAT`). If the kernel refuses, the buffer is the bound.
pub fn set_not_sent_low_water(socket: impl AsFd, bytes: u32) {
    let _ = set_option(socket, libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, bytes);
}

/// Sets an option that rustix does not know. `T` is the kernel's type for it.
///
/// # Errors
/// The kernel refuses it.
pub fn set_option<T: Copy>(
    socket: impl AsFd,
    level: i32,
    option: i32,
    value: T,
) -> rustix::io::Result<()> {
    // SAFETY: the kernel reads no more bytes than it is told of a value that outlives the call.
    let failed = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            level,
            option,
            (&raw const value).cast(),
            size_of::<T>() as libc::socklen_t,
        )
    };
    if failed == 0 {
        return Ok(());
    }
    Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::INVAL))
}

/// Connects, waiting no longer than `wait`.
///
/// # Errors
/// Those of [`start_connect`], and [`Error::Timeout`].
pub fn connect(to: SocketAddr, options: ConnectOptions<'_>, wait: Duration) -> Result<OwnedFd> {
    let socket = start_connect(to, options)?;
    if !wait_for(&socket, PollFlags::OUT, wait)? {
        return Err(Error::Timeout {
            action: "connecting",
            wait,
        });
    }
    let verdict = sockopt::socket_error(&socket).map_err(Error::io("connecting"))?;
    verdict.map_err(|source| Error::Connect {
        to,
        source: source.into(),
    })?;
    Ok(socket)
}

/// Opens a non-blocking listener. `[::]` also takes IPv4.
///
/// # Errors
/// [`Error::Listen`].
pub fn listen(address: SocketAddr, mptcp: bool) -> Result<OwnedFd> {
    let open = || -> rustix::io::Result<OwnedFd> {
        let socket = stream_socket(address, mptcp)?;
        sockopt::set_socket_reuseaddr(&socket, true)?;
        if let IpAddr::V6(ip) = address.ip() {
            sockopt::set_ipv6_v6only(&socket, !ip.is_unspecified())?;
        }
        rustix::net::bind(&socket, &address)?;
        rustix::net::listen(&socket, BACKLOG)?;
        Ok(socket)
    };
    open().map_err(|source| Error::Listen {
        address,
        source: source.into(),
    })
}

fn stream_socket(address: SocketAddr, mptcp: bool) -> rustix::io::Result<OwnedFd> {
    let family = if address.is_ipv4() {
        AddressFamily::INET
    } else {
        AddressFamily::INET6
    };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let protocol = if mptcp { ipproto::MPTCP } else { ipproto::TCP };
    rustix::net::socket_with(family, SocketType::STREAM, flags, Some(protocol))
}

/// Next connection, or `None` when the queue is empty.
///
/// # Errors
/// Those of `accept4`, `EMFILE` among them.
pub fn accept(listener: impl AsFd) -> io::Result<Option<OwnedFd>> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    match rustix::net::accept_with(listener, flags) {
        // The peer gave up while it was queued; there may be more behind it, and the
        // level-triggered listener will say so.
        Err(Errno::CONNABORTED) => Ok(None),
        other => Ok(unless_blocked(other)?),
    }
}

/// Local address of a socket.
///
/// # Errors
/// That of `getsockname`.
pub fn local_address(socket: impl AsFd) -> io::Result<SocketAddr> {
    Ok(rustix::net::getsockname(socket)?.try_into()?)
}

/// Name of the congestion control in use; empty when the kernel does not say.
#[must_use]
pub fn congestion_control(socket: impl AsFd) -> String {
    sockopt::tcp_congestion(socket).unwrap_or_default()
}

/// Receives into `buffer`: `None` when it would block, 0 at the end of the stream.
///
/// # Errors
/// That of `recv`.
pub fn receive(socket: impl AsFd, buffer: &mut [u8]) -> io::Result<Option<usize>> {
    let received = unless_blocked(recv(socket, buffer, RecvFlags::empty()))?;
    Ok(received.map(|(_, length)| length))
}

/// Receives up to `at_most` bytes without copying them out of the kernel (tcp(7), `MSG_TRUNC`).
#[derive(Debug)]
pub struct Discarder {
    /// Never written: it gives the kernel a length, and its pages are never touched.
    room: Vec<u8>,
}

impl Default for Discarder {
    fn default() -> Self {
        Self {
            room: vec![0; DISCARD_BYTES],
        }
    }
}

impl Discarder {
    /// `None` when it would block, 0 at the end of the stream.
    ///
    /// # Errors
    /// That of `recv`.
    pub fn discard(&mut self, socket: impl AsFd, at_most: u64) -> io::Result<Option<usize>> {
        let length = usize::try_from(at_most)
            .unwrap_or(usize::MAX)
            .min(self.room.len());
        let received = recv(socket, &mut self.room[..length], RecvFlags::TRUNC);
        Ok(unless_blocked(received)?.map(|(_, length)| length))
    }
}

/// Sends as much as fits now; `None` if nothing does.
///
/// # Errors
/// That of `send`; a broken pipe is an error, not a signal.
pub fn send_some(socket: impl AsFd, bytes: &[u8]) -> io::Result<Option<usize>> {
    Ok(unless_blocked(send(socket, bytes, SendFlags::NOSIGNAL))?)
}

/// Like [`send_some`] for a header and its payload in one call.
///
/// # Errors
/// That of `writev`. The caller's process must ignore `SIGPIPE`, as Rust's runtime does.
pub fn send_pair(socket: impl AsFd, head: &[u8], body: &[u8]) -> io::Result<Option<usize>> {
    match (head, body) {
        ([], only) | (only, []) => return send_some(socket, only),
        _ => {}
    }
    let slices = [IoSlice::new(head), IoSlice::new(body)];
    Ok(unless_blocked(rustix::io::writev(socket, &slices))?)
}

/// Whether one of `flags`, a hang-up or an error was signalled within `wait`.
///
/// # Errors
/// [`Error::Io`] when polling itself fails.
pub fn wait_for(socket: impl AsFd, flags: PollFlags, wait: Duration) -> Result<bool> {
    let deadline = Instant::now() + wait;
    loop {
        let left = timespec(deadline.saturating_duration_since(Instant::now()));
        match poll(&mut [PollFd::new(&socket, flags)], Some(&left)) {
            Ok(ready) => return Ok(ready > 0),
            Err(Errno::INTR) => {}
            Err(source) => return Err(Error::io("polling")(source)),
        }
    }
}

/// Raises the limit of open files as far as the kernel lets this process.
pub fn raise_open_files() {
    let now = getrlimit(Resource::Nofile);
    let wanted = Rlimit {
        current: Some(OPEN_FILES),
        maximum: Some(OPEN_FILES),
    };
    let enough = now.maximum.is_none_or(|maximum| maximum >= OPEN_FILES);
    if enough || setrlimit(Resource::Nofile, wanted).is_err() {
        // Without privilege the hard limit is the most; a caller that needs more gets EMFILE, named.
        let _ = setrlimit(
            Resource::Nofile,
            Rlimit {
                current: now.maximum,
                ..now
            },
        );
    }
}

fn unless_blocked<T>(result: rustix::io::Result<T>) -> rustix::io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(Errno::AGAIN | Errno::INTR) => Ok(None),
        Err(error) => Err(error),
    }
}

fn timespec(duration: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(duration.subsec_nanos()),
    }
}

/// Events that a registration waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interest {
    /// Level-triggered: there is something to read.
    Read,
    /// Level-triggered: there is room to write.
    Write,
    /// Edge-triggered, both, and the peer's end of stream: one registration for a whole life.
    Edges,
}

impl Interest {
    fn flags(self) -> epoll::EventFlags {
        use epoll::EventFlags as Flags;
        match self {
            Self::Read => Flags::IN,
            Self::Write => Flags::OUT,
            Self::Edges => Flags::IN | Flags::OUT | Flags::RDHUP | Flags::ET,
        }
    }
}

/// One ready registration.
#[derive(Debug, Clone, Copy)]
pub struct Ready {
    /// Token given at registration.
    pub token: usize,
    /// The peer has sent its FIN (only with [`Interest::Edges`]).
    pub peer_finished: bool,
}

/// An epoll set.
#[derive(Debug)]
pub struct Poller {
    epoll: OwnedFd,
    ready: Vec<Ready>,
}

impl Poller {
    /// Opens an empty set.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn new() -> Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(Error::io("epoll"))?;
        Ok(Self {
            epoll,
            ready: Vec::with_capacity(EVENTS_PER_WAIT),
        })
    }

    /// Registers a descriptor; closing it takes it out.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn add(&self, fd: impl AsFd, token: usize, interest: Interest) -> Result<()> {
        let data = epoll::EventData::new_u64(token as u64);
        epoll::add(&self.epoll, fd, data, interest.flags()).map_err(Error::io("epoll"))
    }

    /// Changes the events that a registered descriptor waits for.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn modify(&self, fd: impl AsFd, token: usize, interest: Interest) -> Result<()> {
        let data = epoll::EventData::new_u64(token as u64);
        epoll::modify(&self.epoll, fd, data, interest.flags()).map_err(Error::io("epoll"))
    }

    /// Takes a descriptor out without closing it.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn remove(&self, fd: impl AsFd) -> Result<()> {
        epoll::delete(&self.epoll, fd).map_err(Error::io("epoll"))
    }

    /// Waits for events, without limit for `None`. An interruption is an empty answer.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn wait(&mut self, timeout: Option<Duration>) -> Result<&[Ready]> {
        self.ready.clear();
        let timeout = timeout.map(timespec);
        let mut room = [const { MaybeUninit::<epoll::Event>::uninit() }; EVENTS_PER_WAIT];
        let events = match epoll::wait(&self.epoll, &mut room, timeout.as_ref()) {
            Ok((events, _)) => events,
            Err(Errno::INTR) => return Ok(&self.ready),
            Err(source) => return Err(Error::io("epoll")(source)),
        };
        self.ready.extend(events.iter().map(|event| {
            let flags = event.flags;
            Ready {
                token: usize::try_from(event.data.u64()).unwrap_or(usize::MAX),
                peer_finished: flags.contains(epoll::EventFlags::RDHUP),
            }
        }));
        Ok(&self.ready)
    }
}
