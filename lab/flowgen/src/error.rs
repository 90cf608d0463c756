//! Errors, each with its object and its remedy.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// Result with flowgen's own [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

/// A failure of one connection, or of setting up a whole run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The connection was refused, unreachable, or could not get a local port.
    #[error("cannot connect to {to}: {source}")]
    Connect {
        /// Requested peer.
        to: SocketAddr,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The listener could not be opened.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// Requested address.
        address: SocketAddr,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The kernel refused a congestion control by name.
    #[error("cannot set congestion control '{name}': {source}")]
    CongestionControl {
        /// Name given by the user.
        name: String,
        /// The kernel's answer; `ENOENT` means not loaded.
        source: io::Error,
    },
    /// QUIC has no congestion control of this name.
    #[error("QUIC has no congestion control '{0}'")]
    QuicControl(String),
    /// A further path of a connection could not be opened.
    #[error("cannot open a path from {local} to {remote}: {source}")]
    Path {
        /// The client's address.
        local: IpAddr,
        /// The server's.
        remote: SocketAddr,
        /// The kernel's answer, or the peer's.
        source: io::Error,
    },
    /// The peer has QUIC without its multipath extension.
    #[error("{0} does not speak multipath QUIC")]
    NoMultipath(SocketAddr),
    /// A QUIC connection failed.
    #[error("{action}: QUIC with {peer}: {reason}")]
    Quic {
        /// The action, as a gerund.
        action: &'static str,
        /// The server.
        peer: SocketAddr,
        /// The library's reason.
        reason: String,
    },
    /// A socket call failed.
    #[error("{action}: {source}")]
    Io {
        /// The action, as a gerund.
        action: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The peer made no progress for too long.
    #[error("{action}: nothing for {} s", wait.as_secs_f64())]
    Timeout {
        /// The awaited event.
        action: &'static str,
        /// How long.
        wait: Duration,
    },
    /// The peer closed earlier than the protocol allows.
    #[error("{action}: closed by the peer")]
    Closed {
        /// The action.
        action: &'static str,
    },
    /// There was no answer to the SYN while there was time.
    #[error("not established when its time was over")]
    NotEstablished,
    /// A short connection brought another amount than expected.
    #[error("{answered_bytes} bytes answered, {expected_bytes} expected")]
    Answer {
        /// Bytes that came before the server closed.
        answered_bytes: u64,
        /// Bytes expected by the client.
        expected_bytes: u64,
    },
    /// The peer sent something else than the protocol says.
    #[error("protocol: {0}")]
    Protocol(String),
    /// The request itself cannot be met.
    #[error("{0}")]
    Usage(String),
}

impl Error {
    /// Adapter for `map_err`: names the action that failed.
    pub fn io<E: Into<io::Error>>(action: &'static str) -> impl FnOnce(E) -> Self {
        move |source| Self::Io {
            action,
            source: source.into(),
        }
    }

    /// The remedy.
    #[must_use]
    pub fn remedy(&self) -> Option<&'static str> {
        match self {
            Self::Connect { source, .. } => remedy_for_connect(source),
            Self::Listen { source, .. } => match source.kind() {
                ErrorKind::AddrInUse => Some("stop the other listener or use another port"),
                ErrorKind::AddrNotAvailable => Some("use an address of this host, or [::]"),
                ErrorKind::PermissionDenied => Some("use a port from 1024 up"),
                _ => None,
            },
            Self::CongestionControl { source, .. } => match source.kind() {
                ErrorKind::NotFound => Some(
                    "see sysctl net.ipv4.tcp_available_congestion_control, or modprobe tcp_NAME",
                ),
                ErrorKind::PermissionDenied => {
                    Some("allow it: sysctl net.ipv4.tcp_allowed_congestion_control")
                }
                _ => None,
            },
            Self::Timeout { .. } => Some("raise --wait, or see whether the path is up"),
            Self::Closed { .. } | Self::Protocol(_) => {
                Some("see that the peer is a `flowgen serve` of the same version")
            }
            Self::Answer { .. } => Some("make --size here and --short-size of the server the same"),
            Self::QuicControl(_) => Some("use cubic, reno, bbr3, lia, olia or balia"),
            Self::Path { source, .. } => match source.kind() {
                ErrorKind::AddrNotAvailable => Some("give an address of this host"),
                ErrorKind::NetworkUnreachable | ErrorKind::HostUnreachable => {
                    Some("see ip route get for that address")
                }
                _ => Some("see ip rule for its source, and --quic-paths of the server"),
            },
            Self::NoMultipath(_) => {
                Some("start its `flowgen serve --quic` with more than one of --quic-paths")
            }
            Self::Quic { .. } => Some("see that the peer is a `flowgen serve --quic`"),
            Self::Io { source, .. } if source.kind() == ErrorKind::PermissionDenied => {
                Some("run it as root")
            }
            Self::NotEstablished | Self::Io { .. } | Self::Usage(_) => None,
        }
    }

    /// The error and its remedy in one line.
    #[must_use]
    pub fn with_remedy(&self) -> String {
        match self.remedy() {
            Some(remedy) => format!("{self}; {remedy}"),
            None => self.to_string(),
        }
    }
}

fn remedy_for_connect(source: &io::Error) -> Option<&'static str> {
    if source.raw_os_error() == Some(libc::EMFILE) {
        return Some("raise the limit of open files (ulimit -n)");
    }
    match source.kind() {
        ErrorKind::ConnectionRefused => Some("start `flowgen serve` there first"),
        ErrorKind::NetworkUnreachable | ErrorKind::HostUnreachable => {
            Some("see ip route get for that address")
        }
        ErrorKind::AddrNotAvailable => {
            Some("no local port is left: widen sysctl net.ipv4.ip_local_port_range")
        }
        _ => None,
    }
}
