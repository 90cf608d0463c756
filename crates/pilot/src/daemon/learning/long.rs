//! Remembers the sums in the last record of each live connection, to count each byte only once.

use std::collections::HashMap;

use tcpilot_abi::{
    TP_RECORD_MOVED, TP_RECORD_RESCUED, TP_RECORD_SAMPLE, TP_RECORD_UNDONE, Why, tp_record,
};

use super::translate::{Totals, has};

/// The most connections to remember; long and busy ones are few. A host with more forgets some, and rejects
/// their next record.
const MOST: usize = 65536;

/// The records of a connection before the present one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Before {
    /// There was none: the present record is about the whole connection.
    Nothing,
    /// The last one had these sums.
    Told(Totals),
    /// They are not known: a former daemon got them, or this one forgot them.
    Unknown,
}

impl Before {
    /// The sums of the records so far, if known.
    pub fn totals(&self) -> Option<&Totals> {
        match self {
            Before::Told(totals) => Some(totals),
            Before::Nothing | Before::Unknown => None,
        }
    }
}

/// The memory of a connection.
#[derive(Clone, Copy, Debug)]
struct Kept {
    totals: Totals,
    /// Its samples with its present algorithm.
    samples: u32,
    /// When its algorithm was last changed (CLOCK_MONOTONIC); 0 for never.
    switched_ns: u64,
}

/// The sampled live connections, by the cookies of their sockets.
#[derive(Debug, Default)]
pub struct Long {
    told: HashMap<u64, Kept>,
    /// Connections opened before this time may have samples unknown to this daemon.
    since_ns: u64,
    /// Least bytes of a sampled connection.
    sample_bytes: u64,
}

impl Long {
    /// For a daemon started at this time (CLOCK_MONOTONIC). A former daemon may have sampled connections of
    /// `sample_bytes` or more.
    pub fn since(since_ns: u64, sample_bytes: u64) -> Long {
        Long {
            since_ns,
            sample_bytes,
            ..Long::default()
        }
    }

    /// The connection's records before this one. Notes the present sums, or the connection's end.
    pub fn follow(&mut self, record: &tp_record) -> Before {
        if record.cookie == 0 {
            return Before::Nothing; // without a cookie it was never sampled
        }
        let kept = self.told.get(&record.cookie).copied();
        let before = match &kept {
            Some(kept) => Before::Told(kept.totals),
            None if self.may_be_told(record) => Before::Unknown,
            None => Before::Nothing,
        };
        if has(record, TP_RECORD_SAMPLE) {
            self.keep(record, kept);
        } else {
            self.told.remove(&record.cookie);
        }
        before
    }

    fn may_be_told(&self, record: &tp_record) -> bool {
        record.opened_ns < self.since_ns && record.bytes_acked >= self.sample_bytes
    }

    fn keep(&mut self, record: &tp_record, before: Option<Kept>) {
        if before.is_none() && self.told.len() >= MOST {
            self.forget_inactive(record.at_ns);
        }
        let before = before.unwrap_or(Kept {
            totals: Totals::of(record),
            samples: 0,
            switched_ns: match Why::from_number(record.why) {
                // The switch came before this daemon knew the connection.
                Why::Rescued | Why::Undone | Why::Moved => record.at_ns,
                _ => 0,
            },
        });
        let is_switch = has(
            record,
            TP_RECORD_RESCUED | TP_RECORD_UNDONE | TP_RECORD_MOVED,
        );
        let kept = Kept {
            totals: Totals::of(record),
            samples: if is_switch { 0 } else { before.samples + 1 },
            switched_ns: if is_switch {
                record.at_ns
            } else {
                before.switched_ns
            },
        };
        self.told.insert(record.cookie, kept);
    }

    /// Whether a connection has enough samples with its algorithm, and was not switched within `every_ns`.
    pub fn is_settled(&self, record: &tp_record, every_ns: u64) -> bool {
        self.told.get(&record.cookie).is_some_and(|kept| {
            let had_ns = record.at_ns.saturating_sub(kept.switched_ns);
            kept.samples >= SAMPLES_MIN && (kept.switched_ns == 0 || had_ns >= every_ns)
        })
    }

