//! One accepted connection: its client's request, and its progress.

use super::download::Download;
use crate::meter::ArrivalMeter;
use crate::net::{self, Discarder, Interest, ZEROS};
use crate::protocol::{
    ECHO, MAGIC, ONE_BYTE_SINK, QUIT, RECEIVER_REPORT_BYTES, REQUEST_BYTES, Request, SHORT,
};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Instant;

/// Echo is for trickles; more than this waits in the kernel.
const ECHO_BYTES: usize = 4096;

/// A connection's next step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Call again when the socket is ready for this.
    Wait(Interest),
    /// Close it.
    Done,
}

#[derive(Debug)]
enum State {
    /// The first bytes decide; a header may come in pieces.
    Greeting {
        have: usize,
        raw: [u8; REQUEST_BYTES],
    },
    /// Counting an upload until the client half-closes.
    Upload(ArrivalMeter),
    /// Sending frames.
    Download(Box<Download>),
    /// Frames sent, the counters are final once the client has reported its bytes.
    Receipt {
        download: Box<Download>,
        have: usize,
    },
    /// Discarding an announced number of bytes.
    Sink { left_bytes: u64 },
    /// Sending zeros, then closing.
    Filler { left_bytes: u64 },
    /// Sending a report, then closing.
    Reply { bytes: Vec<u8>, sent: usize },
    /// Reading a request (`sending` false) or writing its response, in turn.
    Exchange {
        request_bytes: u64,
        response_bytes: u64,
        sending: bool,
        left_bytes: u64,
    },
    /// Echoes its input; `pending` did not fit yet, `quit` marks the last of it.
    Echo { pending: Vec<u8>, quit: bool },
}

/// A socket and its state.
#[derive(Debug)]
pub struct Connection {
    socket: OwnedFd,
    state: State,
    short_bytes: u64,
    /// The events that the epoll set waits for now.
    pub interest: Interest,
}

impl Connection {
    /// Wraps a connection that has just been accepted.
    pub fn new(socket: OwnedFd, short_bytes: u64) -> Self {
        let state = State::Greeting {
            have: 0,
            raw: [0; REQUEST_BYTES],
        };
        Self {
            socket,
            state,
            short_bytes,
            interest: Interest::Read,
        }
    }

    /// Its socket.
    pub fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Goes on until the socket blocks or the connection has had its turn. Errors end it: they
    /// are the client's to report, which sees them from its own side.
    pub fn advance(&mut self, discarder: &mut Discarder) -> Step {
        loop {
            match self.turn(discarder) {
                Ok(Some(step)) => return step,
                Ok(None) => {}
                Err(_) => return Step::Done,
            }
        }
    }

    /// One call to the socket; `None` when the state has changed and there is more to do.
    fn turn(&mut self, discarder: &mut Discarder) -> io::Result<Option<Step>> {
        match &mut self.state {
            State::Greeting { .. } => self.greet(),
            State::Upload(meter) => match discarder.discard(&self.socket, u64::MAX)? {
                Some(0) => {
                    let bytes = meter.report().encode().to_vec();
                    self.state = State::Reply { bytes, sent: 0 };
                    Ok(None)
                }
                Some(bytes) => {
                    meter.add(bytes, Instant::now());
                    Ok(Some(Step::Wait(Interest::Read)))
                }
                None => Ok(Some(Step::Wait(Interest::Read))),
            },
            State::Download(download) => {
                if !download.send(&self.socket)? {
                    return Ok(Some(Step::Wait(Interest::Write)));
                }
                let download = std::mem::take(download);
                self.state = State::Receipt { download, have: 0 };
                Ok(None)
            }
            State::Receipt { .. } => self.take_receipt(),
            State::Sink { left_bytes } => match discarder.discard(&self.socket, *left_bytes)? {
                Some(0) => Ok(Some(Step::Done)),
                Some(bytes) => {
                    *left_bytes -= bytes as u64;
                    Ok(Some(done_when(*left_bytes == 0, Interest::Read)))
                }
                None => Ok(Some(Step::Wait(Interest::Read))),
            },
            State::Filler { left_bytes } => {
                let block = usize::try_from(*left_bytes)
                    .unwrap_or(usize::MAX)
                    .min(ZEROS.len());
                let sent = net::send_some(&self.socket, &ZEROS[..block])?.unwrap_or(0);
                *left_bytes -= sent as u64;
                Ok(Some(done_when(*left_bytes == 0, Interest::Write)))
            }
            State::Reply { bytes, sent } => {
                *sent += net::send_some(&self.socket, &bytes[*sent..])?.unwrap_or(0);
                Ok(Some(done_when(*sent == bytes.len(), Interest::Write)))
            }
            State::Exchange { .. } => self.exchange(discarder),
            State::Echo { .. } => self.echo(),
        }
    }

