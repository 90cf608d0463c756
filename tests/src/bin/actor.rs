//! A process with one TCP connection, used as standard input says, a line at a time: an application whose
//! steps the test chooses. It answers each line by `ok …` or `error …`.
//!
//! `connect ADDR [CC]` · `listen ADDR [CC]` · `accept` · `send BYTES` · `buffer BYTES` · `cc [NAME]` ·
//! `reset` · `close` · `disconnect` · `reconnect ADDR` · `flock PATH`
//!
//! `ecn` answers the ECN codepoint of an IPv4 connection's packets, as a number.
//!
//! `info` waits until all data is acknowledged, and answers the kernel's figures of the connection then
//! (`tcp_info`): see [`INFO`].
//!
//! After `mptcp` its sockets speak MPTCP, and after `option NAME` they have that option from the start: see
//! [`option`]. After `device NAME` they are bound to that device.
//!
//! `hold ADDR` opens a further connection, `feed BYTES` sends on each of these, `release` closes them all.
//!
//! It may act as another user, too: `become UID` gives up its privileges, `squat NAME FOLDER` takes the
//! abstract socket name and the lock of every file there as soon as it can, and `held` lists those that it
//! has.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{self, BufRead, Write},
    mem::size_of,
    net::SocketAddr,
    os::{
        fd::{AsRawFd, FromRawFd, OwnedFd},
        linux::net::SocketAddrExt,
        unix::net::{SocketAddr as UnixAddr, UnixDatagram},
    },
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

fn check(result: i32) -> io::Result<i32> {
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(result)
}

fn set<T>(fd: &OwnedFd, level: i32, name: i32, value: &T, len: usize) -> io::Result<()> {
    // SAFETY: value is readable for len bytes: no caller makes len larger than it is.
    let result = unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            level,
            name,
            std::ptr::from_ref(value).cast(),
            len as u32,
        )
    };
    check(result).map(drop)
}

/// A name as the kernel has those of algorithms and devices.
fn padded(name: &str) -> [u8; 16] {
    let mut bytes = [0u8; 16];
    bytes[..name.len()].copy_from_slice(name.as_bytes());
    bytes
}

fn set_cc(fd: &OwnedFd, name: &str) -> io::Result<()> {
    let bytes = padded(name);
    set(
        fd,
        libc::IPPROTO_TCP,
        libc::TCP_CONGESTION,
        &bytes,
        name.len(),
    )
}

fn get_cc(fd: &OwnedFd) -> io::Result<String> {
    let mut bytes = [0u8; 16];
    let mut len = bytes.len() as u32;
    // SAFETY: bytes and len are valid for writes, and len is the size of bytes.
    check(unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_CONGESTION,
            bytes.as_mut_ptr().cast(),
            &raw mut len,
        )
    })?;
    let name = bytes.split(|b| *b == 0).next().unwrap_or_default();
    Ok(String::from_utf8_lossy(name).into_owned())
}

/// The answer of `info`, in this order: the offset of each figure in struct tcp_info of linux/tcp.h, and its
/// length in bytes. The figures are bytes acknowledged, segments with data, those sent again, RTT, least RTT,
/// slow-start threshold, then in microseconds: busy, limited by the peer's window, limited by the send buffer; and at last the
/// pacing rate in bytes per second.
const INFO: [(usize, usize); 10] = [
    (120, 8),
    (156, 4),
    (100, 4),
    (68, 4),
    (148, 4),
    (76, 4),
    (168, 8),
    (176, 8),
    (184, 8),
    (104, 8),
];
const UNACKED: (usize, usize) = (24, 4);
const NOT_SENT: (usize, usize) = (144, 4);

fn info(fd: &OwnedFd) -> io::Result<String> {
    let mut bytes = [0u8; 256];
    let number = |bytes: &[u8], (at, len): (usize, usize)| {
        let mut word = [0; 8];
        word[..len].copy_from_slice(&bytes[at..at + len]);
        u64::from_le_bytes(word)
    };
    loop {
        let mut len = bytes.len() as u32;
        // SAFETY: bytes and len are valid for writes, and len is the size of bytes.
        check(unsafe {
            libc::getsockopt(
                fd.as_raw_fd(),
                libc::IPPROTO_TCP,
                libc::TCP_INFO,
                bytes.as_mut_ptr().cast(),
                &raw mut len,
            )
        })?;
        if number(&bytes, UNACKED) + number(&bytes, NOT_SENT) == 0 {
            let words = INFO.map(|field| number(&bytes, field).to_string());
            return Ok(words.join(" "));
        }
        thread::sleep(Duration::from_millis(2));
    }
}

