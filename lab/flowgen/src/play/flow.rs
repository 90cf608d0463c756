//! One connection of a run: from connect to its row.

mod exchange;

use super::plan::{Group, Source, Work};
use super::record::FlowRow;
use crate::error::{Error, Result};
use crate::net::{self, ConnectOptions, Discarder, ZEROS};
use crate::protocol::{RECEIVER_REPORT_BYTES, ReceiverReport, Request, SHORT};
use crate::tcp_info::{self, TcpInfo};
use crate::transport::Transport;
use rustix::net::{Shutdown, sockopt};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Unsent data kept in the socket: enough never to starve, little enough to leave no seconds of
/// data at the end of a timed connection (tcp(7), `TCP_NOTSENT_LOWAT`).
const NOT_SENT_BYTES: u32 = 128 * 1024;

#[derive(Debug)]
enum State {
    Connecting,
    /// Sending `head`, then zeros; `left` `None` for a timed one.
    Sending {
        left: Option<u64>,
    },
    /// All handed over; the receiver's report is awaited.
    Draining {
        have: usize,
        raw: [u8; RECEIVER_REPORT_BYTES],
    },
    /// Asked, reading until the server closes.
    Reading {
        left: u64,
    },
    /// Sending a request, or reading its response.
    Exchanging {
        reading: bool,
        left: u64,
    },
    /// Between two exchanges.
    Thinking,
}

/// The event loop's work after a step.
#[derive(Debug, PartialEq, Eq)]
pub enum After {
    /// Wait for the socket.
    Wait,
    /// The socket takes more, after the others had their turn.
    More,
    /// An exchange is complete: note it, and continue after its pause.
    Exchanged,
    /// The connection is over.
    Over,
}

/// A connection under way.
#[derive(Debug)]
pub struct Flow {
    socket: OwnedFd,
    state: State,
    head: Vec<u8>,
    head_sent: usize,
    mptcp: bool,
    /// The row of the report.
    pub row: FlowRow,
    /// Bytes of the header: acknowledged, but no payload.
    overhead_bytes: u64,
    exchange_started_s: f64,
    /// Bytes the application may still hand over; `None`: any number.
    budget: Option<u64>,
    /// Bytes handed over in this turn.
    turn_bytes: usize,
    cut: bool,
}

/// Most bytes handed over before samples and other connections have their turn. A socket whose packets leave
/// as fast as they come in would take data for ever.
const TURN_BYTES: usize = 1 << 20;

impl Flow {
    /// Starts connecting. `size` is this connection's own if its group has sizes.
    ///
    /// # Errors
    /// Those of [`net::start_connect`].
    pub fn start(group: &Group, mut row: FlowRow, now_s: f64) -> Result<Self> {
        let options = ConnectOptions {
            cc: group.cc.as_deref(),
            bind: group.bind,
            mptcp: group.transport == Transport::Mptcp,
            fq_paced: group.fq_paced,
        };
        let socket = net::start_connect(row.to, options)?;
        let head = match &group.work {
            Work::Timed { .. } | Work::Sized { .. } => Request::Upload.encode().to_vec(),
            Work::Short { .. } => vec![SHORT],
            Work::Exchange {
                request_bytes,
                response_bytes,
                ..
            } => Request::Exchange {
                request_bytes: *request_bytes,
                response_bytes: *response_bytes,
            }
            .encode()
            .to_vec(),
        };
        if matches!(group.work, Work::Timed { .. } | Work::Sized { .. }) {
            net::set_not_sent_low_water(&socket, NOT_SENT_BYTES);
        }
        row.start_s = now_s;
        row.local_port = net::local_address(&socket).map_or(0, |address| address.port());
        let overhead_bytes = (head.len() as u64).max(1);
        Ok(Self {
            socket,
            state: State::Connecting,
            head,
            head_sent: 0,
            mptcp: group.transport == Transport::Mptcp,
            row,
            overhead_bytes,
            exchange_started_s: now_s,
            budget: group.source.map(|_| 0),
            turn_bytes: 0,
            cut: false,
        })
    }

    /// Its socket.
    pub fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Goes on until the socket blocks, or its turn is over.
    ///
    /// # Errors
    /// The error that ended the connection early.
    pub fn advance(&mut self, work: &Work, now_s: f64, discarder: &mut Discarder) -> Result<After> {
        self.turn_bytes = 0;
        loop {
            let moved = match self.state {
                State::Connecting => self.establish(work, now_s)?,
                State::Sending { .. } => self.send()?,
                State::Draining { .. } => match self.drain(now_s)? {
                    Some(after) => return Ok(after),
                    None => false,
                },
                State::Reading { .. } => match self.read_answer(now_s, discarder)? {
                    Some(after) => return Ok(after),
                    None => false,
                },
                State::Exchanging { .. } => match self.exchange(work, now_s, discarder)? {
                    Some(after) => return Ok(after),
                    None => false,
                },
                State::Thinking => false,
            };
            if !moved {
                let is_over = self.turn_bytes >= TURN_BYTES;
                return Ok(if is_over { After::More } else { After::Wait });
            }
        }
    }

