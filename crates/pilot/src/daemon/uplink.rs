//! Finds out whether a queue of this host is often full. If so, all connections compete there, and a held-out
//! connection gains or loses by the steering of the others. Then only all connections at once can be compared
//! (docs/understand/decisions/19-effect.md).

use std::{
    collections::{HashMap, VecDeque},
    fs, io,
    time::Duration,
};

use tcpilot_netlink::device::index_of;
use tcpilot_netlink::tc::{Device, Stats};

/// Interval between looks at the queues.
pub const EVERY: Duration = Duration::from_secs(10);
/// Remembered looks: those of an hour.
const LOOKS: usize = 360;
/// The least looks for an answer.
const LOOKS_LEAST: usize = 30;
/// Looks out of ten with a full queue, to count as often full.
const OFTEN: usize = 1;

/// The last looks at the queues of this namespace's devices.
#[derive(Debug, Default)]
pub struct Uplinks {
    drops: HashMap<String, u32>,
    looks: HashMap<String, VecDeque<bool>>,
}

impl Uplinks {
    /// Looks at all queues; skips a device without an answer.
    pub fn look(&mut self) {
        let devices = fs::read_dir("/sys/class/net").into_iter().flatten();
        let names = devices.flatten().map(|entry| entry.file_name());
        let names: Vec<String> = names.filter_map(|name| name.into_string().ok()).collect();
        self.looks.retain(|known, _| names.contains(known));
        self.drops.retain(|known, _| names.contains(known));
        for name in names.into_iter().filter(|name| name != "lo") {
            if let Ok(Some(stats)) = root_stats(&name) {
                self.note(&name, &stats);
            }
        }
    }

    /// Notes a look. A queue is full if packets wait in it, or were dropped since the last look.
    fn note(&mut self, name: &str, stats: &Stats) {
        let before = self.drops.insert(name.to_owned(), stats.drops);
        let has_dropped = before.is_some_and(|before| stats.drops != before);
        let looks = self.looks.entry(name.to_owned()).or_default();
        looks.push_back(has_dropped || stats.backlog_packets > 0);
        if looks.len() > LOOKS {
            looks.pop_front();
        }
    }

    /// Whether some queue is full at one look in ten; `None` after too few looks.
    pub fn is_often_full(&self) -> Option<bool> {
        let known = self
            .looks
            .values()
            .filter(|looks| looks.len() >= LOOKS_LEAST);
        let is_full = |looks: &VecDeque<bool>| {
            let full = looks.iter().filter(|full| **full).count();
            10 * full >= OFTEN * looks.len()
        };
        known.map(is_full).reduce(|one, other| one || other)
    }
}

/// The counts of the root qdisc, the first in the kernel's list; `None` if the device has no queue.
fn root_stats(name: &str) -> io::Result<Option<Stats>> {
    let device = Device::new(index_of(name))?;
    let Some(root) = device.qdiscs()?.into_iter().next() else {
        return Ok(None);
    };
    Ok(device.qdisc_stats(root.handle)?.map(|(_, stats)| stats))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stats(backlog_packets: u32, drops: u32) -> Stats {
        Stats {
            backlog_packets,
            drops,
            ..Stats::default()
        }
    }

    #[test]
    fn queue_is_often_full_at_one_in_ten() {
        for full in [stats(7, 0), stats(0, 3)] {
            let mut uplinks = Uplinks::default();
            let mut drops = 0;
            for look in 0..100 {
                let now = if look % 10 == 9 { &full } else { &stats(0, 0) };
                drops += now.drops;
                uplinks.note("eth0", &stats(now.backlog_packets, drops));
                assert!(look > 28 || uplinks.is_often_full().is_none(), "too early");
            }
            assert_eq!(uplinks.is_often_full(), Some(true));
            for _ in 0..2 * LOOKS {
                uplinks.note("eth0", &stats(0, drops));
            }
            assert_eq!(uplinks.is_often_full(), Some(false), "an hour later");
        }
    }

    #[test]
    fn the_queues_of_this_host_can_be_read() {
        let mut uplinks = Uplinks::default();
        uplinks.look();
        assert_eq!(uplinks.is_often_full(), None);
    }
}