/// The ECN codepoint of an IPv4 connection's packets: 0 is not capable of ECN, 2 is ECT(0).
fn get_codepoint(fd: &OwnedFd) -> io::Result<String> {
    let mut tos = 0i32;
    let mut len = size_of::<i32>() as u32;
    // SAFETY: tos and len are valid for writes, and len is the size of tos.
    check(unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            libc::IPPROTO_IP,
            libc::IP_TOS,
            (&raw mut tos).cast(),
            &raw mut len,
        )
    })?;
    Ok((tos & 3).to_string())
}

/// The address in the kernel's form; an IPv4-mapped one stays IPv6.
fn raw_address(address: SocketAddr) -> (libc::sockaddr_storage, u32) {
    // SAFETY: all zeros is a valid sockaddr_storage.
    let mut storage: libc::sockaddr_storage = unsafe { std::mem::zeroed() };
    let at = &raw mut storage;
    match address {
        SocketAddr::V4(v4) => {
            let to = at.cast::<libc::sockaddr_in>();
            // SAFETY: storage has room for every kind of address.
            unsafe {
                (*to).sin_family = libc::AF_INET as u16;
                (*to).sin_port = v4.port().to_be();
                (*to).sin_addr.s_addr = u32::from_ne_bytes(v4.ip().octets());
            }
            (storage, size_of::<libc::sockaddr_in>() as u32)
        }
        SocketAddr::V6(v6) => {
            let to = at.cast::<libc::sockaddr_in6>();
            // SAFETY: as above.
            unsafe {
                (*to).sin6_family = libc::AF_INET6 as u16;
                (*to).sin6_port = v6.port().to_be();
                (*to).sin6_addr.s6_addr = v6.ip().octets();
                (*to).sin6_scope_id = v6.scope_id();
            }
            (storage, size_of::<libc::sockaddr_in6>() as u32)
        }
    }
}

/// Settings of new sockets.
#[derive(Default)]
struct Kind {
    speaks_mptcp: bool,
    options: Vec<(i32, i32, i32)>,
    device: String,
}

/// An option's level, name and a value other than the kernel's.
fn option(name: &str) -> io::Result<(i32, i32, i32)> {
    Ok(match name {
        "keepalive" => (libc::SOL_SOCKET, libc::SO_KEEPALIVE, 1),
        "nodelay" => (libc::IPPROTO_TCP, libc::TCP_NODELAY, 1),
        "rcvbuf" => (libc::SOL_SOCKET, libc::SO_RCVBUF, 1 << 16),
        "tos" => (libc::IPPROTO_IP, libc::IP_TOS, 16),
        _ => return Err(io::ErrorKind::InvalidInput.into()),
    })
}

fn socket(address: SocketAddr, cc: Option<&str>, kind: &Kind) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() {
        libc::AF_INET
    } else {
        libc::AF_INET6
    };
    // SAFETY: a plain system call; the descriptor is checked, and owned from here on.
    let fd = unsafe {
        let fd = check(libc::socket(
            family,
            libc::SOCK_STREAM | libc::SOCK_CLOEXEC,
            if kind.speaks_mptcp {
                libc::IPPROTO_MPTCP
            } else {
                0
            },
        ))?;
        OwnedFd::from_raw_fd(fd)
    };
    for (level, name, value) in &kind.options {
        set(&fd, *level, *name, value, size_of::<i32>())?;
    }
    if !kind.device.is_empty() {
        let (name, len) = (padded(&kind.device), kind.device.len());
        set(&fd, libc::SOL_SOCKET, libc::SO_BINDTODEVICE, &name, len)?;
    }
    if let Some(name) = cc {
        set_cc(&fd, name)?;
    }
    Ok(fd)
}

