//! Counters of a qdisc over rtnetlink (rtnetlink(7)): a socket per namespace, opened before the measured
//! time, and no process started to read it.

use super::netns;
use super::plan::Queue;
use crate::error::{Error, Result};
use std::ffi::CString;
use tcpilot_netlink::tc::{Device, Stats};
use tcpilot_netlink::u32_at;

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
    /// Packets marked since it was made; `None` if this kind does not count them.
    pub marks: Option<u32>,
    /// Bytes sent since it was made.
    pub sent_bytes: u64,
    /// Packets sent since it was made.
    pub sent_packets: u32,
}

/// Reads the counters of one qdisc.
#[derive(Debug)]
pub struct QdiscReader {
    device: Device,
    handle: u32,
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
            Ok(Self {
                device: Device::new(index).map_err(Error::io("opening a netlink socket"))?,
                handle: u32::from(queue.handle) << 16,
            })
        })
    }

    /// The counters now; `None` when there is no such qdisc.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn read(&mut self) -> Result<Option<QdiscStats>> {
        let found = self.device.qdisc_stats(self.handle);
        let found = found.map_err(Error::io("reading a qdisc"))?;
        Ok(found.map(|(kind, stats)| named(kind, &stats)))
    }
}

fn named(kind: String, stats: &Stats) -> QdiscStats {
    QdiscStats {
        backlog_bytes: stats.backlog_bytes,
        backlog_packets: stats.backlog_packets,
        drops: stats.drops,
        marks: marks_offset(&kind).and_then(|offset| u32_at(&stats.own, offset)),
        sent_bytes: stats.bytes,
        sent_packets: stats.packets,
        kind,
    }
}

/// The offset of a kind's count of ECN marks (include/uapi/linux/pkt_sched.h): `tc_codel_xstats`,
/// `tc_fq_codel_xstats` (after its type), `tc_red_xstats`, `tc_pie_xstats`.
fn marks_offset(kind: &str) -> Option<usize> {
    match kind {
        "codel" => Some(24),
        "fq_codel" | "red" => Some(12),
        "pie" => Some(36),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_read_only_from_counting_qdiscs() {
        let own = [0u32, 1514, 0, 7]
            .iter()
            .flat_map(|word| word.to_ne_bytes());
        let stats = Stats {
            own: own.collect(),
            ..Stats::default()
        };
        assert_eq!(named("fq_codel".into(), &stats).marks, Some(7));
        assert_eq!(named("codel".into(), &stats).marks, None);
        assert_eq!(named("htb".into(), &stats).marks, None);
    }
}
