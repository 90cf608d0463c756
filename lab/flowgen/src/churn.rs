//! Engine of `short` and `spread`: connect, say something small, read to the end, again.
//!
//! One thread, any number at a time. Each socket is registered once, edge-triggered, and the
//! outcome of `connect` is learned from the first send, so a connection costs socket, connect,
//! epoll_ctl, send, one or two recv and close.

use crate::error::{Error, Result};
use crate::net::{self, ConnectOptions, Interest, Poller, ZEROS};
use crate::protocol::{ONE_BYTE_SINK, Request, SHORT};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// Failures in a row before a run ends: no server answers, or no local port is left.
const HOPELESS: u64 = 1000;
/// How often connections are looked over for having hung.
const LOOK_OVER: Duration = Duration::from_secs(1);
const READ_BYTES: usize = 64 * 1024;

/// The exchange on each connection.
#[derive(Debug, Clone)]
pub struct Exchange {
    request: Vec<u8>,
    zeros: u64,
    answer_bytes: u64,
}

impl Exchange {
    /// One byte asked, `answer_bytes` expected.
    #[must_use]
    pub fn short(answer_bytes: u64) -> Self {
        Self {
            request: vec![SHORT],
            zeros: 0,
            answer_bytes,
        }
    }

    /// Sends `bytes` (at least 1), discarded by the server. A header, not counted, announces more than
    /// one byte.
    #[must_use]
    pub fn sink(bytes: u64) -> Self {
        if bytes <= 1 {
            return Self {
                request: vec![ONE_BYTE_SINK],
                zeros: 0,
                answer_bytes: 0,
            };
        }
        let request = Request::Sink {
            length_bytes: bytes,
        }
        .encode()
        .to_vec();
        Self {
            request,
            zeros: bytes,
            answer_bytes: 0,
        }
    }
}

/// How a run went.
#[derive(Debug, Default)]
pub struct Churned {
    /// Connections with a complete exchange.
    pub completed: u64,
    /// Failed connections.
    pub errors: u64,
    /// The first error.
    pub first_error: Option<Error>,
    /// From the first connect to the last end.
    pub elapsed: Duration,
    failures_in_a_row: u64,
}

impl Churned {
    /// Whole connections per second.
    #[must_use]
    pub fn per_second(&self) -> f64 {
        let seconds = self.elapsed.as_secs_f64();
        if seconds > 0.0 {
            self.completed as f64 / seconds
        } else {
            0.0
        }
    }

    fn succeed(&mut self) {
        self.completed += 1;
        self.failures_in_a_row = 0;
    }

    fn fail(&mut self, error: Error) {
        self.errors += 1;
        self.failures_in_a_row += 1;
        self.first_error.get_or_insert(error);
    }
}

#[derive(Debug)]
struct Slot {
    socket: OwnedFd,
    to: SocketAddr,
    since: Instant,
    sent_bytes: u64,
    received_bytes: u64,
}

/// Runs connections to the addresses from `next`, `concurrency` at a time, until it returns
/// `None`. A connection longer than `wait` is an error.
///
/// # Errors
/// [`Error::Io`] when epoll fails. Failed connections are counted in [`Churned`].
pub fn run(
    next: impl FnMut() -> Option<SocketAddr>,
    exchange: &Exchange,
    concurrency: usize,
    wait: Duration,
) -> Result<Churned> {
    let mut churn = Churn {
        next,
        exchange,
        wait,
        poller: Poller::new()?,
        slots: (0..concurrency).map(|_| None).collect(),
        open: 0,
        exhausted: false,
        done: Churned::default(),
        room: vec![0; READ_BYTES],
    };
    let begin = Instant::now();
    churn.run(begin)?;
    churn.done.elapsed = begin.elapsed();
    Ok(churn.done)
}

struct Churn<'a, F> {
    next: F,
    exchange: &'a Exchange,
    wait: Duration,
    poller: Poller,
    slots: Vec<Option<Slot>>,
    open: usize,
    exhausted: bool,
    done: Churned,
    room: Vec<u8>,
}

