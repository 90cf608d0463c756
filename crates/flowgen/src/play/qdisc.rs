//! Counters of a qdisc over rtnetlink (rtnetlink(7), include/uapi/linux/gen_stats.h): a socket
//! per namespace, opened before the measured time, and no process started to read it.

use super::netns;
use super::plan::Queue;
use crate::error::{Error, Result};
use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

const HEADER_BYTES: usize = 16;
const TCMSG_BYTES: usize = 20;
const RTM_NEWQDISC: u16 = 36;
const RTM_GETQDISC: u16 = 38;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const REQUEST_DUMP: u16 = 0x301;
const TCA_KIND: u16 = 1;
const TCA_STATS2: u16 = 7;
const STATS_BASIC: u16 = 1;
const STATS_QUEUE: u16 = 3;
const STATS_APP: u16 = 4;
const ANSWER_BYTES: usize = 64 * 1024;

/// Counters of one qdisc.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct QdiscStats {
    /// Its kind, such as `fq_codel`.
    pub kind: String,
    /// Bytes waiting.
    pub backlog_bytes: u32,
    /// Packets waiting.
    pub backlog_packets: u32,
    /// Packets dropped since it was made.
    pub drops: u32,
    /// Packets marked since it was made; `None` where this kind does not say.
    pub marks: Option<u32>,
    /// Bytes sent since it was made.
    pub sent_bytes: u64,
    /// Packets sent since it was made.
    pub sent_packets: u32,
}

/// Reads the counters of one qdisc.
#[derive(Debug)]
pub struct QdiscReader {
    socket: OwnedFd,
    interface: i32,
    handle: u32,
    answer: Vec<u8>,
}

impl QdiscReader {
    /// Opens a socket in the queue's namespace.
    ///
    /// # Errors
    /// [`Error::Io`] for the socket, [`Error::Usage`] for a device that is not there.
    pub fn open(queue: &Queue) -> Result<Self> {
        let missing = || Error::Usage(format!("plan: there is no device {}", queue.device));
        let name = CString::new(queue.device.as_str()).map_err(|_| missing())?;
        netns::inside(queue.netns.as_deref(), || {
            // SAFETY: `name` is a terminated string that outlives the call.
            let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
            if index == 0 {
                return Err(missing());
            }
            let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
            // SAFETY: no pointers; the result is checked before it is owned.
            let raw = unsafe { libc::socket(libc::AF_NETLINK, kind, libc::NETLINK_ROUTE) };
            if raw < 0 {
                return Err(Error::io("opening a netlink socket")(
                    io::Error::last_os_error(),
                ));
            }
            Ok(Self {
                // SAFETY: a new descriptor that nobody else has.
                socket: unsafe { OwnedFd::from_raw_fd(raw) },
                interface: index.cast_signed(),
                handle: u32::from(queue.handle) << 16,
                answer: vec![0; ANSWER_BYTES],
            })
        })
    }

    /// The counters now; `None` when there is no such qdisc.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn read(&mut self) -> Result<Option<QdiscStats>> {
        let failed = Error::io::<io::Error>;
        let request = request(self.interface);
        rustix::net::send(&self.socket, &request, rustix::net::SendFlags::empty())
            .map_err(Error::io("asking for a qdisc"))?;
        let mut found = None;
        loop {
            // SAFETY: the buffer is valid for its length and not used elsewhere meanwhile.
            let got = unsafe {
                libc::recv(
                    self.socket.as_raw_fd(),
                    self.answer.as_mut_ptr().cast(),
                    self.answer.len(),
                    0,
                )
            };
            let Ok(got) = usize::try_from(got) else {
                return Err(failed("reading a qdisc")(io::Error::last_os_error()));
            };
            match find(&self.answer[..got], self.interface, self.handle) {
                Answer::More(stats) => found = stats.or(found),
                Answer::Done(stats) => return Ok(stats.or(found)),
                Answer::Error(code) => {
                    return Err(failed("reading a qdisc")(io::Error::from_raw_os_error(
                        code,
                    )));
                }
            }
        }
    }
}

fn request(interface: i32) -> [u8; HEADER_BYTES + TCMSG_BYTES] {
    let mut out = [0; HEADER_BYTES + TCMSG_BYTES];
    let length = out.len() as u32;
    out[..4].copy_from_slice(&length.to_ne_bytes());
    out[4..6].copy_from_slice(&RTM_GETQDISC.to_ne_bytes());
    out[6..8].copy_from_slice(&REQUEST_DUMP.to_ne_bytes());
    out[HEADER_BYTES + 4..HEADER_BYTES + 8].copy_from_slice(&interface.to_ne_bytes());
    out
}

enum Answer {
    More(Option<QdiscStats>),
    Done(Option<QdiscStats>),
    Error(i32),
}

