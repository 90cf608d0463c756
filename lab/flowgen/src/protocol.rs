//! Bytes on the wire. The client speaks first; its first byte decides.
//!
//! | first byte | meaning |
//! |---|---|
//! | `S` | short: the server answers its fixed number of bytes and closes |
//! | `O` | one-byte sink: the server closes |
//! | `E` | echo: the server returns every byte, this one included, and closes after a `Q` |
//! | `F` | a 24-byte [`Request`] header follows (`FLWG`, version, kind, …) |
//!
//! *Upload*: the client sends until it half-closes; the server answers one
//! [`ReceiverReport`]. *Download*: the server sends frames (u64 length, then that many bytes), a
//! frame of length 0 ends the data; the client answers its [`ReceiverReport`], and only then, so
//! that the counters are final, does the server send one [`SenderReport`]. *Sink*: the server
//! reads the announced number of bytes and closes first. This leaves TIME_WAIT and its port on
//! the server, as the `Q` of an echo does. *Exchange*: again and again the client sends the
//! announced request and the server answers the announced response, until the client closes.
//! Integers are little-endian.

use crate::error::{Error, Result};
use crate::tcp_info::TcpInfo;
use std::time::Duration;

/// Whole first message of the short mode.
pub const SHORT: u8 = b'S';
/// Whole first message of a sink of exactly one byte.
pub const ONE_BYTE_SINK: u8 = b'O';
/// First byte of the echo mode.
pub const ECHO: u8 = b'E';
/// Byte of the echo mode that makes the server close, once it has been returned.
pub const QUIT: u8 = b'Q';
/// First bytes of a [`Request`] header.
pub const MAGIC: [u8; 4] = *b"FLWG";
/// Bytes of an encoded [`Request`].
pub const REQUEST_BYTES: usize = 24;
/// Bytes of an encoded [`ReceiverReport`].
pub const RECEIVER_REPORT_BYTES: usize = 24;
/// Bytes of an encoded [`SenderReport`].
pub const SENDER_REPORT_BYTES: usize = 64;
/// Bytes of a frame's length field.
pub const FRAME_HEADER_BYTES: usize = 8;
/// Kernel's `TCP_CA_NAME_MAX`, which bounds a congestion control's name.
pub const CC_NAME_BYTES: usize = 16;

const VERSION: u8 = 2;
const KIND_BULK: u8 = 1;
const KIND_SINK: u8 = 2;
const KIND_EXCHANGE: u8 = 3;
const TO_SERVER: u8 = 1;
const TO_CLIENT: u8 = 2;

/// When a bulk sender stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// After this many bytes.
    Bytes(u64),
    /// When this much time has passed.
    Time(Duration),
}

/// A client's request, in a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request {
    /// The client sends until it half-closes.
    Upload,
    /// The server sends.
    Download(Limit),
    /// The client sends this many bytes after the header; the server then closes.
    Sink {
        /// Bytes after the header.
        length_bytes: u64,
    },
    /// Requests and responses in turn, on one connection.
    Exchange {
        /// Bytes of each request, at least 1.
        request_bytes: u64,
        /// Bytes of each response, at least 1.
        response_bytes: u64,
    },
}

impl Request {
    /// Header as sent. Durations are carried in microseconds.
    #[must_use]
    pub fn encode(&self) -> [u8; REQUEST_BYTES] {
        let (kind, direction, length_bytes, duration_us) = match *self {
            Self::Upload => (KIND_BULK, TO_SERVER, 0, 0),
            Self::Download(Limit::Bytes(bytes)) => (KIND_BULK, TO_CLIENT, bytes, 0),
            Self::Download(Limit::Time(time)) => (
                KIND_BULK,
                TO_CLIENT,
                0,
                u64::try_from(time.as_micros()).unwrap_or(u64::MAX),
            ),
            Self::Sink { length_bytes } => (KIND_SINK, TO_SERVER, length_bytes, 0),
            Self::Exchange {
                request_bytes,
                response_bytes,
            } => (KIND_EXCHANGE, TO_SERVER, request_bytes, response_bytes),
        };
        let mut out = [0; REQUEST_BYTES];
        out[..4].copy_from_slice(&MAGIC);
        out[4] = VERSION;
        out[5] = kind;
        out[6] = direction;
        out[8..16].copy_from_slice(&length_bytes.to_le_bytes());
        out[16..24].copy_from_slice(&duration_us.to_le_bytes());
        out
    }