impl<F: FnMut() -> Option<SocketAddr>> Churn<'_, F> {
    fn run(&mut self, begin: Instant) -> Result<()> {
        for token in 0..self.slots.len() {
            self.refill(token, begin)?;
        }
        let mut ready = Vec::new();
        let mut looked_over = begin;
        while self.open > 0 {
            ready.clear();
            ready.extend_from_slice(self.poller.wait(Some(LOOK_OVER))?);
            let now = Instant::now();
            for event in &ready {
                self.advance(event.token, event.peer_finished, now)?;
            }
            if now - looked_over >= LOOK_OVER {
                looked_over = now;
                self.give_up_on_hung(now)?;
            }
        }
        Ok(())
    }

    /// Puts the next connection into a free slot; leaves it empty when there is none.
    fn refill(&mut self, token: usize, now: Instant) -> Result<()> {
        while !self.exhausted {
            let hopeless = self.done.failures_in_a_row >= HOPELESS;
            let Some(to) = (self.next)().filter(|_| !hopeless) else {
                self.exhausted = true;
                return Ok(());
            };
            match net::start_connect(to, ConnectOptions::default()) {
                Ok(socket) => {
                    self.poller.add(&socket, token, Interest::Edges)?;
                    let slot = Slot {
                        socket,
                        to,
                        since: now,
                        sent_bytes: 0,
                        received_bytes: 0,
                    };
                    self.slots[token] = Some(slot);
                    self.open += 1;
                    return Ok(());
                }
                Err(error) => self.done.fail(error),
            }
        }
        Ok(())
    }

    fn advance(&mut self, token: usize, peer_finished: bool, now: Instant) -> Result<()> {
        let Some(slot) = self.slots.get_mut(token).and_then(Option::as_mut) else {
            return Ok(());
        };
        let outcome = match slot.step(self.exchange, peer_finished, &mut self.room) {
            Ok(false) => return Ok(()),
            Ok(true) => slot.verdict(self.exchange),
            Err(error) => Err(error),
        };
        match outcome {
            Ok(()) => self.done.succeed(),
            Err(error) => self.done.fail(error),
        }
        self.release(token, now)
    }

    fn release(&mut self, token: usize, now: Instant) -> Result<()> {
        self.slots[token] = None;
        self.open -= 1;
        self.refill(token, now)
    }

    fn give_up_on_hung(&mut self, now: Instant) -> Result<()> {
        for token in 0..self.slots.len() {
            let Some(slot) = &self.slots[token] else {
                continue;
            };
            if now - slot.since > self.wait {
                self.done.fail(Error::Timeout {
                    action: "waiting for an answer",
                    wait: self.wait,
                });
                self.release(token, now)?;
            }
        }
        Ok(())
    }
}

impl Slot {
    /// Goes on after an edge; true once the peer has closed.
    fn step(&mut self, exchange: &Exchange, finished: bool, room: &mut [u8]) -> Result<bool> {
        if !self.send(exchange)? {
            return Ok(false);
        }
        loop {
            match net::receive(&self.socket, room).map_err(Error::io("receiving"))? {
                None => return Ok(false),
                Some(0) => return Ok(true),
                Some(bytes) => {
                    self.received_bytes += bytes as u64;
                    if bytes < room.len() {
                        // The FIN either was there with the data, or will be a new edge.
                        return Ok(finished);
                    }
                }
            }
        }
    }

    /// Sends the rest of the request; true once all is sent and the edge was not for that.
    fn send(&mut self, exchange: &Exchange) -> Result<bool> {
        let request_bytes = exchange.request.len() as u64;
        let total_bytes = request_bytes + exchange.zeros;
        if self.sent_bytes == total_bytes {
            return Ok(true);
        }
        while self.sent_bytes < total_bytes {
            let header = usize::try_from(self.sent_bytes).unwrap_or(usize::MAX);
            let head = exchange.request.get(header..).unwrap_or_default();
            let left = total_bytes - self.sent_bytes - head.len() as u64;
            let block = usize::try_from(left).unwrap_or(usize::MAX).min(ZEROS.len());
            let sent = net::send_pair(&self.socket, head, &ZEROS[..block]);
            match sent.map_err(|source| self.send_error(source))? {
                None => return Ok(false),
                Some(bytes) => self.sent_bytes += bytes as u64,
            }
        }
        // Nothing can have been answered yet, and an answer will be an edge of its own.
        Ok(false)
    }

    fn send_error(&self, source: std::io::Error) -> Error {
        if self.sent_bytes == 0 {
            Error::Connect {
                to: self.to,
                source,
            }
        } else {
            Error::io("sending")(source)
        }
    }

    fn verdict(&self, exchange: &Exchange) -> Result<()> {
        if self.received_bytes == exchange.answer_bytes {
            return Ok(());
        }
        Err(Error::Answer {
            answered_bytes: self.received_bytes,
            expected_bytes: exchange.answer_bytes,
        })
    }
}
