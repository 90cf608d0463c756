//! What live connections had shown when they were told of last, so that each byte teaches once.

use std::collections::HashMap;

use tcpilot_abi::{TP_RECORD_SAMPLE, tp_record};

use super::translate::{Totals, has};

/// Long and busy connections are few: a host that has more of them at once than this forgets some, and
/// their next record teaches from the beginning.
const MOST: usize = 65536;

/// By the sockets' cookies.
#[derive(Debug, Default)]
pub struct Long {
    told: HashMap<u64, Totals>,
}

impl Long {
    /// What this record's connection had shown before; notes what it has shown now, or that it ended.
    pub fn follow(&mut self, record: &tp_record) -> Option<Totals> {
        if record.cookie == 0 {
            return None; // it was never sampled
        }
        if !has(record, TP_RECORD_SAMPLE) {
            return self.told.remove(&record.cookie);
        }
        if self.told.len() >= MOST && !self.told.contains_key(&record.cookie) {
            self.forget_silent();
        }
        self.told.insert(record.cookie, Totals::of(record))
    }

    /// Forgets the half that has been silent for longest: the ends of some may have been dropped.
    fn forget_silent(&mut self) {
        let mut times: Vec<u64> = self.told.values().map(|told| told.at_ns).collect();
        let (_, &mut median, _) = times.select_nth_unstable(MOST / 2);
        self.told.retain(|_, told| told.at_ns > median);
    }
}

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

    #[test]
    fn each_record_follows_the_last_one_of_its_connection() {
        let mut long = Long::default();
        assert_eq!(long.follow(&record(7, 1, TP_RECORD_SAMPLE)), None);
        assert_eq!(long.follow(&record(8, 2, TP_RECORD_SAMPLE)), None);
        assert_eq!(
            long.follow(&record(7, 3, TP_RECORD_SAMPLE)).unwrap().at_ns,
            1
        );
        assert_eq!(long.follow(&record(7, 4, 0)).unwrap().at_ns, 3);
        assert_eq!(long.follow(&record(7, 5, 0)), None);
        assert_eq!(long.follow(&record(0, 5, TP_RECORD_SAMPLE)), None);
        assert_eq!(long.follow(&record(0, 6, 0)), None);
    }

    #[test]
    fn connections_whose_end_was_lost_do_not_pile_up() {
        let mut long = Long::default();
        for cookie in 1..=3 * MOST as u64 {
            long.follow(&record(cookie, cookie, TP_RECORD_SAMPLE));
        }
        assert!(long.told.len() <= MOST);
        let newest = 3 * MOST as u64;
        assert!(long.follow(&record(newest, 0, 0)).is_some());
    }
}