    fn establish(&mut self, work: &Work, now_s: f64) -> Result<bool> {
        let to = self.row.to;
        let failed = |source: io::Error| Error::Connect { to, source };
        let verdict = sockopt::socket_error(&self.socket).map_err(Error::io("connecting"))?;
        verdict.map_err(|errno| failed(errno.into()))?;
        if rustix::net::getpeername(&self.socket).is_err() {
            return Ok(false);
        }
        self.row.cc_start = net::congestion_control(&self.socket);
        self.row.local_port = net::local_address(&self.socket).map_or(0, |address| address.port());
        self.state = match work {
            Work::Timed { seconds } => {
                if seconds.is_some() {
                    self.row.start_s = now_s;
                }
                State::Sending { left: None }
            }
            Work::Sized { .. } => State::Sending {
                left: Some(self.row.wanted_bytes),
            },
            Work::Short { answer_bytes } => State::Reading {
                left: *answer_bytes,
            },
            Work::Exchange { request_bytes, .. } => {
                // The first exchange does not pay for the handshake.
                self.exchange_started_s = now_s;
                State::Exchanging {
                    reading: false,
                    left: *request_bytes,
                }
            }
        };
        Ok(true)
    }

    /// Header and zeros; true when all is handed over, false if the socket blocks or the turn is over.
    fn send(&mut self) -> Result<bool> {
        loop {
            let State::Sending { left } = &mut self.state else {
                return Ok(true);
            };
            let block = left.map_or(ZEROS.len(), |left| {
                usize::try_from(left).unwrap_or(usize::MAX).min(ZEROS.len())
            });
            if self.turn_bytes >= TURN_BYTES {
                return Ok(false);
            }
            let budget = usize::try_from(self.budget.unwrap_or(u64::MAX)).unwrap_or(usize::MAX);
            let head = &self.head[self.head_sent..];
            if head.is_empty() && budget == 0 {
                return Ok(false);
            }
            let block = block.min(budget);
            if head.is_empty() && block == 0 {
                self.half_close()?;
                return Ok(true);
            }
            let head_left = head.len();
            let sent = net::send_pair(&self.socket, head, &ZEROS[..block])
                .map_err(Error::io("sending"))?;
            let Some(sent) = sent else {
                return Ok(false);
            };
            self.turn_bytes += sent;
            self.head_sent += sent.min(head_left);
            let payload = sent.saturating_sub(head_left) as u64;
            if let Some(left) = left {
                *left -= payload;
            }
            if let Some(budget) = &mut self.budget {
                *budget = budget.saturating_sub(payload);
            }
        }
    }

    /// Lets the application hand over its data of this tick. Data refused by the socket is kept,
    /// a second's worth at most.
    pub fn grant(&mut self, source: &Source, tick: u64) {
        let most = source.rate_mbit.map_or(0, |mbit| (mbit * 125_000.0) as u64);
        let kept = self.budget.unwrap_or(0);
        self.budget = source.bytes(tick).map(|more| (kept + more).min(most));
    }

    fn half_close(&mut self) -> Result<()> {
        rustix::net::shutdown(&self.socket, Shutdown::Write).map_err(Error::io("half-closing"))?;
        self.state = State::Draining {
            have: 0,
            raw: [0; RECEIVER_REPORT_BYTES],
        };
        Ok(())
    }

    fn drain(&mut self, now_s: f64) -> Result<Option<After>> {
        let State::Draining { have, raw } = &mut self.state else {
            return Ok(None);
        };
        let action = "waiting for the receiver's report";
        match net::receive(&self.socket, &mut raw[*have..]).map_err(Error::io(action))? {
            None => return Ok(None),
            Some(0) => return Err(Error::Closed { action }),
            Some(bytes) => *have += bytes,
        }
        if *have < RECEIVER_REPORT_BYTES {
            return self.drain(now_s);
        }
        let report = ReceiverReport::decode(raw);
        if !self.cut {
            self.row.bytes = report.bytes;
            self.row.standstill_s = Some(report.standstill.as_secs_f64());
            self.row.fct_s = Some(now_s - self.row.start_s);
            self.note_end(now_s);
        }
        Ok(Some(After::Over))
    }

    fn read_answer(&mut self, now_s: f64, discarder: &mut Discarder) -> Result<Option<After>> {
        if self.head_sent < self.head.len() {
            let rest = &self.head[self.head_sent..];
            match net::send_some(&self.socket, rest).map_err(Error::io("sending"))? {
                Some(sent) => self.head_sent += sent,
                None => return Ok(None),
            }
        }
        let State::Reading { left } = &mut self.state else {
            return Ok(None);
        };
        loop {
            match discarder
                .discard(&self.socket, u64::MAX)
                .map_err(Error::io("receiving"))?
            {
                None => return Ok(None),
                Some(0) => break,
                Some(bytes) => {
                    *left = left.saturating_sub(bytes as u64);
                    self.row.bytes += bytes as u64;
                }
            }
        }
        if *left > 0 {
            return Err(Error::Answer {
                answered_bytes: self.row.bytes,
                expected_bytes: self.row.bytes + *left,
            });
        }
        self.row.fct_s = Some(now_s - self.row.start_s);
        self.note_end(now_s);
        Ok(Some(After::Over))
    }

