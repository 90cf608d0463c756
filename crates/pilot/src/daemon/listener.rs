//! The daemon's server of metrics: at the address of `--listen`, or at a socket of the service manager's. A former
//! program hands its socket over, so an upgrade loses no scrape.
//!
//! Any user of the host may take a port. So the daemon steers without it, reports this, and tries again each second.

use std::{
    net::TcpListener,
    os::fd::{AsRawFd, OwnedFd},
    sync::Arc,
};

use rustix::net::sockopt::socket_acceptconn;
use tcpilot_kernel::inherited;
use tcpilot_show::{
    failure::{Failure, Kind},
    metrics::{PatientServer, Server, Source},
};

use crate::{args::RunArgs, metrics, page};

/// The server, if somebody wants metrics.
pub(super) struct Listener(Option<PatientServer>);

impl Listener {
    /// Answers nobody.
    pub const UNWANTED: Listener = Listener(None);

    /// Answers at the socket `given`, or else at the address of the arguments.
    ///
    /// # Errors
    /// The given socket is none for clients of TCP, or a page is wanted and nothing listens.
    pub fn open(args: &RunArgs, given: Option<OwnedFd>) -> Result<Listener, Failure> {
        let source = || match args.page {
            Some(readers) => page::source(&args.socket, readers),
            None => metrics::source(&args.socket),
        };
        if given.is_none() && args.listen.is_none() && args.page.is_some() {
            return Err(Failure::new(
                Kind::Usage,
                "--page needs an address to listen on",
                "add --listen 9464",
            ));
        }
        let Some(given) = given else {
            let open = |address| PatientServer::open(address, source());
            return Ok(Listener(args.listen.map(open)));
        };
        let server = serve_at(given, source()).map_err(|error| {
            let message = format!("cannot answer at the service manager's socket: {error}");
            Failure::new(
                Kind::Usage,
                message,
                "its socket unit needs a single ListenStream=ADDRESS:PORT",
            )
        })?;
        Ok(Listener(Some(PatientServer::of(server))))
    }

    /// Tries to listen if it does not; call this once a second.
    pub fn retry(&mut self) {
        self.0.iter_mut().for_each(PatientServer::retry);
    }

    /// Why it does not answer, although it should.
    pub fn problem(&self) -> Option<String> {
        self.0.as_ref().and_then(PatientServer::problem)
    }

    fn server(&self) -> Option<&Server> {
        self.0.as_ref().and_then(PatientServer::server)
    }

    /// Leaves new clients waiting outside, or lets them in again.
    pub fn close(&self, is_closed: bool) {
        if let Some(server) = self.server() {
            server.close(is_closed);
        }
    }

    /// Whether it answers nobody at the moment; clients that have not asked may count as well.
    pub fn is_idle(&self, silent_count: bool) -> bool {
        self.server()
            .is_none_or(|server| server.is_idle(silent_count))
    }

    /// The socket's descriptor.
    pub fn descriptor(&self) -> Option<i32> {
        let server = self.server();
        server.map(|server| server.listener().as_raw_fd())
    }
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
