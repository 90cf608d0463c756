//! `abort`: transfers that end badly on purpose.

use crate::error::{Error, Result};
use crate::net::{self, ConnectOptions, DISCARD_BYTES, Discarder, ZEROS};
use crate::protocol::{Limit, Request};
use rustix::event::PollFlags;
use rustix::net::sockopt;
use serde::Serialize;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// How the connection ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum How {
    /// The client uploads, then sends RST (`SO_LINGER` 0).
    Reset,
    /// The client downloads, stops reading, and leaves with data unread.
    Vanish,
}

/// Options of `abort`.
#[derive(Debug, Clone, Copy)]
pub struct AbortOptions {
    /// The server.
    pub to: SocketAddr,
    /// Bytes transferred before the end.
    pub bytes: u64,
    /// How it ends.
    pub how: How,
    /// Time between the last read and leaving, while the sender's buffers fill (vanish).
    pub stall: Duration,
    /// Longest wait for progress.
    pub wait: Duration,
}

/// The result, as printed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AbortReport {
    /// How it ended.
    pub how: How,
    /// Bytes handed to the kernel (reset) or read from it (vanish).
    pub bytes: u64,
    /// The client's address.
    pub local: SocketAddr,
}

/// Transfers and breaks off. The socket is closed on return.
///
/// # Errors
/// When it could not come so far.
pub fn run(options: &AbortOptions) -> Result<AbortReport> {
    let socket = net::connect(options.to, ConnectOptions::default(), options.wait)?;
    let local = net::local_address(&socket).map_err(Error::io("reading the local address"))?;
    match options.how {
        How::Reset => {
            send(&socket, &Request::Upload.encode(), options.wait)?;
            let mut left_bytes = options.bytes;
            while left_bytes > 0 {
                let block = usize::try_from(left_bytes)
                    .unwrap_or(usize::MAX)
                    .min(ZEROS.len());
                send(&socket, &ZEROS[..block], options.wait)?;
                left_bytes -= block as u64;
            }
            sockopt::set_socket_linger(&socket, Some(Duration::ZERO))
                .map_err(Error::io("setting SO_LINGER"))?;
        }
        How::Vanish => {
            // Twice any receive buffer, beyond the bytes that will be read: the sender is
            // certainly in the middle when the reader leaves.
            let beyond_bytes = 64 * DISCARD_BYTES as u64;
            let wanted = Limit::Bytes(options.bytes.saturating_add(beyond_bytes));
            send(&socket, &Request::Download(wanted).encode(), options.wait)?;
            read(&socket, options.bytes, options.wait)?;
            std::thread::sleep(options.stall);
        }
    }
    Ok(AbortReport {
        how: options.how,
        bytes: options.bytes,
        local,
    })
}

fn send(socket: &OwnedFd, mut bytes: &[u8], wait: Duration) -> Result<()> {
    while !bytes.is_empty() {
        match net::send_some(socket, bytes).map_err(Error::io("sending"))? {
            Some(sent) => bytes = &bytes[sent..],
            None => patience(
                net::wait_for(socket, PollFlags::OUT, wait)?,
                "sending",
                wait,
            )?,
        }
    }
    Ok(())
}

fn read(socket: &OwnedFd, bytes: u64, wait: Duration) -> Result<()> {
    let action = "receiving";
    let deadline = Instant::now() + wait;
    let mut discarder = Discarder::default();
    let mut left_bytes = bytes;
    while left_bytes > 0 {
        match discarder
            .discard(socket, left_bytes)
            .map_err(Error::io(action))?
        {
            Some(0) => return Err(Error::Closed { action }),
            Some(got) => left_bytes -= got as u64,
            None => {
                let left = deadline.saturating_duration_since(Instant::now());
                patience(net::wait_for(socket, PollFlags::IN, left)?, action, wait)?;
            }
        }
    }
    Ok(())
}

fn patience(ready: bool, action: &'static str, wait: Duration) -> Result<()> {
    if ready {
        Ok(())
    } else {
        Err(Error::Timeout { action, wait })
    }
}
