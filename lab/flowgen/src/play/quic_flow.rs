//! A connection of a run over QUIC. It lives on the thread in the background; a file descriptor of events
//! says when there is something to see.

use super::flow::After;
use super::plan::{Group, Work};
use super::record::FlowRow;
use crate::error::{Error, Result};
use crate::protocol::{Limit, REQUEST_BYTES, ReceiverReport};
use crate::quic::{self, Control, PathState, Seat, Session, Wish};
use crate::tcp_info::TcpInfo;
use crate::transport::Transport;
use rustix::event::{EventfdFlags, eventfd};
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;

/// Longest wait for the handshake, for a path, and for progress: as long as a SYN of TCP is sent again
/// without an answer. A run ends before.
const WAIT: Duration = Duration::from_secs(120);
/// The longest possible limit.
const FOR_EVER: Duration = Duration::from_secs(1 << 31);
/// The congestion control of a group that names none.
const CONTROL: &str = "cubic";

/// State shared by the two threads.
#[derive(Debug)]
struct Shared {
    event: OwnedFd,
    stage: Mutex<Stage>,
    /// The run wants it to end.
    stop: Notify,
}

#[derive(Default)]
struct Stage {
    session: Option<Arc<Session>>,
    /// Its end; `None` while it goes on, or once it was taken.
    ended: Option<Result<ReceiverReport>>,
}

impl std::fmt::Debug for Stage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("Stage");
        shown.field("established", &self.session.is_some());
        shown.field("ended", &self.ended).finish()
    }
}

impl Shared {
    fn stage(&self) -> MutexGuard<'_, Stage> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn signal(&self) {
        // Nobody reads the counter, and no run is long enough to fill it.
        let _ = rustix::io::write(&self.event, &1u64.to_ne_bytes());
    }
}

/// A connection under way.
#[derive(Debug)]
pub struct QuicFlow {
    shared: Arc<Shared>,
    established: bool,
    multipath: bool,
    timed: bool,
    control: String,
    /// The row of the report.
    pub row: FlowRow,
    cut: bool,
}

impl QuicFlow {
    /// Starts connecting.
    ///
    /// # Errors
    /// [`Error::QuicControl`], [`Error::Io`], and those of [`Seat::take`].
    pub fn start(group: &Group, mut row: FlowRow, now_s: f64) -> Result<Self> {
        let control = group.cc.clone().unwrap_or_else(|| CONTROL.into());
        let wish = Wish {
            to: group.to,
            bind: group.bind,
            control: Control::from_name(&control)?,
            transport: group.transport,
            no_spin: group.no_spin,
            paths: group.paths.clone(),
            wait: WAIT,
        };
        // Here, because the background thread is in another namespace.
        let seat = Seat::take(&wish)?;
        let flags = EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC;
        let shared = Arc::new(Shared {
            event: eventfd(0, flags).map_err(Error::io("eventfd"))?,
            stage: Mutex::default(),
            stop: Notify::new(),
        });
        row.start_s = now_s;
        let timed = matches!(group.work, Work::Timed { .. });
        let limit = if timed {
            Limit::Time(FOR_EVER)
        } else {
            Limit::Bytes(row.wanted_bytes)
        };
        quic::background()?.spawn(live(Arc::clone(&shared), wish, seat, limit));
        Ok(Self {
            shared,
            established: false,
            multipath: group.transport == Transport::Mpquic,
            timed,
            control,
            row,
            cut: false,
        })
    }