    fn exchange(&mut self, discarder: &mut Discarder) -> io::Result<Option<Step>> {
        let State::Exchange {
            request_bytes,
            response_bytes,
            sending,
            left_bytes,
        } = &mut self.state
        else {
            return Ok(None);
        };
        let moved = if *sending {
            let block = usize::try_from(*left_bytes)
                .unwrap_or(usize::MAX)
                .min(ZEROS.len());
            net::send_some(&self.socket, &ZEROS[..block])?
        } else {
            match discarder.discard(&self.socket, *left_bytes)? {
                Some(0) => return Ok(Some(Step::Done)),
                other => other,
            }
        };
        let Some(bytes) = moved else {
            let interest = if *sending {
                Interest::Write
            } else {
                Interest::Read
            };
            return Ok(Some(Step::Wait(interest)));
        };
        *left_bytes -= bytes as u64;
        if *left_bytes == 0 {
            *sending = !*sending;
            *left_bytes = if *sending {
                *response_bytes
            } else {
                *request_bytes
            };
        }
        Ok(None)
    }

    fn greet(&mut self) -> io::Result<Option<Step>> {
        let State::Greeting { have, raw } = &mut self.state else {
            return Ok(None);
        };
        match net::receive(&self.socket, &mut raw[*have..])? {
            None => return Ok(Some(Step::Wait(Interest::Read))),
            Some(0) => return Ok(Some(Step::Done)),
            Some(bytes) => *have += bytes,
        }
        self.state = match raw[0] {
            SHORT => State::Filler {
                left_bytes: self.short_bytes,
            },
            ONE_BYTE_SINK => return Ok(Some(Step::Done)),
            ECHO => State::Echo {
                pending: raw[..*have].to_vec(),
                quit: false,
            },
            first if first == MAGIC[0] && *have < REQUEST_BYTES => return Ok(None),
            _ => match Request::decode(raw).map_err(io::Error::other)? {
                Request::Upload => State::Upload(ArrivalMeter::default()),
                Request::Download(limit) => {
                    State::Download(Box::new(Download::start(&self.socket, limit)?))
                }
                Request::Sink { length_bytes: 0 } => return Ok(Some(Step::Done)),
                Request::Sink { length_bytes } => State::Sink {
                    left_bytes: length_bytes,
                },
                Request::Exchange {
                    request_bytes,
                    response_bytes,
                } => State::Exchange {
                    request_bytes,
                    response_bytes,
                    sending: false,
                    left_bytes: request_bytes,
                },
            },
        };
        Ok(None)
    }

    fn take_receipt(&mut self) -> io::Result<Option<Step>> {
        let State::Receipt { download, have } = &mut self.state else {
            return Ok(None);
        };
        let mut room = [0; RECEIVER_REPORT_BYTES];
        match net::receive(&self.socket, &mut room[*have..])? {
            None => return Ok(Some(Step::Wait(Interest::Read))),
            Some(0) => return Ok(Some(Step::Done)),
            Some(bytes) => *have += bytes,
        }
        if *have == RECEIVER_REPORT_BYTES {
            let bytes = download.report(&self.socket)?.encode().to_vec();
            self.state = State::Reply { bytes, sent: 0 };
        }
        Ok(None)
    }

    fn echo(&mut self) -> io::Result<Option<Step>> {
        let State::Echo { pending, quit } = &mut self.state else {
            return Ok(None);
        };
        if pending.is_empty() {
            let mut room = [0; ECHO_BYTES];
            match net::receive(&self.socket, &mut room)? {
                None => return Ok(Some(Step::Wait(Interest::Read))),
                Some(0) => return Ok(Some(Step::Done)),
                Some(bytes) => {
                    *quit = room[bytes - 1] == QUIT;
                    let sent = net::send_some(&self.socket, &room[..bytes])?.unwrap_or(0);
                    pending.extend_from_slice(&room[sent..bytes]);
                }
            }
        } else {
            let sent = net::send_some(&self.socket, pending)?.unwrap_or(0);
            pending.drain(..sent);
        }
        if !pending.is_empty() {
            return Ok(Some(Step::Wait(Interest::Write)));
        }
        // Thousands of idle connections should not hold a buffer each.
        *pending = Vec::new();
        Ok(Some(done_when(*quit, Interest::Read)))
    }
}

fn done_when(done: bool, otherwise: Interest) -> Step {
    if done {
        Step::Done
    } else {
        Step::Wait(otherwise)
    }
}
