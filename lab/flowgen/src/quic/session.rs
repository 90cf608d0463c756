//! The client's side: one connection, its paths, and its upload.

use super::control::Control;
use super::gauge::{Gauged, SharedGauge};
use super::paths::{OpenPath, PathState};
use super::silence::{LOOK, Silence};
use super::{PATHS, endpoint, probe, silence, tls};
use crate::error::{Error, Result};
use crate::net::{BLOCK_BYTES, ZEROS};
use crate::protocol::{Limit, RECEIVER_REPORT_BYTES, ReceiverReport, Request};
use crate::transport::{PathEnds, Transport};
use noq::{ConnectionError, FourTuple, PathError, PathId, PathStatus, SendStream};
use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::time::{sleep, timeout};

/// Unsent data beyond the windows: enough never to starve, as `TCP_NOTSENT_LOWAT` keeps for TCP.
const NOT_SENT_BYTES: u64 = 128 * 1024;
/// Interval between checks for the server's connection identifiers, needed to open a path.
const IDENTIFIERS_WAIT: Duration = Duration::from_millis(2);
/// Interval between checks for closed paths.
const REOPEN: Duration = Duration::from_millis(100);
/// Longest wait for an answer on a closed path, in addition to two of its round trips.
const PROBE: Duration = Duration::from_millis(100);
/// Longest time for the peer to learn of the connection's end.
const CLOSE_WAIT: Duration = Duration::from_secs(1);

/// The wanted connection.
#[derive(Debug, Clone)]
pub struct Wish {
    /// The server.
    pub to: SocketAddr,
    /// Source address of the first path.
    pub bind: Option<IpAddr>,
    /// Congestion control of every path.
    pub control: Control,
    /// [`Transport::Quic`] or [`Transport::Mpquic`].
    pub transport: Transport,
    /// Choose the spin bit by chance.
    pub no_spin: bool,
    /// Paths after the first.
    pub paths: Vec<PathEnds>,
    /// Longest wait for the connection, for a path, and for progress.
    pub wait: Duration,
}

/// A connection's socket and the address of its first path.
#[derive(Debug)]
pub struct Seat {
    local: IpAddr,
    socket: UdpSocket,
}

impl Seat {
    /// Opens the socket in the calling thread's network namespace. One socket serves all paths, so it has an
    /// address of its own only if there is one path.
    ///
    /// # Errors
    /// [`Error::Connect`] without a route or with a foreign source address, and [`Error::Usage`] when the route
    /// has another one.
    pub fn take(wish: &Wish) -> Result<Self> {
        let to = wish.to;
        let local = first_source(wish)?;
        let bind = match wish.transport {
            Transport::Mpquic => endpoint::any(local),
            _ => local,
        };
        let failed = |source| Error::Connect { to, source };
        let socket = endpoint::socket((bind, 0).into()).map_err(failed)?;
        Ok(Self { local, socket })
    }
}

/// An established connection.
pub struct Session {
    wish: Wish,
    endpoint: noq::Endpoint,
    connection: noq::Connection,
    paths: Mutex<Vec<OpenPath>>,
}

impl Session {
    /// Connects on the first path.
    ///
    /// # Errors
    /// [`Error::Timeout`], [`Error::Quic`], and [`Error::NoMultipath`] when the peer has only one path.
    pub async fn connect(wish: Wish, seat: Seat) -> Result<Arc<Self>> {
        let to = wish.to;
        let endpoint = endpoint::endpoint(seat.socket, None)?;
        let connecting = endpoint
            .connect_with(config(&wish)?, to, tls::NAME)
            .map_err(|error| quic("connecting", to, &error))?;
        let connection = patient("connecting", wish.wait, connecting)
            .await?
            .map_err(|error| broken("connecting", &wish, &error))?;
        let session = Arc::new(Self {
            wish,
            endpoint,
            connection,
            paths: Mutex::default(),
        });
        session.note_first(seat.local)?;
        Ok(session)
    }

    fn note_first(&self, local: IpAddr) -> Result<()> {
        let to = self.wish.to;
        if self.wish.transport == Transport::Mpquic && !self.connection.is_multipath_enabled() {
            return Err(Error::NoMultipath(to));
        }
        let first = self.connection.path(PathId::ZERO);
        let path = first.ok_or_else(|| quic("connecting", to, &"its path is gone"))?;
        self.note(local, to, path)
    }

    fn note(&self, local: IpAddr, remote: SocketAddr, path: noq::Path) -> Result<()> {
        let gauge = self
            .gauge(&path)
            .ok_or_else(|| refused(local, remote, "it was closed as soon as it was open"))?;
        self.lock().push(OpenPath::new(local, remote, path, gauge));
        Ok(())
    }

