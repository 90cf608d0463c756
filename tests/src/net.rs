//! Two network namespaces joined by a shaped link, and a sink for bytes.

use std::{
    fs::{self, File},
    io::{self, Read, Write},
    net::{TcpListener, TcpStream},
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use crate::{
    process::{in_netns, sh},
    unique, until,
};

/// A named network namespace with the default congestion control reno: the only default allowed by every
/// kernel outside of its first namespace.
#[derive(Debug)]
pub struct Netns {
    name: String,
}

impl Netns {
    /// A new namespace, with its loopback interface up.
    pub fn new() -> Self {
        let netns = Self { name: unique() };
        sh(&format!("ip netns add {}", netns.name));
        netns.ip("link set lo up");
        netns.sysctl("net/ipv4/tcp_congestion_control", "reno");
        netns.sysctl("net/ipv4/tcp_no_metrics_save", "1");
        netns
    }

    /// Its name, for `ip netns` and the configuration.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs `ip` in it.
    pub fn ip(&self, arguments: &str) {
        sh(&format!("ip -n {} {arguments}", self.name));
    }

    /// The same for several lines in one process: in an emulated machine each costs much time.
    fn ip_batch(&self, lines: &str) {
        let mut command = Command::new("ip");
        command.args(["-n", &self.name, "-batch", "-"]);
        let mut ip = command.stdin(Stdio::piped()).spawn().unwrap();
        ip.stdin
            .take()
            .unwrap()
            .write_all(lines.as_bytes())
            .unwrap();
        assert!(ip.wait().unwrap().success(), "{lines}");
    }

    /// Sets a sysctl in it; the name with slashes.
    ///
    /// # Panics
    /// When the kernel refuses.
    pub fn sysctl(&self, name: &str, value: &str) {
        let path = format!("/proc/sys/{name}");
        in_netns(self, || fs::write(&path, value))
            .unwrap_or_else(|e| panic!("{path}={value}: {e}"));
    }

    /// Sets whether a device leaves the checksums of its packets to its peer; this needs no ethtool(8).
    ///
    /// # Panics
    /// When the kernel refuses.
    pub fn set_checksum_offload(&self, device: &str, on: bool) {
        const SET_TX_CHECKSUM: u32 = 0x17; // ETHTOOL_STXCSUM
        in_netns(self, || {
            let mut value = [SET_TX_CHECKSUM, u32::from(on)];
            // SAFETY: zeros are a valid ifreq.
            let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
            for (to, from) in request.ifr_name.iter_mut().zip(device.bytes()) {
                *to = from as libc::c_char;
            }
            request.ifr_ifru.ifru_data = value.as_mut_ptr().cast();
            // SAFETY: plain system calls; the request and the value it points to outlive them.
            let result = unsafe {
                let socket = libc::socket(libc::AF_INET, libc::SOCK_DGRAM, 0);
                let socket = OwnedFd::from_raw_fd(socket);
                libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL, &raw mut request)
            };
            assert_eq!(result, 0, "{}", io::Error::last_os_error());
        });
    }

    /// Sends packets unchanged, including their IPv4 headers.
    ///
    /// # Panics
    /// When the kernel refuses one.
    pub fn send_raw(&self, to: [u8; 4], packets: impl Iterator<Item = Vec<u8>> + Send) {
        in_netns(self, move || {
            // SAFETY: a plain system call; the descriptor is owned from here on.
            let socket = unsafe {
                let fd = libc::socket(libc::AF_INET, libc::SOCK_RAW, libc::IPPROTO_RAW);
                assert!(fd >= 0, "{}", io::Error::last_os_error());
                OwnedFd::from_raw_fd(fd)
            };
            let address = libc::sockaddr_in {
                sin_family: libc::AF_INET as u16,
                sin_port: 0,
                sin_addr: libc::in_addr {
                    s_addr: u32::from_ne_bytes(to),
                },
                sin_zero: [0; 8],
            };
            for packet in packets {
                // SAFETY: both buffers are readable for the lengths given.
                let sent = unsafe {
                    libc::sendto(
                        socket.as_raw_fd(),
                        packet.as_ptr().cast(),
                        packet.len(),
                        0,
                        std::ptr::from_ref(&address).cast(),
                        size_of_val(&address) as u32,
                    )
                };
                let error = io::Error::last_os_error();
                // A full queue drops, and says so.
                let dropped = error.raw_os_error() == Some(libc::ENOBUFS);
                assert!(sent >= 0 || dropped, "{error}");
            }
        });
    }

    pub(crate) fn open(&self) -> File {
        File::open(format!("/run/netns/{}", self.name)).unwrap()
    }
}

