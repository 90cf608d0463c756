//! `hold`: many connections kept open, each proven alive by the echo of what was sent on it.

use crate::error::{Error, Result};
use crate::net::{self, ConnectOptions, Discarder, Interest, Poller, ZEROS};
use crate::protocol::ECHO;
use serde::Serialize;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// Connections that are being opened at the same time.
const OPENING: usize = 256;
/// Shortest time between two sends on a connection; higher rates send more at a time.
const SHORTEST_INTERVAL_SECONDS: f64 = 0.1;
/// Longest wait for events before the schedule is looked at again.
const LONGEST_NAP: Duration = Duration::from_millis(200);

/// What `hold` can be told.
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

/// What is printed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HoldReport {
    /// Connections that the server has answered on.
    pub opened: usize,
    /// Connections that returned every byte, the one sent last included.
    pub alive_at_end: usize,
    /// Connections that could not be opened, broke, or fell silent.
    pub errors: usize,
    /// Bytes that came back.
    pub bytes: u64,
    /// What went wrong first.
    pub first_error: Option<String>,
}

#[derive(Debug)]
struct Held {
    socket: OwnedFd,
    sent_bytes: u64,
    echoed_bytes: u64,
}

struct Hold<'a> {
    options: &'a HoldOptions,
    poller: Poller,
    held: Vec<Option<Held>>,
    discarder: Discarder,
    /// Started, and neither answered nor failed.
    opening: usize,
    opened: usize,
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
        opening: 0,
        opened: 0,
        errors: 0,
        bytes: 0,
        first_error: None,
    };
    hold.open()?;
    hold.trickle()?;
    let alive_at_end = hold.take_stock()?;
    Ok(HoldReport {
        opened: hold.opened,
        alive_at_end,
        errors: hold.errors,
        bytes: hold.bytes,
        first_error: hold.first_error.as_ref().map(Error::with_remedy),
    })
}

impl Hold<'_> {
    /// Opens all; the echo of the first byte says that the server has taken a connection.
    fn open(&mut self) -> Result<()> {
        let mut progress = Instant::now();
        while self.held.len() < self.options.connections || self.opening > 0 {
            while self.held.len() < self.options.connections && self.opening < OPENING {
                self.start_one()?;
            }
            let before = self.opened + self.errors;
            self.collect(LONGEST_NAP)?;
            if self.opened + self.errors > before {
                progress = Instant::now();
            } else if progress.elapsed() > self.options.wait {
                self.drop_silent("opening");
                return Ok(());
            }
        }
        Ok(())
    }

    fn start_one(&mut self) -> Result<()> {
        let token = self.held.len();
        self.opening += 1;
        match net::start_connect(self.options.to, ConnectOptions::default()) {
            Ok(socket) => {
                self.poller.add(&socket, token, Interest::Write)?;
                self.held.push(Some(Held {
                    socket,
                    sent_bytes: 0,
                    echoed_bytes: 0,
                }));
            }
            Err(error) => {
                self.held.push(None);
                self.opening -= 1;
                self.count_error(error);
            }
        }
        Ok(())
    }

    fn fail(&mut self, token: usize, error: Error) {
        if let Some(held) = self.held[token].take() {
            self.opening -= usize::from(held.echoed_bytes == 0);
            self.count_error(error);
        }
    }

    fn count_error(&mut self, error: Error) {
        self.errors += 1;
        self.first_error.get_or_insert(error);
    }

    /// Waits once and takes what came; true when something did.
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
        if held.sent_bytes == 0 {
            let to = self.options.to;
            let sent = net::send_some(&held.socket, &[ECHO])
                .map_err(|source| Error::Connect { to, source })?;
            if sent.is_none() {
                return Ok(());
            }
            held.sent_bytes = 1;
            return self.poller.modify(&held.socket, token, Interest::Read);
        }
        let action = "holding a connection";
        match self
            .discarder
            .discard(&held.socket, u64::MAX)
            .map_err(Error::io(action))?
        {
            None => Ok(()),
            Some(0) => Err(Error::Closed { action }),
            Some(bytes) => {
                if held.echoed_bytes == 0 {
                    self.opened += 1;
                    self.opening -= 1;
                }
                held.echoed_bytes += bytes as u64;
                self.bytes += bytes as u64;
                Ok(())
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
            // The clock stops at the end, so that the number of sends does not depend on luck.
            let elapsed = begin.elapsed().min(self.options.time);
            let due = (elapsed.as_secs_f64() / interval_seconds * count as f64) as u64;
            while turn < due {
                self.send((turn % count as u64) as usize, chunk);
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

    fn send(&mut self, token: usize, bytes: usize) {
        let Some(held) = self.held.get_mut(token).and_then(Option::as_mut) else {
            return;
        };
        match net::send_some(&held.socket, &ZEROS[..bytes]) {
            Ok(sent) => held.sent_bytes += sent.unwrap_or(0) as u64,
            Err(source) => self.fail(token, Error::io("holding a connection")(source)),
        }
    }

    /// Sends a last byte on each, waits for the echoes and counts who returned everything.
    fn take_stock(&mut self) -> Result<usize> {
        for token in 0..self.held.len() {
            self.send(token, 1);
        }
        let mut progress = Instant::now();
        while self.silent().next().is_some() {
            if self.collect(LONGEST_NAP)? {
                progress = Instant::now();
            } else if progress.elapsed() > self.options.wait {
                break;
            }
        }
        self.drop_silent("waiting for the last echo");
        Ok(self.held.iter().flatten().count())
    }

    fn silent(&self) -> impl Iterator<Item = usize> + '_ {
        self.held.iter().enumerate().filter_map(|(token, held)| {
            held.as_ref()
                .filter(|held| held.echoed_bytes < held.sent_bytes.max(1))
                .map(|_| token)
        })
    }

    fn drop_silent(&mut self, action: &'static str) {
        for token in self.silent().collect::<Vec<_>>() {
            self.fail(
                token,
                Error::Timeout {
                    action,
                    wait: self.options.wait,
                },
            );
        }
    }
}