    /// Reads a header.
    ///
    /// # Errors
    /// [`Error::Protocol`] for a foreign magic, another version or an unknown kind.
    pub fn decode(raw: &[u8; REQUEST_BYTES]) -> Result<Self> {
        if raw[..4] != MAGIC {
            return Err(Error::Protocol("not a flowgen client".into()));
        }
        if raw[4] != VERSION {
            return Err(Error::Protocol(format!(
                "version {} spoken, {VERSION} known",
                raw[4]
            )));
        }
        let length_bytes = u64_at(raw, 8);
        match (raw[5], raw[6], u64_at(raw, 16)) {
            (KIND_BULK, TO_SERVER, _) => Ok(Self::Upload),
            (KIND_BULK, TO_CLIENT, 0) => Ok(Self::Download(Limit::Bytes(length_bytes))),
            (KIND_BULK, TO_CLIENT, us) => {
                Ok(Self::Download(Limit::Time(Duration::from_micros(us))))
            }
            (KIND_SINK, TO_SERVER, _) => Ok(Self::Sink { length_bytes }),
            (KIND_EXCHANGE, TO_SERVER, response_bytes @ 1..) if length_bytes > 0 => {
                Ok(Self::Exchange {
                    request_bytes: length_bytes,
                    response_bytes,
                })
            }
            (kind, direction, _) => Err(Error::Protocol(format!(
                "unknown request {kind}, direction {direction}"
            ))),
        }
    }
}

/// The receiving side's figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReceiverReport {
    /// Payload bytes that arrived.
    pub bytes: u64,
    /// Time between the arrival of the first and of the last byte.
    pub first_to_last: Duration,
    /// Longest pause in the received data between the first byte and the last.
    pub standstill: Duration,
}

impl ReceiverReport {
    /// Report as sent.
    #[must_use]
    pub fn encode(&self) -> [u8; RECEIVER_REPORT_BYTES] {
        let mut out = [0; RECEIVER_REPORT_BYTES];
        let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        out[..8].copy_from_slice(&self.bytes.to_le_bytes());
        out[8..16].copy_from_slice(&nanos(self.first_to_last).to_le_bytes());
        out[16..].copy_from_slice(&nanos(self.standstill).to_le_bytes());
        out
    }

    /// Reads a report; every bit pattern is one.
    #[must_use]
    pub fn decode(raw: &[u8; RECEIVER_REPORT_BYTES]) -> Self {
        Self {
            bytes: u64_at(raw, 0),
            first_to_last: Duration::from_nanos(u64_at(raw, 8)),
            standstill: Duration::from_nanos(u64_at(raw, 16)),
        }
    }
}

/// The sending side's counters of the connection, from its kernel.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SenderReport {
    /// Congestion control right after the connection was established.
    pub cc_start: String,
    /// Congestion control at the end.
    pub cc_end: String,
    /// Counters at the end.
    pub info: TcpInfo,
}

impl SenderReport {
    /// Report as sent. Names longer than the kernel allows are cut.
    #[must_use]
    pub fn encode(&self) -> [u8; SENDER_REPORT_BYTES] {
        let mut out = [0; SENDER_REPORT_BYTES];
        put_name(&mut out[..16], &self.cc_start);
        put_name(&mut out[16..32], &self.cc_end);
        out[32..36].copy_from_slice(&self.info.retransmits.to_le_bytes());
        // The kernel's own word for "no sample yet" is all ones.
        let min_rtt_us = self.info.min_rtt_us.unwrap_or(u32::MAX);
        out[36..40].copy_from_slice(&min_rtt_us.to_le_bytes());
        out[40..44].copy_from_slice(&self.info.srtt_us.to_le_bytes());
        out[48..56].copy_from_slice(&self.info.delivery_rate_bytes_per_s.to_le_bytes());
        out[56..64].copy_from_slice(&self.info.acked_bytes.to_le_bytes());
        out
    }

