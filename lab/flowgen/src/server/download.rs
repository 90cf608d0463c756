//! The sending side of a download: frames until the limit, then an empty frame.

use crate::net::{self, BLOCK_BYTES, ZEROS};
use crate::protocol::{FRAME_HEADER_BYTES, Limit, SenderReport};
use crate::tcp_info::TcpInfo;
use rustix::net::sockopt;
use std::io;
use std::os::fd::AsFd;
use std::time::Instant;

/// Calls before other connections get a turn.
const BLOCKS_PER_TURN: usize = 8;
/// Payload of a frame when time decides: header and payload make one block, so the sender is
/// never more than a block late in stopping.
const TIMED_PAYLOAD_BYTES: u64 = (BLOCK_BYTES - FRAME_HEADER_BYTES) as u64;

#[derive(Debug, Clone, Copy, Default)]
enum Frames {
    /// One frame of this many bytes.
    Whole(u64),
    /// Frames until then.
    Until(Instant),
    /// The empty frame.
    #[default]
    End,
    /// Nothing: the empty frame is on its way.
    Nothing,
}

/// How far the frames have come.
#[derive(Debug, Default)]
pub struct Download {
    cc_start: String,
    next: Frames,
    header: [u8; FRAME_HEADER_BYTES],
    header_left_bytes: usize,
    payload_left_bytes: u64,
}

impl Download {
    /// Starts the clock and notes the congestion control.
    pub fn start(socket: impl AsFd, limit: Limit) -> io::Result<Self> {
        // Without this the last partial segment waits for a whole round trip (Nagle) and the
        // receiver's time would include it.
        sockopt::set_tcp_nodelay(&socket, true)?;
        let next = match limit {
            Limit::Bytes(0) => Frames::End,
            Limit::Bytes(bytes) => Frames::Whole(bytes),
            Limit::Time(time) => Instant::now()
                .checked_add(time)
                .map_or(Frames::Whole(u64::MAX), Frames::Until),
        };
        Ok(Self {
            cc_start: net::congestion_control(&socket),
            next,
            ..Self::default()
        })
    }

    /// Sends as much as fits; true once the kernel has everything.
    pub fn send(&mut self, socket: impl AsFd) -> io::Result<bool> {
        for _ in 0..BLOCKS_PER_TURN {
            if self.header_left_bytes == 0 && self.payload_left_bytes == 0 && !self.open_frame() {
                return Ok(true);
            }
            let head = &self.header[FRAME_HEADER_BYTES - self.header_left_bytes..];
            let room = BLOCK_BYTES - head.len();
            let block = usize::try_from(self.payload_left_bytes)
                .unwrap_or(room)
                .min(room);
            let offered = head.len() + block;
            let sent = net::send_pair(&socket, head, &ZEROS[..block])?.unwrap_or(0);
            let of_header = sent.min(self.header_left_bytes);
            self.header_left_bytes -= of_header;
            self.payload_left_bytes -= (sent - of_header) as u64;
            if sent < offered {
                break;
            }
        }
        Ok(false)
    }

    /// Prepares the next frame; false when there is none.
    fn open_frame(&mut self) -> bool {
        let length_bytes = match self.next {
            Frames::Nothing => return false,
            Frames::Whole(bytes) => {
                self.next = Frames::End;
                bytes
            }
            Frames::Until(deadline) if Instant::now() < deadline => TIMED_PAYLOAD_BYTES,
            Frames::Until(_) | Frames::End => {
                self.next = Frames::Nothing;
                0
            }
        };
        self.header = length_bytes.to_le_bytes();
        self.header_left_bytes = FRAME_HEADER_BYTES;
        self.payload_left_bytes = length_bytes;
        true
    }

    /// The kernel's counters at the end.
    pub fn report(&self, socket: impl AsFd) -> io::Result<SenderReport> {
        Ok(SenderReport {
            cc_start: self.cc_start.clone(),
            cc_end: net::congestion_control(&socket),
            info: TcpInfo::read(&socket)?,
        })
    }
}