    /// The gauge of an open path.
    fn gauge(&self, path: &noq::Path) -> Option<SharedGauge> {
        let controller = self.connection.congestion_state(path.id())?;
        let gauged = controller.into_any().downcast::<Gauged>().ok()?;
        Some(gauged.gauge)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<OpenPath>> {
        self.paths.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens the further paths, one after the other.
    ///
    /// # Errors
    /// [`Error::Path`], naming its ends.
    pub async fn open_paths(&self) -> Result<()> {
        for ends in &self.wish.paths {
            let (local, remote) = (ends.local, ends.to(self.wish.to));
            endpoint::source(remote, Some(local)).map_err(|source| Error::Path {
                local,
                remote,
                source,
            })?;
            let path = self.open(local, remote).await?;
            self.note(local, remote, path)?;
        }
        Ok(())
    }

    async fn open(&self, local: IpAddr, remote: SocketAddr) -> Result<noq::Path> {
        let until = Instant::now() + self.wish.wait;
        loop {
            let ends = FourTuple::new(remote, Some(local));
            let opening = self.connection.open_path(ends, PathStatus::Available);
            let left = until.saturating_duration_since(Instant::now());
            let opened = timeout(self.wish.wait, opening).await;
            match opened.unwrap_or(Err(PathError::ValidationFailed)) {
                Ok(path) => return Ok(path),
                // The server's identifiers for the path come after the handshake.
                Err(PathError::RemoteCidsExhausted) if !left.is_zero() => {
                    sleep(IDENTIFIERS_WAIT).await;
                }
                Err(PathError::MultipathNotNegotiated) => {
                    return Err(Error::NoMultipath(self.wish.to));
                }
                Err(PathError::ValidationFailed) => {
                    return Err(refused(local, remote, "nothing comes back"));
                }
                Err(PathError::MaxPathIdReached) => {
                    return Err(refused(local, remote, "the server allows no more paths"));
                }
                Err(error) => return Err(refused(local, remote, &error.to_string())),
            }
        }
    }

    /// Opens the further paths while the upload runs on the open ones, as MPTCP does. `sent_bytes`
    /// counts the payload handed over.
    ///
    /// # Errors
    /// The first of both; then the upload is given up.
    pub async fn carry(&self, limit: Limit, sent_bytes: &AtomicU64) -> Result<ReceiverReport> {
        let work = async {
            let upload = self.upload(limit, sent_bytes);
            tokio::try_join!(upload, self.open_paths())
        };
        tokio::select! {
            done = work => done.map(|(report, ())| report),
            never = self.close_silent_paths() => match never {},
            never = self.reopen_paths() => match never {},
        }
    }

    /// Closes a path without acknowledgements while others go on: they carry its data then.
    async fn close_silent_paths(&self) -> Infallible {
        let mut silence = Silence::new(silence::CLIENT);
        loop {
            sleep(LOOK).await;
            let mut open = self.lock();
            let signs: Vec<_> = open.iter().map(OpenPath::sign).collect();
            for at in silence.look(Instant::now(), &signs) {
                open[at].close();
            }
        }
    }

    /// Reopens a closed path when packets get through on it.
    async fn reopen_paths(&self) -> Infallible {
        loop {
            sleep(REOPEN).await;
            for (at, local, remote, rtt) in self.closed_paths() {
                if probe::answers(local, remote, PROBE + 2 * rtt).await {
                    self.reopen(at, local, remote).await;
                }
            }
        }
    }

    async fn reopen(&self, at: usize, local: IpAddr, remote: SocketAddr) {
        // It may have died again: then there is another answer to wait for.
        let Ok(path) = self.open(local, remote).await else {
            return;
        };
        if let Some(gauge) = self.gauge(&path) {
            self.lock()[at].reopen(path, gauge);
        }
    }

    fn closed_paths(&self) -> Vec<(usize, IpAddr, SocketAddr, Duration)> {
        let paths = self.lock();
        let closed = paths
            .iter()
            .enumerate()
            .filter(|(_, path)| path.is_closed());
        closed
            .map(|(at, path)| (at, path.local, path.remote, path.sign().rtt))
            .collect()
    }

    async fn upload(&self, limit: Limit, sent_bytes: &AtomicU64) -> Result<ReceiverReport> {
        let opened = self.connection.open_bi().await;
        let (mut send, mut receive) =
            opened.map_err(|error| broken("opening a stream", &self.wish, &error))?;
        let wait = self.wish.wait;
        let failed = |error: noq::WriteError| self.lost("sending", &error);
        send.write_all(&Request::Upload.encode())
            .await
            .map_err(failed)?;
        match limit {
            Limit::Bytes(bytes) => self.send(&mut send, bytes, sent_bytes).await?,
            Limit::Time(time) => {
                // Its end is the end of the time, not of the data.
                if let Ok(ended) = timeout(time, self.send(&mut send, u64::MAX, sent_bytes)).await {
                    ended?;
                }
            }
        }
        let closed = |_| Error::Closed { action: "sending" };
        send.finish().map_err(closed)?;
        let mut raw = [0; RECEIVER_REPORT_BYTES];
        let action = "waiting for the receiver's report";
        patient(action, wait, receive.read_exact(&mut raw))
            .await?
            .map_err(|error| self.lost(action, &error))?;
        Ok(ReceiverReport::decode(&raw))
    }

    async fn send(
        &self,
        send: &mut SendStream,
        mut left_bytes: u64,
        sent_bytes: &AtomicU64,
    ) -> Result<()> {
        while left_bytes > 0 {
            self.connection.set_send_window(self.send_window());
            let room = ZEROS.len().min(BLOCK_BYTES);
            let block = usize::try_from(left_bytes).unwrap_or(room).min(room);
            let written = patient("sending", self.wish.wait, send.write(&ZEROS[..block]))
                .await?
                .map_err(|error| self.lost("sending", &error))? as u64;
            left_bytes -= written;
            sent_bytes.fetch_add(written, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Twice the windows of all paths may wait for acknowledgement or to be sent, as Linux sizes a socket's
    /// buffer: the end of a timed upload then leaves a round trip of it, and no path starves.
    fn send_window(&self) -> u64 {
        let windows = self.lock();
        let bytes: u64 = windows.iter().map(OpenPath::window_bytes).sum();
        2 * bytes + NOT_SENT_BYTES
    }

    fn lost(&self, action: &'static str, error: &dyn std::fmt::Display) -> Error {
        match self.connection.close_reason() {
            Some(reason) => broken(action, &self.wish, &reason),
            None => quic(action, self.wish.to, error),
        }
    }

    /// The client's port.
    #[must_use]
    pub fn local_port(&self) -> u16 {
        self.endpoint.local_addr().map_or(0, |local| local.port())
    }

    /// The opened paths in order of opening, including those lost since.
    #[must_use]
    pub fn paths(&self) -> Vec<PathState> {
        self.lock().iter().map(OpenPath::state).collect()
    }

    /// Ends the connection; data under way is dropped.
    pub async fn close(&self) {
        self.connection.close(noq::VarInt::from_u32(0), b"done");
        // Also if the peer does not answer any more.
        let _ = timeout(CLOSE_WAIT, self.endpoint.wait_all_draining()).await;
    }
}

fn config(wish: &Wish) -> Result<noq::ClientConfig> {
    let paths = match wish.transport {
        Transport::Mpquic => PATHS.max(1 + wish.paths.len() as u32),
        _ => 1,
    };
    let mut transport = endpoint::transport(paths, wish.wait, wish.to.is_ipv4());
    transport
        .congestion_controller_factory(wish.control.factory())
        .allow_spin(!wish.no_spin);
    let mut config = tls::client()?;
    config.transport_config(Arc::new(transport));
    Ok(config)
}

/// The first path's source address. With several paths the route chooses it, and must agree.
fn first_source(wish: &Wish) -> Result<IpAddr> {
    let failed = |source| Error::Connect {
        to: wish.to,
        source,
    };
    let local = endpoint::source(wish.to, wish.bind).map_err(failed)?;
    if wish.transport == Transport::Mpquic && wish.bind.is_some() {
        let routed = endpoint::source(wish.to, None).map_err(failed)?;
        if routed != local {
            return Err(Error::Usage(format!(
                "the route to {} has the source {routed}, not {local}; \
                 see ip route get for that address",
                wish.to
            )));
        }
    }
    Ok(local)
}

/// Waits, but not for ever.
async fn patient<T>(
    action: &'static str,
    wait: Duration,
    work: impl IntoFuture<Output = T>,
) -> Result<T> {
    timeout(wait, work.into_future())
        .await
        .map_err(|_| Error::Timeout { action, wait })
}

fn quic(action: &'static str, peer: SocketAddr, reason: &dyn std::fmt::Display) -> Error {
    Error::Quic {
        action,
        peer,
        reason: reason.to_string(),
    }
}

fn broken(action: &'static str, wish: &Wish, error: &ConnectionError) -> Error {
    match error {
        ConnectionError::TimedOut => Error::Timeout {
            action,
            wait: wish.wait,
        },
        ConnectionError::ApplicationClosed(_) => Error::Closed { action },
        other => quic(action, wish.to, other),
    }
}

fn refused(local: IpAddr, remote: SocketAddr, reason: &str) -> Error {
    Error::Path {
        local,
        remote,
        source: std::io::Error::other(reason.to_owned()),
    }
}