    /// Ends the sending of a timed connection: bytes acknowledged by now count.
    ///
    /// # Errors
    /// [`Error::NotEstablished`] for a connection not yet established; [`Error::Io`] when it cannot be
    /// half-closed.
    pub fn cut(&mut self, now_s: f64) -> Result<After> {
        if matches!(self.state, State::Connecting) {
            return Err(Error::NotEstablished);
        }
        if !matches!(self.state, State::Sending { left: None }) {
            return Ok(After::Wait);
        }
        self.row.bytes = self.acked_bytes();
        self.note_end(now_s);
        self.cut = true;
        self.half_close()?;
        Ok(After::Wait)
    }

    /// Fills in how far it came, when the run is over before the connection.
    pub fn abandon(&mut self, now_s: f64) {
        if self.cut || matches!(self.state, State::Thinking | State::Exchanging { .. }) {
            return;
        }
        if matches!(self.state, State::Sending { .. } | State::Draining { .. }) {
            self.row.bytes = self.acked_bytes();
        }
        self.note_end(now_s);
        self.row.error = Some("unfinished at the end of the run".into());
    }

    /// Whether a row is still owed when the run ends.
    pub fn owes_row(&self) -> bool {
        !matches!(self.state, State::Thinking | State::Exchanging { .. })
    }

    fn acked_bytes(&self) -> u64 {
        let mut acked_bytes = 0;
        self.each_subflow(|_, info| acked_bytes += info.acked_bytes.saturating_sub(1));
        acked_bytes.saturating_sub(self.overhead_bytes)
    }

    /// Notes counters and the congestion control at the end.
    pub fn note_end(&mut self, now_s: f64) {
        self.row.end_s = Some(now_s);
        self.row.cc_used = net::congestion_control(&self.socket);
        let mut total: Option<TcpInfo> = None;
        self.each_subflow(|_, info| {
            total = Some(total.map_or(*info, |sum| TcpInfo {
                retransmits: sum.retransmits + info.retransmits,
                sent_packets: sum.sent_packets + info.sent_packets,
                busy_us: sum.busy_us + info.busy_us,
                window_limited_us: sum.window_limited_us + info.window_limited_us,
                buffer_limited_us: sum.buffer_limited_us + info.buffer_limited_us,
                ..sum
            }));
        });
        if let Some(info) = total {
            self.row.set_info(&info);
        }
    }

    /// Visits the connection's subflows: itself for TCP, each with its local address for MPTCP.
    pub fn each_subflow(&self, mut visit: impl FnMut(Option<std::net::IpAddr>, &TcpInfo)) {
        let subflows = self.mptcp.then(|| tcp_info::subflows(&self.socket));
        if let Some(Ok(subflows)) = subflows {
            for (address, info) in &subflows {
                visit(Some(*address), info);
            }
            return;
        }
        if let Ok(info) = TcpInfo::read(&self.socket) {
            visit(None, &info);
        }
    }

    /// Whether it is established; only then is there something to sample.
    pub fn is_established(&self) -> bool {
        !matches!(self.state, State::Connecting)
    }

    /// Congestion control in use now.
    pub fn congestion_control(&self) -> String {
        net::congestion_control(&self.socket)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::PollFlags;
    use std::{io::Read, net::TcpListener, thread, time::Duration};

    /// If the peer reads as fast as data is handed over, the socket need not block for long.
    #[test]
    fn never_blocking_connection_yields_its_turn() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let to = listener.local_addr().unwrap();
        let reader = thread::spawn(move || {
            let (mut peer, _) = listener.accept().unwrap();
            let mut room = vec![0; 1 << 20];
            while peer.read(&mut room).is_ok_and(|bytes| bytes > 0) {}
        });
        let group: Group = serde_json::from_value(serde_json::json!({
            "name": "one", "to": to.to_string(), "start_s": 0.0, "end_s": 9.0, "streams": 1,
            "sample": false, "work": {"kind": "timed"},
        }))
        .unwrap();
        let mut flow = Flow::start(&group, FlowRow::begun(0, 0, to, 0.0), 0.0).unwrap();
        let mut discarder = Discarder::default();
        let mut turns = 0;
        for _ in 0..10_000 {
            let wait = Duration::from_secs(5);
            assert!(net::wait_for(flow.socket(), PollFlags::OUT, wait).unwrap());
            let after = flow.advance(&group.work, 0.0, &mut discarder).unwrap();
            assert!(flow.turn_bytes < TURN_BYTES + ZEROS.len() + flow.head.len());
            turns += u32::from(after == After::More);
            if turns == 3 {
                break;
            }
        }
        assert_eq!(turns, 3);
        drop(flow);
        reader.join().unwrap();
    }
}
