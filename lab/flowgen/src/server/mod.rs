//! The one server: a thread around an epoll set, each connection a small state machine.
//!
//! A short connection is usually answered straight after `accept`, before it is registered
//! anywhere: accept, receive, send, close.

mod connection;
mod download;

use crate::error::{Error, Result};
use crate::net::{self, Discarder, Interest, Poller};
use connection::{Connection, Step};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

/// Connections taken before others get a turn.
const ACCEPTS_PER_TURN: usize = 256;
const LISTENER: usize = usize::MAX;

/// Options of `serve`.
#[derive(Debug, Clone)]
pub struct ServeOptions {
    /// Address to listen on; port 0 picks one, `[::]` takes IPv4 too.
    pub listen: SocketAddr,
    /// Serve one connection and return.
    pub once: bool,
    /// Bytes of the answer in the short mode.
    pub short_bytes: u64,
    /// Take MPTCP connections, and plain TCP as before.
    pub mptcp: bool,
    /// Answer QUIC on the same port, with so many paths for each connection.
    pub quic_paths: Option<u32>,
    /// Congestion control of the listener and of all that it accepts; `None`: the system's.
    pub cc: Option<String>,
}

/// A listening server and its connections.
#[derive(Debug)]
pub struct Server {
    listener: OwnedFd,
    poller: Poller,
    connections: Vec<Option<Connection>>,
    free: Vec<usize>,
    discarder: Discarder,
    options: ServeOptions,
    accepted: u64,
    accepting: bool,
    warned: bool,
}

impl Server {
    /// Starts listening.
    ///
    /// # Errors
    /// [`Error::Listen`]; [`Error::CongestionControl`]; [`Error::Usage`] for QUIC in a build without
    /// it.
    pub fn bind(options: ServeOptions) -> Result<Self> {
        let listener = net::listen(options.listen, options.mptcp)?;
        if let Some(name) = &options.cc {
            net::set_congestion(&listener, name)?;
        }
        if let Some(paths) = options.quic_paths {
            let address = net::local_address(&listener);
            serve_quic(
                address.map_err(Error::io("reading the listening address"))?,
                paths,
            )?;
        }
        let poller = Poller::new()?;
        poller.add(&listener, LISTENER, Interest::Read)?;
        Ok(Self {
            listener,
            poller,
            connections: Vec::new(),
            free: Vec::new(),
            discarder: Discarder::default(),
            options,
            accepted: 0,
            accepting: true,
            warned: false,
        })
    }

    /// Address listened on, with the port that was picked.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn local_address(&self) -> Result<SocketAddr> {
        net::local_address(&self.listener).map_err(Error::io("reading the listening address"))
    }

    /// Serves for ever, or with `once` until the first connection has ended.
    ///
    /// # Errors
    /// [`Error::Io`] when the epoll set or the listener fails. An error on one connection
    /// ends only that one: its client sees it.
    pub fn run(&mut self) -> Result<()> {
        let mut ready = Vec::new();
        while !self.finished() {
            ready.clear();
            ready.extend_from_slice(self.poller.wait(None)?);
            for event in &ready {
                if event.token == LISTENER {
                    self.accept_waiting()?;
                } else {
                    self.advance(event.token)?;
                }
            }
        }
        Ok(())
    }

    fn finished(&self) -> bool {
        self.options.once && self.accepted > 0 && self.free.len() == self.connections.len()
    }

    fn accept_waiting(&mut self) -> Result<()> {
        for _ in 0..ACCEPTS_PER_TURN {
            if self.options.once && self.accepted > 0 {
                return self.stop_accepting();
            }
            match net::accept(&self.listener) {
                Ok(Some(socket)) => self.welcome(socket)?,
                Ok(None) => return Ok(()),
                Err(source) if is_shortage(&source) => return self.wait_for_files(&source),
                Err(source) => return Err(Error::io("accepting")(source)),
            }
        }
        Ok(())
    }

    fn welcome(&mut self, socket: OwnedFd) -> Result<()> {
        self.accepted += 1;
        let mut connection = Connection::new(socket, self.options.short_bytes);
        let Step::Wait(interest) = connection.advance(&mut self.discarder) else {
            return Ok(());
        };
        let token = self.free.pop().unwrap_or_else(|| {
            self.connections.push(None);
            self.connections.len() - 1
        });
        self.poller.add(connection.socket(), token, interest)?;
        connection.interest = interest;
        self.connections[token] = Some(connection);
        Ok(())
    }

    /// A token of an earlier event of the same batch may be gone or reused; then this is an
    /// idle look at a non-blocking socket, or nothing.
    fn advance(&mut self, token: usize) -> Result<()> {
        let Some(Some(connection)) = self.connections.get_mut(token) else {
            return Ok(());
        };
        match connection.advance(&mut self.discarder) {
            Step::Wait(interest) if interest == connection.interest => Ok(()),
            Step::Wait(interest) => {
                connection.interest = interest;
                self.poller.modify(connection.socket(), token, interest)
            }
            Step::Done => {
                self.connections[token] = None;
                self.free.push(token);
                self.resume_accepting()
            }
        }
    }

    fn stop_accepting(&mut self) -> Result<()> {
        if self.accepting {
            self.accepting = false;
            self.poller.remove(&self.listener)?;
        }
        Ok(())
    }

    /// Out of descriptors: the listener would signal for ever, so it rests until one is closed.
    fn wait_for_files(&mut self, source: &std::io::Error) -> Result<()> {
        let open = self.connections.len() - self.free.len();
        if !self.warned {
            self.warned = true;
            eprintln!(
                "flowgen: {open} connections open, new ones have to wait: {source}; \
                 raise the limit (ulimit -n)"
            );
        }
        if open == 0 {
            return Err(Error::io("accepting")(std::io::Error::from(source.kind())));
        }
        self.stop_accepting()
    }

    fn resume_accepting(&mut self) -> Result<()> {
        if self.accepting || self.options.once {
            return Ok(());
        }
        self.accepting = true;
        self.poller.add(&self.listener, LISTENER, Interest::Read)
    }
}

/// QUIC has a thread of its own, which lives as long as the process.
#[cfg(feature = "mpquic")]
fn serve_quic(listen: SocketAddr, paths: u32) -> Result<()> {
    crate::quic::serve(listen, paths).map(|_| ())
}

#[cfg(not(feature = "mpquic"))]
fn serve_quic(_listen: SocketAddr, _paths: u32) -> Result<()> {
    crate::transport::Transport::Quic.available()
}

fn is_shortage(error: &std::io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM)
    )
}