/// The wanted qdisc among the messages of one datagram.
fn find(mut raw: &[u8], interface: i32, handle: u32) -> Answer {
    let mut found = None;
    while let (Some(length), Some(kind)) = (u32_at(raw, 0), u16_at(raw, 4)) {
        let length = length as usize;
        let Some(body) = raw.get(HEADER_BYTES..length) else {
            break;
        };
        match kind {
            NLMSG_DONE => return Answer::Done(found),
            NLMSG_ERROR => return Answer::Error(-(u32_at(body, 0).unwrap_or(0).cast_signed())),
            RTM_NEWQDISC
                if u32_at(body, 4) == Some(interface.cast_unsigned())
                    && u32_at(body, 8) == Some(handle) =>
            {
                found = Some(decode(body.get(TCMSG_BYTES..).unwrap_or_default()));
            }
            _ => {}
        }
        raw = raw.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Answer::More(found)
}

fn decode(attributes: &[u8]) -> QdiscStats {
    let mut stats = QdiscStats::default();
    let mut application: &[u8] = &[];
    each(attributes, |kind, value| match kind {
        TCA_KIND => {
            let text = value.split(|&byte| byte == 0).next().unwrap_or_default();
            stats.kind = String::from_utf8_lossy(text).into_owned();
        }
        TCA_STATS2 => each(value, |kind, value| match kind {
            STATS_BASIC => {
                stats.sent_bytes = u64_at(value, 0).unwrap_or(0);
                stats.sent_packets = u32_at(value, 8).unwrap_or(0);
            }
            STATS_QUEUE => {
                stats.backlog_packets = u32_at(value, 0).unwrap_or(0);
                stats.backlog_bytes = u32_at(value, 4).unwrap_or(0);
                stats.drops = u32_at(value, 8).unwrap_or(0);
            }
            STATS_APP => application = value,
            _ => {}
        }),
        _ => {}
    });
    stats.marks = marks_offset(&stats.kind).and_then(|offset| u32_at(application, offset));
    stats
}

/// Where a kind keeps its count of ECN marks (include/uapi/linux/pkt_sched.h): `tc_codel_xstats`,
/// `tc_fq_codel_xstats` (after its type), `tc_red_xstats`, `tc_pie_xstats`.
fn marks_offset(kind: &str) -> Option<usize> {
    match kind {
        "codel" => Some(24),
        "fq_codel" | "red" => Some(12),
        "pie" => Some(36),
        _ => None,
    }
}

fn each<'a>(mut raw: &'a [u8], mut visit: impl FnMut(u16, &'a [u8])) {
    while let (Some(length), Some(kind)) = (u16_at(raw, 0), u16_at(raw, 2)) {
        let length = usize::from(length);
        let Some(value) = raw.get(4..length) else {
            return;
        };
        visit(kind & 0x3fff, value);
        raw = raw.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
}

fn u16_at(raw: &[u8], offset: usize) -> Option<u16> {
    let bytes = raw.get(offset..offset + 2)?.try_into().ok()?;
    Some(u16::from_ne_bytes(bytes))
}

fn u32_at(raw: &[u8], offset: usize) -> Option<u32> {
    let bytes = raw.get(offset..offset + 4)?.try_into().ok()?;
    Some(u32::from_ne_bytes(bytes))
}

fn u64_at(raw: &[u8], offset: usize) -> Option<u64> {
    let bytes = raw.get(offset..offset + 8)?.try_into().ok()?;
    Some(u64::from_ne_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        out.extend(((value.len() + 4) as u16).to_ne_bytes());
        out.extend(kind.to_ne_bytes());
        out.extend(value);
        out.resize(out.len().next_multiple_of(4), 0);
        out
    }

    fn words(values: &[u32]) -> Vec<u8> {
        values.iter().flat_map(|v| v.to_ne_bytes()).collect()
    }

    fn message() -> Vec<u8> {
        let basic = [&9000u64.to_ne_bytes()[..], &words(&[6, 0])].concat();
        let stats = [
            attribute(STATS_BASIC, &basic),
            attribute(STATS_QUEUE, &words(&[2, 3000, 5, 0, 0])),
            attribute(STATS_APP, &words(&[0, 1514, 0, 7])),
        ]
        .concat();
        let body = [
            words(&[0, 3, 0x10_0000, 0, 0]),
            attribute(TCA_KIND, b"fq_codel\0"),
            attribute(TCA_STATS2, &stats),
        ]
        .concat();
        let mut out = words(&[(body.len() + HEADER_BYTES) as u32]);
        out.extend(RTM_NEWQDISC.to_ne_bytes());
        out.extend([0; 10]);
        out.extend(body);
        out
    }

    #[test]
    fn counters_are_found_by_interface_and_handle() {
        let expected = QdiscStats {
            kind: "fq_codel".into(),
            backlog_bytes: 3000,
            backlog_packets: 2,
            drops: 5,
            marks: Some(7),
            sent_bytes: 9000,
            sent_packets: 6,
        };
        assert!(
            matches!(find(&message(), 3, 0x10_0000), Answer::More(Some(stats)) if stats == expected)
        );
        assert!(matches!(find(&message(), 4, 0x10_0000), Answer::More(None)));
        assert!(matches!(find(&message(), 3, 0x20_0000), Answer::More(None)));
    }

    #[test]
    fn a_cut_message_is_no_qdisc() {
        let whole = message();
        for length in 0..whole.len() {
            assert!(matches!(
                find(&whole[..length], 3, 0x10_0000),
                Answer::More(None)
            ));
        }
    }
}
