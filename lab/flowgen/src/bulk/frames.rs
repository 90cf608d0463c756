//! The receiving side of a download: frame headers are read, payload is discarded.

use crate::meter::ArrivalMeter;
use crate::net::{self, Discarder};
use crate::protocol::FRAME_HEADER_BYTES;
use std::io;
use std::os::fd::AsFd;
use std::time::Instant;

/// The result of one look at the socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pull {
    /// Something; there may be more.
    Progress,
    /// Nothing now.
    Blocked,
    /// The empty frame: the data is complete.
    End,
    /// The peer closed before the empty frame.
    Closed,
}

/// The stream's place in a frame.
#[derive(Debug, Default)]
pub struct FrameReader {
    header: [u8; FRAME_HEADER_BYTES],
    have: usize,
    payload_left_bytes: u64,
}

impl FrameReader {
    /// Receives once.
    pub fn pull(
        &mut self,
        socket: impl AsFd,
        discarder: &mut Discarder,
        meter: &mut ArrivalMeter,
    ) -> io::Result<Pull> {
        if self.payload_left_bytes > 0 {
            return Ok(match discarder.discard(socket, self.payload_left_bytes)? {
                None => Pull::Blocked,
                Some(0) => Pull::Closed,
                Some(bytes) => {
                    meter.add(bytes, Instant::now());
                    self.payload_left_bytes -= bytes as u64;
                    Pull::Progress
                }
            });
        }
        match net::receive(socket, &mut self.header[self.have..])? {
            None => return Ok(Pull::Blocked),
            Some(0) => return Ok(Pull::Closed),
            Some(bytes) => self.have += bytes,
        }
        if self.have < FRAME_HEADER_BYTES {
            return Ok(Pull::Progress);
        }
        self.have = 0;
        self.payload_left_bytes = u64::from_le_bytes(self.header);
        Ok(if self.payload_left_bytes == 0 {
            Pull::End
        } else {
            Pull::Progress
        })
    }
}