    /// Signals when [`QuicFlow::advance`] has something to see.
    pub fn socket(&self) -> BorrowedFd<'_> {
        self.shared.event.as_fd()
    }

    /// Looks at how far the other thread has come.
    ///
    /// # Errors
    /// The error that ended the connection early.
    pub fn advance(&mut self, work: &Work, now_s: f64) -> Result<After> {
        let port = self.session().map(|session| session.local_port());
        if let Some(port) = port.filter(|_| !self.established) {
            self.established = true;
            self.row.local_port = port;
            self.row.cc_start = self.control.clone();
            if let Work::Timed { seconds: Some(_) } = work {
                self.row.start_s = now_s;
            }
        }
        let Some(ended) = self.shared.stage().ended.take() else {
            return Ok(After::Wait);
        };
        let report = ended?;
        if !self.cut {
            self.row.bytes = report.bytes;
            self.row.standstill_s = Some(report.standstill.as_secs_f64());
            self.row.fct_s = Some(now_s - self.row.start_s);
            self.note_end(now_s);
        }
        Ok(After::Over)
    }

    /// Ends a timed connection: bytes acknowledged by now count.
    ///
    /// # Errors
    /// [`Error::NotEstablished`] for a connection not yet established.
    pub fn cut(&mut self, now_s: f64) -> Result<After> {
        if !self.established {
            return Err(Error::NotEstablished);
        }
        if self.timed && !self.cut {
            self.row.bytes = self.acked_bytes();
            self.note_end(now_s);
            self.cut = true;
            self.shared.stop.notify_one();
        }
        Ok(After::Wait)
    }

    /// Fills in how far it came, when the run is over before the connection.
    pub fn abandon(&mut self, now_s: f64) {
        if !self.cut {
            self.row.bytes = self.acked_bytes();
            self.note_end(now_s);
            self.row.error = Some("unfinished at the end of the run".into());
        }
    }

    /// Notes counters and the congestion control at the end.
    pub fn note_end(&mut self, now_s: f64) {
        self.row.end_s = Some(now_s);
        self.row.cc_used = self.control.clone();
        let paths = self.paths();
        let Some(first) = paths.first() else {
            return;
        };
        let sum = |count: fn(&TcpInfo) -> u32| paths.iter().map(|path| count(&path.info)).sum();
        self.row.set_info(&TcpInfo {
            retransmits: sum(|info| info.retransmits),
            sent_packets: sum(|info| info.sent_packets),
            ecn: paths.iter().any(|path| path.info.ecn),
            ..first.info
        });
        self.row.times = None; // the kernel keeps none of QUIC
    }

    /// Visits the paths: one without its address for QUIC, each with its own for multipath QUIC.
    pub fn each_subflow(&self, mut visit: impl FnMut(Option<IpAddr>, &TcpInfo)) {
        for path in self.paths() {
            visit(self.multipath.then_some(path.local), &path.info);
        }
    }

    /// Whether there is something to sample.
    pub fn is_established(&self) -> bool {
        self.established
    }

    /// Congestion control by the name it was asked for.
    pub fn congestion_control(&self) -> String {
        self.control.clone()
    }

    fn session(&self) -> Option<Arc<Session>> {
        self.shared.stage().session.clone()
    }

    fn paths(&self) -> Vec<PathState> {
        self.session()
            .map_or_else(Vec::new, |session| session.paths())
    }

    fn acked_bytes(&self) -> u64 {
        let acked_bytes: u64 = self.paths().iter().map(|path| path.info.acked_bytes).sum();
        acked_bytes.saturating_sub(REQUEST_BYTES as u64)
    }
}

impl Drop for QuicFlow {
    fn drop(&mut self) {
        self.shared.stop.notify_one();
    }
}

/// The connection's life on the thread in the background.
async fn live(shared: Arc<Shared>, wish: Wish, seat: Seat, limit: Limit) {
    let ended = match Session::connect(wish, seat).await {
        Err(error) => Err(error),
        Ok(session) => {
            shared.stage().session = Some(Arc::clone(&session));
            shared.signal();
            let sent_bytes = AtomicU64::new(0);
            let ended = tokio::select! {
                ended = session.carry(limit, &sent_bytes) => ended,
                () = shared.stop.notified() => Ok(ReceiverReport::default()),
            };
            session.close().await;
            ended
        }
    };
    shared.stage().ended = Some(ended);
    shared.signal();
}