fn connect(address: SocketAddr, cc: Option<&str>, kind: &Kind) -> io::Result<OwnedFd> {
    let fd = socket(address, cc, kind)?;
    reconnect(&fd, address)?;
    Ok(fd)
}

fn reconnect(fd: &OwnedFd, address: SocketAddr) -> io::Result<()> {
    let (storage, len) = raw_address(address);
    // SAFETY: storage holds an address of len bytes.
    check(unsafe { libc::connect(fd.as_raw_fd(), (&raw const storage).cast(), len) }).map(drop)
}

/// Ends the connection, and keeps the socket: connect(2), "dissolve the association".
fn disconnect(fd: &OwnedFd) -> io::Result<()> {
    // SAFETY: all zeros is a valid address: AF_UNSPEC is 0.
    let nobody: libc::sockaddr_in = unsafe { std::mem::zeroed() };
    let len = size_of::<libc::sockaddr_in>() as u32;
    // SAFETY: the address is readable for len bytes.
    check(unsafe { libc::connect(fd.as_raw_fd(), (&raw const nobody).cast(), len) }).map(drop)
}

fn listen(address: SocketAddr, cc: Option<&str>, kind: &Kind) -> io::Result<OwnedFd> {
    let fd = socket(address, cc, kind)?;
    let (storage, len) = raw_address(address);
    // SAFETY: storage holds an address of len bytes.
    check(unsafe { libc::bind(fd.as_raw_fd(), (&raw const storage).cast(), len) })?;
    // SAFETY: a plain system call.
    check(unsafe { libc::listen(fd.as_raw_fd(), 16) })?;
    Ok(fd)
}

fn accept(listener: &OwnedFd) -> io::Result<OwnedFd> {
    // SAFETY: a plain system call without an address; the descriptor is owned from here on.
    unsafe {
        let (no_address, no_len) = (std::ptr::null_mut(), std::ptr::null_mut());
        let fd = check(libc::accept(listener.as_raw_fd(), no_address, no_len))?;
        Ok(OwnedFd::from_raw_fd(fd))
    }
}

fn send(fd: &OwnedFd, mut bytes: usize) -> io::Result<()> {
    let zeros = [0u8; 1 << 16];
    while bytes > 0 {
        let len = bytes.min(zeros.len());
        let flags = libc::MSG_NOSIGNAL;
        // SAFETY: zeros is readable for len bytes.
        let sent = unsafe { libc::send(fd.as_raw_fd(), zeros.as_ptr().cast(), len, flags) };
        if sent < 0 {
            return Err(io::Error::last_os_error());
        }
        bytes -= sent as usize;
    }
    Ok(())
}

/// Becomes a user without privileges, for good.
fn become_user(id: u32) -> io::Result<()> {
    // SAFETY: plain system calls about this process, still with one thread; an empty list has no
    // address to read.
    check(unsafe { libc::setgroups(0, std::ptr::null()) })?;
    // SAFETY: as above.
    check(unsafe { libc::setgid(id) })?;
    // SAFETY: as above.
    check(unsafe { libc::setuid(id) }).map(drop)
}

/// Names and locks taken, by name; each is held as long as it is in this map.
type Held = Arc<Mutex<BTreeMap<String, OwnedFd>>>;

fn take_name(name: &str) -> io::Result<OwnedFd> {
    let address = UnixAddr::from_abstract_name(name)?;
    UnixDatagram::bind_addr(&address).map(OwnedFd::from)
}

fn take_lock(path: &Path) -> io::Result<OwnedFd> {
    let file = OwnedFd::from(File::open(path)?);
    // SAFETY: a plain system call about an open file.
    check(unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) })?;
    Ok(file)
}

/// The folder, the folder above it, and its files as far as they can be listed.
fn targets(folder: &Path) -> Vec<PathBuf> {
    let files = fs::read_dir(folder).into_iter().flatten().flatten();
    let around = folder.parent().map(Path::to_path_buf);
    let folders = around.into_iter().chain([folder.to_path_buf()]);
    folders.chain(files.map(|f| f.path())).collect()
}