    /// Reads a report. Names that are not UTF-8 are repaired, not refused.
    #[must_use]
    pub fn decode(raw: &[u8; SENDER_REPORT_BYTES]) -> Self {
        let min_rtt_us = u32_at(raw, 36);
        Self {
            cc_start: name(&raw[..16]),
            cc_end: name(&raw[16..32]),
            info: TcpInfo {
                retransmits: u32_at(raw, 32),
                min_rtt_us: (min_rtt_us != u32::MAX).then_some(min_rtt_us),
                srtt_us: u32_at(raw, 40),
                delivery_rate_bytes_per_s: u64_at(raw, 48),
                acked_bytes: u64_at(raw, 56),
                ..TcpInfo::default()
            },
        }
    }
}

fn put_name(field: &mut [u8], name: &str) {
    // One byte stays zero, as in the kernel's own name field.
    let length = name.len().min(CC_NAME_BYTES - 1);
    field[..length].copy_from_slice(&name.as_bytes()[..length]);
}

fn name(field: &[u8]) -> String {
    let end = field
        .iter()
        .position(|&byte| byte == 0)
        .unwrap_or(field.len());
    String::from_utf8_lossy(&field[..end]).into_owned()
}

/// Little-endian u64 at `offset`; 0 if the bytes are too short.
fn u64_at(raw: &[u8], offset: usize) -> u64 {
    raw.get(offset..offset + 8)
        .and_then(|bytes| bytes.try_into().ok())
        .map_or(0, u64::from_le_bytes)
}

/// Little-endian u32 at `offset`; 0 if the bytes are too short.
fn u32_at(raw: &[u8], offset: usize) -> u32 {
    raw.get(offset..offset + 4)
        .and_then(|bytes| bytes.try_into().ok())
        .map_or(0, u32::from_le_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_survive_the_wire() {
        for request in [
            Request::Upload,
            Request::Download(Limit::Bytes(0)),
            Request::Download(Limit::Bytes(u64::MAX)),
            Request::Download(Limit::Time(Duration::from_millis(1500))),
            Request::Sink { length_bytes: 7 },
            Request::Exchange {
                request_bytes: 1,
                response_bytes: 9,
            },
        ] {
            assert_eq!(Request::decode(&request.encode()).unwrap(), request);
        }
    }

    #[test]
    fn header_layout_is_fixed() {
        let raw = Request::Download(Limit::Bytes(0x0102)).encode();
        let expected = b"FLWG\x02\x01\x02\0\x02\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
        assert_eq!(&raw, expected);
    }

    #[test]
    fn foreign_headers_are_refused() {
        let good = Request::Upload.encode();
        for (offset, value) in [(0, b'G'), (4, 9), (5, 77), (6, 0)] {
            let mut bad = good;
            bad[offset] = value;
            assert!(
                matches!(Request::decode(&bad), Err(Error::Protocol(_))),
                "{offset}"
            );
        }
    }

    #[test]
    fn first_bytes_are_distinct() {
        let mut first = vec![SHORT, ONE_BYTE_SINK, ECHO, MAGIC[0]];
        first.sort_unstable();
        first.dedup();
        assert_eq!(first.len(), 4);
    }

    #[test]
    fn reports_survive_the_wire() {
        let report = ReceiverReport {
            bytes: 1 << 40,
            first_to_last: Duration::new(12, 345_678_901),
            standstill: Duration::new(1, 234_567_890),
        };
        assert_eq!(ReceiverReport::decode(&report.encode()), report);
        let mut sender = SenderReport {
            cc_start: "cubic".into(),
            cc_end: "bbr".into(),
            info: TcpInfo {
                retransmits: 3,
                min_rtt_us: Some(20_000),
                srtt_us: 21_000,
                delivery_rate_bytes_per_s: 1_250_000,
                acked_bytes: 99,
                ..TcpInfo::default()
            },
        };
        assert_eq!(SenderReport::decode(&sender.encode()), sender);
        sender.info.min_rtt_us = None;
        assert_eq!(SenderReport::decode(&sender.encode()), sender);
    }

    #[test]
    fn long_names_are_cut_to_the_kernels_limit() {
        let sender = SenderReport {
            cc_start: "x".repeat(40),
            ..SenderReport::default()
        };
        assert_eq!(
            SenderReport::decode(&sender.encode()).cc_start,
            "x".repeat(15)
        );
    }
}
