//! The daemon's server of metrics: at the address of `--listen`, or at a socket of the service manager's. A former
//! program hands its socket over, so an upgrade loses no scrape.
//!
//! Any user of the host may take a port. So the daemon steers without it, reports this, and tries again each second.

use std::{
    net::{SocketAddr, TcpListener},
    os::fd::{AsRawFd, OwnedFd},
    path::PathBuf,
    sync::Arc,
};

use rustix::net::sockopt::socket_acceptconn;
use tcpilot_kernel::inherited;
use tcpilot_show::{
    failure::{Failure, Kind},
    metrics::{Server, Source},
};

use crate::{args::RunArgs, metrics};

/// The server, or what it lacks.
pub(super) enum Listener {
    /// Nobody asked for metrics.
    Unwanted,
    /// The address is taken, or not this host's yet.
    Lacking {
        address: SocketAddr,
        socket: PathBuf,
        why: String,
    },
    /// It answers.
    Open(Server),
}

impl Listener {
    /// Answers at the socket `given`, or else at the address of the arguments.
    ///
    /// # Errors
    /// The given socket is none for clients of TCP.
    pub fn open(args: &RunArgs, given: Option<OwnedFd>) -> Result<Listener, Failure> {
        let Some(given) = given else {
            let Some(address) = args.listen else {
                return Ok(Listener::Unwanted);
            };
            let mut listener = Listener::Lacking {
                address,
                socket: args.socket.clone(),
                why: String::new(),
            };
            listener.retry();
            return Ok(listener);
        };
        let server = serve_at(given, metrics::source(&args.socket)).map_err(|error| {
            let message = format!("cannot answer at the service manager's socket: {error}");
            Failure::new(
                Kind::Usage,
                message,
                "its socket unit needs a single ListenStream=ADDRESS:PORT",
            )
        })?;
        log(&server);
        Ok(Listener::Open(server))
    }

    /// Tries to listen if it does not; call this once a second.
    pub fn retry(&mut self) {
        let Listener::Lacking {
            address,
            socket,
            why,
        } = self
        else {
            return;
        };
        match Server::open(*address, metrics::source(socket)) {
            Ok(server) => {
                log(&server);
                *self = Listener::Open(server);
            }
            Err(failure) if failure.message == *why => {}
            Err(failure) => {
                tracing::warn!("{failure}; will try again each second");
                *why = failure.message;
            }
        }
    }

    /// Why it does not answer, although it should.
    pub fn problem(&self) -> Option<String> {
        match self {
            Listener::Lacking { why, .. } => {
                Some(format!("{why}; tcpilot tries again each second"))
            }
            _ => None,
        }
    }

    /// Leaves new clients waiting outside, or lets them in again.
    pub fn close(&self, is_closed: bool) {
        if let Listener::Open(server) = self {
            server.close(is_closed);
        }
    }

    /// Whether it answers nobody at the moment.
    pub fn is_idle(&self) -> bool {
        match self {
            Listener::Open(server) => server.is_idle(),
            _ => true,
        }
    }

    /// The socket's descriptor.
    pub fn descriptor(&self) -> Option<i32> {
        match self {
            Listener::Open(server) => Some(server.listener().as_raw_fd()),
            _ => None,
        }
    }
}

fn log(server: &Server) {
    tracing::info!("metrics are at http://{}/metrics", server.address);
}

fn serve_at(socket: OwnedFd, source: Arc<dyn Source>) -> std::io::Result<Server> {
    if !socket_acceptconn(&socket)? {
        return Err(std::io::Error::other("it does not listen"));
    }
    Server::resume(TcpListener::from(socket), source)
}

/// The socket from the service manager, sd_listen_fds(3). Call this once, before anything else is opened.
///
/// # Errors
/// There are several.
pub(super) fn from_manager() -> Result<Option<OwnedFd>, Failure> {
    let mut sockets = sd_notify::listen_fds()?;
    let first = sockets.next().map(inherited).transpose()?;
    match sockets.len() {
        0 => Ok(first),
        more => Err(Failure::new(
            Kind::Usage,
            format!("the service manager gave {} sockets", more + 1),
            "its socket unit needs a single ListenStream=ADDRESS:PORT",
        )),
    }
}

#[cfg(test)]
mod tests {
    use std::{fs::File, net::UdpSocket, os::unix::net::UnixListener, path::Path};

    use super::*;

    fn source() -> Arc<dyn Source> {
        metrics::source(Path::new("/nonexistent"))
    }

    #[test]
    fn only_a_listening_tcp_socket_serves() {
        let dir = tempfile::tempdir().unwrap();
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = tcp.local_addr().unwrap();
        assert_eq!(serve_at(tcp.into(), source()).unwrap().address, address);
        let unix = UnixListener::bind(dir.path().join("s")).unwrap();
        assert!(serve_at(unix.into(), source()).is_err());
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        assert!(serve_at(udp.into(), source()).is_err());
        let file = File::open("/dev/null").unwrap();
        assert!(serve_at(file.into(), source()).is_err());
    }
}