fn squat(name: String, folder: PathBuf, held: Held) {
    let hold = |what: &str, take: &dyn Fn() -> io::Result<OwnedFd>| {
        let mut held = held.lock().unwrap();
        if held.contains_key(what) {
            return;
        }
        if let Ok(fd) = take() {
            held.insert(what.to_owned(), fd);
        }
    };
    loop {
        hold(&name, &|| take_name(&name));
        for path in targets(&folder) {
            hold(&path.display().to_string(), &|| take_lock(&path));
        }
        thread::sleep(Duration::from_micros(200));
    }
}

fn set_buffer(fd: &OwnedFd, bytes: i32) -> io::Result<()> {
    let len = size_of::<i32>();
    set(fd, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &bytes, len)
}

/// Has the kernel send a reset when the socket is closed.
fn end_by_reset(fd: &OwnedFd) -> io::Result<()> {
    let now = libc::linger {
        l_onoff: 1,
        l_linger: 0,
    };
    let len = size_of::<libc::linger>();
    set(fd, libc::SOL_SOCKET, libc::SO_LINGER, &now, len)
}

#[derive(Default)]
struct Actor {
    kind: Kind,
    held: Held,
    further: Vec<OwnedFd>,
    listener: Option<OwnedFd>,
    connection: Option<OwnedFd>,
    locks: Vec<OwnedFd>,
}

impl Actor {
    fn connection(&self) -> io::Result<&OwnedFd> {
        self.connection
            .as_ref()
            .ok_or(io::ErrorKind::NotConnected.into())
    }

    fn obey(&mut self, words: &[&str]) -> io::Result<String> {
        let done = String::new();
        match *words {
            ["connect", to, ..] => {
                let cc = words.get(2).copied();
                self.connection = Some(connect(to.parse().unwrap(), cc, &self.kind)?);
            }
            ["listen", at, ..] => {
                let cc = words.get(2).copied();
                self.listener = Some(listen(at.parse().unwrap(), cc, &self.kind)?);
            }
            ["accept"] => self.connection = Some(accept(self.listener.as_ref().unwrap())?),
            ["send", bytes] => send(self.connection()?, bytes.parse().unwrap())?,
            ["buffer", bytes] => set_buffer(self.connection()?, bytes.parse().unwrap())?,
            ["info"] => return info(self.connection()?),
            ["ecn"] => return get_codepoint(self.connection()?),
            ["cc"] => return get_cc(self.connection()?),
            ["cc", name] => set_cc(self.connection()?, name)?,
            ["reset"] => {
                end_by_reset(self.connection()?)?;
                self.connection = None;
            }
            ["close"] => self.connection = None,
            ["disconnect"] => disconnect(self.connection()?)?,
            ["reconnect", to] => reconnect(self.connection()?, to.parse().unwrap())?,
            ["flock", path] => {
                self.locks.push(take_lock(Path::new(path))?);
            }
            ["mptcp"] => self.kind.speaks_mptcp = true,
            ["device", name] => self.kind.device = name.to_owned(),
            ["option", name] => self.kind.options.push(option(name)?),
            ["hold", to] => {
                let fd = connect(to.parse().unwrap(), None, &self.kind)?;
                self.further.push(fd);
            }
            ["feed", bytes] => {
                let bytes = bytes.parse().unwrap();
                self.further.iter().try_for_each(|fd| send(fd, bytes))?;
            }
            ["release"] => self.further.clear(),
            ["become", id] => become_user(id.parse().unwrap())?,
            ["squat", name, folder] => {
                let (name, folder, held) = (name.to_owned(), folder.into(), self.held.clone());
                thread::spawn(move || squat(name, folder, held));
            }
            ["held"] => {
                let held = self.held.lock().unwrap();
                return Ok(held.keys().cloned().collect::<Vec<_>>().join(" "));
            }
            _ => return Err(io::ErrorKind::InvalidInput.into()),
        }
        Ok(done)
    }
}

fn main() {
    let mut actor = Actor::default();
    for line in io::stdin().lock().lines() {
        let line = line.unwrap();
        let words: Vec<&str> = line.split(' ').collect();
        let mut out = io::stdout().lock();
        match actor.obey(&words) {
            Ok(answer) => writeln!(out, "ok {answer}"),
            Err(error) => writeln!(out, "error {line}: {error}"),
        }
        .unwrap();
        out.flush().unwrap();
    }
}
