//! How often connections of a path were rescued, and how often that was undone, since the start.

use std::collections::HashMap;

use tcpilot_abi::{TP_RECORD_MOVED, TP_RECORD_RESCUED, Why, tp_record};
use tcpilot_learner::{Level, NodeKey};

use super::{taught::lineage, translate::has};

/// Paths that lose packets at random are few. A host that has more of them forgets the earlier ones.
const MOST: usize = 16384;

/// Of a path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rescued {
    /// Connections that were switched.
    pub made: u64,
    /// Of these, those that got their former algorithm back.
    pub undone: u64,
}

/// Of all paths of a policy.
#[derive(Debug, Default)]
pub struct Rescues(HashMap<NodeKey, Rescued>);

impl Rescues {
    /// Counts a record, if it tells of a rescue.
    pub fn count(&mut self, record: &tp_record) {
        let made = has(record, TP_RECORD_RESCUED);
        // Until then the connection was rescued.
        let undone = has(record, TP_RECORD_MOVED) && Why::from_number(record.why) == Why::Rescued;
        if !made && !undone {
            return;
        }
        if self.0.len() >= MOST {
            self.0.clear();
        }
        let path = self.0.entry(lineage(record).node(Level::Path)).or_default();
        path.made += u64::from(made);
        path.undone += u64::from(undone);
    }

    /// What is known of a path.
    pub fn of(&self, path: &NodeKey) -> Rescued {
        self.0.get(path).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use tcpilot_abi::TP_RECORD_SAMPLE;

    use super::*;

    #[test]
    fn each_path_has_counts_of_its_own() {
        let record = |host: u8, flag: u32, why: Why| tp_record {
            remote: [
                0,
                0,
                0xffff_u32.to_be(),
                u32::from_be_bytes([10, 0, 0, host]).to_be(),
            ],
            flags: (TP_RECORD_SAMPLE | flag) as u8,
            why: why as u8,
            ..Default::default()
        };
        let mut rescues = Rescues::default();
        for (host, flag, why) in [
            (1, TP_RECORD_RESCUED, Why::Drawn),
            (1, TP_RECORD_MOVED, Why::Rescued),
            (1, TP_RECORD_RESCUED, Why::Undone),
            (2, TP_RECORD_RESCUED, Why::NoRow),
            (3, 0, Why::Drawn),
        ] {
            rescues.count(&record(host, flag, why));
        }
        let of = |host| {
            let path = lineage(&record(host, 0, Why::Drawn)).node(Level::Path);
            let rescued = rescues.of(&path);
            (rescued.made, rescued.undone)
        };
        assert_eq!((of(1), of(2), of(3)), ((2, 1), (1, 0), (0, 0)));
        assert_eq!(rescues.0.len(), 2);
    }
}
