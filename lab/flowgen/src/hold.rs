//! `hold`: many connections kept open, each proven alive by an echo.

use crate::error::{Error, Result};
use crate::net::{self, ConnectOptions, Discarder, Interest, Poller, ZEROS};
use crate::protocol::{ECHO, QUIT};
use serde::Serialize;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

const HOLDING: &str = "holding a connection";
/// Most connections being opened at the same time.
const OPENING: usize = 256;
/// Shortest time between two sends on a connection; higher rates send more at a time.
const SHORTEST_INTERVAL_SECONDS: f64 = 0.1;
/// Longest wait for events before the schedule is looked at again.
const LONGEST_NAP: Duration = Duration::from_millis(200);

/// Options of `hold`.
#[derive(Debug, Clone, Copy)]
pub struct HoldOptions {
    /// The server.
    pub to: SocketAddr,
    /// Connections to open.
    pub connections: usize,
    /// How long to hold them once all are open.
    pub time: Duration,
    /// Sent on each connection, and echoed.
    pub rate_bytes_per_s: f64,
    /// Longest time without progress while opening, and for the last echoes.
    pub wait: Duration,
}

/// The result, as printed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HoldReport {
    /// Connections answered by the server.
    pub opened: usize,
    /// Connections that returned every byte and closed when asked to.
    pub alive_at_end: usize,
    /// Connections broken, silent, or never opened.
    pub errors: usize,
    /// Bytes echoed.
    pub bytes: u64,
    /// The first error.
    pub first_error: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Until the first byte could be sent.
    Connecting,
    /// Until the server has answered.
    Asked,
    /// Open, and trickling.
    Open,
    /// Until the last echo and the server's FIN; `asked` once the last byte could be sent.
    Leaving { asked: bool },
}

#[derive(Debug)]
struct Held {
    socket: OwnedFd,
    phase: Phase,
    sent_bytes: u64,
    echoed_bytes: u64,
}

struct Hold<'a> {
    options: &'a HoldOptions,
    poller: Poller,
    held: Vec<Option<Held>>,
    discarder: Discarder,
    /// Connections still to leave their phase before the run goes on: all but open ones.
    pending: usize,
    opened: usize,
    alive: usize,
    errors: usize,
    bytes: u64,
    first_error: Option<Error>,
}

/// Opens, holds, and takes stock.
///
/// # Errors
/// [`Error::Io`] when epoll fails; broken connections are counted, not returned.
pub fn run(options: &HoldOptions) -> Result<HoldReport> {
    let mut hold = Hold {
        options,
        poller: Poller::new()?,
        held: Vec::with_capacity(options.connections),
        discarder: Discarder::default(),
        pending: 0,
        opened: 0,
        alive: 0,
        errors: 0,
        bytes: 0,
        first_error: None,
    };
    hold.open()?;
    hold.trickle()?;
    hold.take_stock()?;
    Ok(HoldReport {
        opened: hold.opened,
        alive_at_end: hold.alive,
        errors: hold.errors,
        bytes: hold.bytes,
        first_error: hold.first_error.as_ref().map(Error::with_remedy),
    })
}