impl Default for Netns {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Netns {
    fn drop(&mut self) {
        // Not sh(): a panic while panicking would abort and leave the rest behind.
        let _ = Command::new("ip")
            .args(["netns", "del", &self.name])
            .status();
    }
}

/// The link's treatment of packets, in the words of tc.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Fast enough for quick tests, slow enough to be the limit instead of the application.
    Usual,
    /// Another root qdisc towards the far end.
    Of(&'static str),
}

// An emulated machine cannot fill much more.
const USUAL: &str = "tbf rate 20mbit burst 16kb latency 100ms";

/// The two ends. Near is 10.77.0.1 and fd77::1. Far is 10.77.0.2 and fd77::2, and also answers for
/// 10.64.0.0/14, 8.0.0.0/7 and fd64::/16; near has routes to these through it.
#[derive(Debug)]
pub struct Pair {
    /// The end that usually connects.
    pub near: Netns,
    /// The end that usually listens.
    pub far: Netns,
}

impl Pair {
    /// Two namespaces and their link.
    pub fn new() -> Self {
        let (near, far) = (Netns::new(), Netns::new());
        sh(&format!(
            "ip link add eth0 netns {} type veth peer name eth0 netns {}",
            near.name, far.name
        ));
        near.ip_batch(&(ends(1) + &routes(|prefix, gateway| format!("{prefix} via {gateway}"))));
        far.ip_batch(&(ends(2) + &routes(|prefix, _| format!("local {prefix} dev lo"))));
        for netns in [&near, &far] {
            sh(&format!(
                "tc -n {} qdisc add dev eth0 root {USUAL}",
                netns.name
            ));
        }
        Self { near, far }
    }

    /// Replaces the shape of the near end's link.
    pub fn shape(&self, shape: Shape) {
        let qdisc = match shape {
            Shape::Usual => USUAL,
            Shape::Of(words) => words,
        };
        sh(&format!(
            "tc -n {} qdisc replace dev eth0 root {qdisc}",
            self.near.name
        ));
    }
}

fn ends(host: u8) -> String {
    format!(
        "addr add 10.77.0.{host}/24 dev eth0\n\
         addr add fd77::{host}/64 dev eth0 nodad\n\
         link set eth0 up\n"
    )
}

/// A line for each prefix that the far end answers for.
fn routes(route: impl Fn(&str, &str) -> String) -> String {
    [
        ("10.64.0.0/14", "10.77.0.2"),
        ("8.0.0.0/7", "10.77.0.2"),
        ("fd64::/16", "fd77::2"),
    ]
    .map(|(prefix, gateway)| format!("route add {}\n", route(prefix, gateway)))
    .concat()
}

impl Default for Pair {
    fn default() -> Self {
        Self::new()
    }
}

/// Accepts connections and reads them to their end.
#[derive(Debug)]
pub struct Sink {
    bytes: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Sink {
    /// Listens in a namespace, on all addresses.
    ///
    /// # Panics
    /// When the port is taken.
    pub fn new(netns: &Netns, port: u16) -> Self {
        let listener = in_netns(netns, || TcpListener::bind(("::", port))).unwrap();
        listener.set_nonblocking(true).unwrap();
        let (bytes, stop) = (
            Arc::new(AtomicU64::new(0)),
            Arc::new(AtomicBool::new(false)),
        );
        let (count, end) = (Arc::clone(&bytes), Arc::clone(&stop));
        let thread = thread::spawn(move || {
            while !end.load(Ordering::Relaxed) {
                match listener.accept() {
                    Ok((stream, _)) => {
                        let (count, end) = (Arc::clone(&count), Arc::clone(&end));
                        thread::spawn(move || drain(&stream, &count, &end));
                    }
                    Err(_) => thread::sleep(Duration::from_millis(5)),
                }
            }
        });
        Self {
            bytes,
            stop,
            thread: Some(thread),
        }
    }

    /// Bytes read so far, over all connections.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Waits until so many bytes were read.
    pub fn wait_for(&self, bytes: u64) {
        until("the sink got its bytes", || {
            (self.bytes() >= bytes).then_some(())
        });
    }
}

fn drain(mut stream: &TcpStream, count: &AtomicU64, stop: &AtomicBool) {
    let mut buffer = vec![0; 1 << 16];
    stream.set_nonblocking(false).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_millis(100)))
        .unwrap();
    while !stop.load(Ordering::Relaxed) {
        match stream.read(&mut buffer) {
            Ok(0) => return,
            Ok(n) => {
                count.fetch_add(n as u64, Ordering::Relaxed);
            }
            Err(e)
                if matches!(
                    e.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
                ) => {}
            Err(_) => return,
        }
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}
