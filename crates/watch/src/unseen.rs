//! Packets out of the queue, unseen by the programs. Both the queue and the programs count packets on the
//! way out. A busy host may not run a program at every event, and then the counts differ.
//!
//! The two counts are read one after the other while packets pass. The packets in between are
//! subtracted, so the result is a lower bound.

use std::io;

use tcpilot_abi::tp_watch_totals;
use tcpilot_netlink::tc::{Device, Stats};

/// The counts of the queue and of the programs at about the same time.
#[derive(Clone, Debug)]
struct Point {
    /// Kind and handle of the queue: if they change, it is another queue.
    queue: (String, u32),
    sent: u32,
    /// Seen by the programs before and after `sent` was read.
    seen: (u64, u64),
}

/// Compares the two counts, from the first look on.
#[derive(Debug, Default)]
pub struct Unseen {
    first: Option<Point>,
    packets: u64,
    /// Unseen packets of former queues.
    before: u64,
    has_queue: Option<bool>,
}

/// Sent packets of all protocols.
fn left(totals: &tp_watch_totals) -> u64 {
    totals.out_packets
}

impl Unseen {
    /// Looks at both counts once more. Returns how many packets were not seen, at least; `None` if the
    /// device has no queue, or its counts cannot be read.
    pub fn look(&mut self, ifindex: u32, totals: impl Fn() -> tp_watch_totals) -> Option<u64> {
        let before = left(&totals());
        let found = root(ifindex);
        self.has_queue = found.as_ref().ok().map(Option::is_some);
        let (kind, handle, stats) = found.ok()??;
        let now = Point {
            queue: (kind, handle),
            sent: stats.packets,
            seen: (before, left(&totals())),
        };
        Some(self.compare(now))
    }

    /// Whether the device queued packets at the last look; `None` if unreadable.
    pub fn has_queue(&self) -> Option<bool> {
        self.has_queue
    }

    fn compare(&mut self, now: Point) -> u64 {
        let same = self.first.as_ref().filter(|first| first.queue == now.queue);
        match same {
            Some(first) => {
                let sent = u64::from(now.sent.wrapping_sub(first.sent));
                let seen_at_most = now.seen.1 - first.seen.0;
                self.packets = self.packets.max(sent.saturating_sub(seen_at_most));
            }
            None => {
                self.before += std::mem::take(&mut self.packets);
                self.first = Some(now);
            }
        }
        self.before + self.packets
    }
}

/// Whether the device queues packets.
pub fn has_queue(ifindex: u32) -> bool {
    root(ifindex).is_ok_and(|found| found.is_some())
}

/// The root qdisc's kind, handle and counters; `None` if the device does not queue packets.
fn root(ifindex: u32) -> io::Result<Option<(String, u32, Stats)>> {
    let found = Device::new(ifindex)?.root_stats()?;
    Ok(found.filter(|(kind, ..)| kind != "noqueue"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(handle: u32, sent: u32, seen: (u64, u64)) -> Point {
        Point {
            queue: ("tbf".to_owned(), handle),
            sent,
            seen,
        }
    }

    #[test]
    fn packets_between_two_readings_are_not_unseen() {
        let mut unseen = Unseen::default();
        assert_eq!(unseen.compare(point(1, 1000, (0, 20))), 0);
        assert_eq!(unseen.compare(point(1, 2000, (985, 1000))), 0);
        assert_eq!(unseen.compare(point(1, 3000, (1880, 1900))), 100);
        assert_eq!(
            unseen.compare(point(1, 3100, (2000, 2000))),
            100,
            "at least"
        );
    }

    #[test]
    fn new_queues_reset_counts_and_counters_wrap() {
        let mut unseen = Unseen::default();
        unseen.compare(point(1, u32::MAX - 9, (0, 0)));
        assert_eq!(unseen.compare(point(1, 90, (50, 50))), 50);
        assert_eq!(unseen.compare(point(2, 5, (60, 60))), 50);
        assert_eq!(unseen.compare(point(2, 15, (60, 60))), 60);
    }
}