impl Hold<'_> {
    /// Opens all; the echo of the first byte shows the server's acceptance.
    fn open(&mut self) -> Result<()> {
        let mut progress = Instant::now();
        while self.held.len() < self.options.connections || self.pending > 0 {
            while self.held.len() < self.options.connections && self.pending < OPENING {
                self.start_one()?;
            }
            if self.collect(LONGEST_NAP)? {
                progress = Instant::now();
            } else if progress.elapsed() > self.options.wait {
                self.drop_pending("opening");
            }
        }
        Ok(())
    }

    fn start_one(&mut self) -> Result<()> {
        let token = self.held.len();
        match net::start_connect(self.options.to, ConnectOptions::default()) {
            Ok(socket) => {
                self.poller.add(&socket, token, Interest::Write)?;
                self.pending += 1;
                self.held.push(Some(Held {
                    socket,
                    phase: Phase::Connecting,
                    sent_bytes: 0,
                    echoed_bytes: 0,
                }));
            }
            Err(error) => {
                self.held.push(None);
                self.count_error(error);
            }
        }
        Ok(())
    }

    fn fail(&mut self, token: usize, error: Error) {
        if let Some(held) = self.held[token].take() {
            self.pending -= usize::from(held.phase != Phase::Open);
            self.count_error(error);
        }
    }

    fn count_error(&mut self, error: Error) {
        self.errors += 1;
        self.first_error.get_or_insert(error);
    }

    /// Waits once, and reads; true if something came.
    fn collect(&mut self, nap: Duration) -> Result<bool> {
        let ready = self.poller.wait(Some(nap))?.to_vec();
        for event in &ready {
            if let Err(error) = self.advance(event.token) {
                self.fail(event.token, error);
            }
        }
        Ok(!ready.is_empty())
    }

    fn advance(&mut self, token: usize) -> Result<()> {
        let Some(held) = self.held[token].as_mut() else {
            return Ok(());
        };
        if held.phase == Phase::Connecting {
            let to = self.options.to;
            let sent = net::send_some(&held.socket, &[ECHO]);
            if sent
                .map_err(|source| Error::Connect { to, source })?
                .is_none()
            {
                return Ok(());
            }
            held.sent_bytes = 1;
            held.phase = Phase::Asked;
            return self.poller.modify(&held.socket, token, Interest::Read);
        }
        let received = self.discarder.discard(&held.socket, u64::MAX);
        match received.map_err(Error::io(HOLDING))? {
            None => Ok(()),
            Some(0) if held.has_left() => {
                self.held[token] = None;
                self.alive += 1;
                self.pending -= 1;
                Ok(())
            }
            Some(0) => Err(Error::Closed { action: HOLDING }),
            Some(bytes) => {
                held.echoed_bytes += bytes as u64;
                self.bytes += bytes as u64;
                if held.phase == Phase::Asked {
                    held.phase = Phase::Open;
                    self.opened += 1;
                    self.pending -= 1;
                }
                held.ask_to_leave().map_err(Error::io(HOLDING))
            }
        }
    }

    /// Sends on each connection in turn, evenly over the interval, until the time is over.
    fn trickle(&mut self) -> Result<()> {
        let rate = self.options.rate_bytes_per_s;
        let count = self.held.len().max(1);
        let interval_seconds = (1.0 / rate).max(SHORTEST_INTERVAL_SECONDS);
        let chunk = ((rate * interval_seconds).round() as usize).clamp(1, ZEROS.len());
        let begin = Instant::now();
        let mut turn = 0_u64;
        loop {
            // The clock stops at the end, to make the number of sends independent of chance.
            let elapsed = begin.elapsed().min(self.options.time);
            let due = (elapsed.as_secs_f64() / interval_seconds * count as f64) as u64;
            while turn < due {
                self.send((turn % count as u64) as usize, &ZEROS[..chunk]);
                turn += 1;
            }
            if elapsed == self.options.time {
                return Ok(());
            }
            let next_seconds = (turn + 1) as f64 * interval_seconds / count as f64;
            let until_next = Duration::try_from_secs_f64(next_seconds).unwrap_or(Duration::MAX);
            let nap = until_next
                .saturating_sub(begin.elapsed())
                .min(self.options.time.saturating_sub(elapsed))
                .min(LONGEST_NAP);
            self.collect(nap)?;
        }
    }

    fn send(&mut self, token: usize, bytes: &[u8]) {
        let Some(held) = self.held.get_mut(token).and_then(Option::as_mut) else {
            return;
        };
        if let Err(source) = held.send(bytes) {
            self.fail(token, Error::io(HOLDING)(source));
        }
    }

    /// Asks the server to echo the rest and to close: a connection is alive if both happen.
    /// As the server closes first, no TIME_WAIT is left on this side's ports.
    fn take_stock(&mut self) -> Result<()> {
        for token in 0..self.held.len() {
            let Some(held) = self.held[token].as_mut() else {
                continue;
            };
            held.phase = Phase::Leaving { asked: false };
            self.pending += 1;
            if let Err(source) = held.ask_to_leave() {
                self.fail(token, Error::io(HOLDING)(source));
            }
        }
        let mut progress = Instant::now();
        while self.pending > 0 {
            if self.collect(LONGEST_NAP)? {
                progress = Instant::now();
            } else if progress.elapsed() > self.options.wait {
                self.drop_pending("waiting for the last echo");
            }
        }
        Ok(())
    }

    fn drop_pending(&mut self, action: &'static str) {
        let wait = self.options.wait;
        for token in 0..self.held.len() {
            let phase = self.held[token].as_ref().map(|held| held.phase);
            if phase.is_some_and(|phase| phase != Phase::Open) {
                self.fail(token, Error::Timeout { action, wait });
            }
        }
    }
}

impl Held {
    /// Sends as much as fits; a full socket has its trickle already.
    fn send(&mut self, bytes: &[u8]) -> io::Result<bool> {
        let sent = net::send_some(&self.socket, bytes)?;
        self.sent_bytes += sent.unwrap_or(0) as u64;
        Ok(sent.is_some())
    }

    /// Sends the last byte, if that is due; a full socket is asked again after its next echo.
    fn ask_to_leave(&mut self) -> io::Result<()> {
        if self.phase == (Phase::Leaving { asked: false }) {
            let asked = self.send(&[QUIT])?;
            self.phase = Phase::Leaving { asked };
        }
        Ok(())
    }

    fn has_left(&self) -> bool {
        self.phase == (Phase::Leaving { asked: true }) && self.echoed_bytes == self.sent_bytes
    }
}