    /// Forgets the half without a record for longest. The records of some ends may have been dropped.
    fn forget_inactive(&mut self, now_ns: u64) {
        let mut times: Vec<u64> = self.told.values().map(|kept| kept.totals.at_ns).collect();
        let (_, &mut median, _) = times.select_nth_unstable(MOST / 2);
        self.told.retain(|_, kept| kept.totals.at_ns > median);
        self.since_ns = now_ns;
    }
}

/// Connections with at least so many samples count as long.
const SAMPLES_MIN: u32 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    fn record(cookie: u64, at_ns: u64, flags: u32) -> tp_record {
        tp_record {
            cookie,
            at_ns,
            flags: flags as u8,
            ..Default::default()
        }
    }

    fn told(before: Before) -> Option<u64> {
        match before {
            Before::Told(totals) => Some(totals.at_ns),
            Before::Nothing => None,
            Before::Unknown => Some(u64::MAX),
        }
    }

    #[test]
    fn record_follows_its_connections_last_one() {
        let mut long = Long::default();
        let mut follow = |cookie, at_ns, flags| told(long.follow(&record(cookie, at_ns, flags)));
        assert_eq!(follow(7, 1, TP_RECORD_SAMPLE), None);
        assert_eq!(follow(8, 2, TP_RECORD_SAMPLE), None);
        assert_eq!(follow(7, 3, TP_RECORD_SAMPLE), Some(1));
        assert_eq!(follow(7, 4, 0), Some(3));
        assert_eq!(follow(7, 5, 0), None);
        assert_eq!(follow(0, 5, TP_RECORD_SAMPLE), None);
        assert_eq!(follow(0, 6, 0), None);
    }

    #[test]
    fn lost_ends_do_not_pile_up() {
        let mut long = Long::default();
        for cookie in 1..=3 * MOST as u64 {
            long.follow(&record(cookie, cookie, TP_RECORD_SAMPLE));
        }
        assert!(long.told.len() <= MOST);
        let newest = 3 * MOST as u64;
        assert!(matches!(
            long.follow(&record(newest, 0, 0)),
            Before::Told(_)
        ));
        assert_eq!(long.follow(&record(1, newest, 0)), Before::Unknown);
    }

    #[test]
    fn samples_of_a_former_daemon_are_unknown() {
        let mut long = Long::since(100, 1000);
        let of = |cookie, opened_ns, bytes_acked, flags| tp_record {
            opened_ns,
            bytes_acked,
            ..record(cookie, 200, flags)
        };
        assert_eq!(long.follow(&of(7, 99, 1000, 0)), Before::Unknown);
        assert_eq!(long.follow(&of(7, 99, 999, 0)), Before::Nothing);
        assert_eq!(long.follow(&of(7, 101, 1000, 0)), Before::Nothing);
        assert_eq!(long.follow(&of(0, 99, 1000, 0)), Before::Nothing);
        let sample = of(8, 99, 1000, TP_RECORD_SAMPLE);
        assert_eq!(long.follow(&sample), Before::Unknown);
        assert!(matches!(long.follow(&sample), Before::Told(_)));
    }

    #[test]
    fn connection_settles_after_samples_and_time() {
        let mut long = Long::default();
        let mut settled = |at_ns, flags| {
            let record = record(7, at_ns, TP_RECORD_SAMPLE | flags);
            long.follow(&record);
            long.is_settled(&record, 100)
        };
        assert!(!settled(10, 0));
        assert!(settled(20, 0));
        for (begun, switch) in [
            (1000, TP_RECORD_RESCUED),
            (2000, TP_RECORD_UNDONE),
            (3000, TP_RECORD_MOVED),
        ] {
            assert!(!settled(begun, switch));
            assert!(!settled(begun + 50, 0));
            assert!(!settled(begun + 99, 0));
            assert!(settled(begun + 100, 0));
        }
        let known = tp_record {
            why: Why::Moved as u8,
            ..record(8, 5000, TP_RECORD_SAMPLE)
        };
        for _ in 0..3 {
            long.follow(&known);
        }
        assert!(!long.is_settled(&known, 100), "a former daemon moved it");
        assert!(long.is_settled(
            &tp_record {
                at_ns: 5100,
                ..known
            },
            100
        ));
    }
}
