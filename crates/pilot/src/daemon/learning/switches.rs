//! Counts per path since the start: rescued connections, undone rescues, and moves to a better algorithm.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use tcpilot_abi::{TP_RECORD_MOVED, TP_RECORD_RESCUED, TP_RECORD_UNDONE, tp_record};
use tcpilot_learner::{Level, MAX_ARMS, NodeKey};

use super::translate::{has, lineage};

/// Maximum number of counted paths. Few paths have long connections or lose packets at random. A host with
/// more such paths forgets all earlier counts.
const MOST: usize = 16384;

/// The counts of a path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Switched {
    /// Rescued connections.
    pub rescued: u64,
    /// Switched connections with their former algorithm back.
    pub undone: u64,
    /// Moves of connections.
    pub moved: u64,
    /// Connections rescued from each algorithm, in the learner's order.
    #[serde(default)]
    pub rescued_from: [u32; MAX_ARMS],
}

/// The counts of all paths of a policy.
#[derive(Debug, Default)]
pub struct Switches(HashMap<NodeKey, Switched>);

impl Switches {
    /// Counts a record, if it reports a switch; `arm` is the learner's number of the algorithm before it.
    pub fn count(&mut self, record: &tp_record, arm: Option<usize>) {
        let flags = [TP_RECORD_RESCUED, TP_RECORD_UNDONE, TP_RECORD_MOVED];
        let [rescued, undone, moved] = flags.map(|flag| u64::from(has(record, flag)));
        if rescued + undone + moved == 0 {
            return;
        }
        if self.0.len() >= MOST {
            self.0.clear();
        }
        let path = self.0.entry(lineage(record).node(Level::Path)).or_default();
        path.rescued += rescued;
        path.undone += undone;
        path.moved += moved;
        if let Some(from) = arm.and_then(|arm| path.rescued_from.get_mut(arm)) {
            *from += rescued as u32;
        }
    }

    /// The counts of a former daemon.
    pub fn of_all(all: impl Iterator<Item = (NodeKey, Switched)>) -> Switches {
        Switches(all.take(MOST).collect())
    }

    /// All paths with their counts.
    pub fn all(&self) -> impl Iterator<Item = (&NodeKey, &Switched)> {
        self.0.iter()
    }

    /// The counts of a path.
    pub fn of(&self, path: &NodeKey) -> Switched {
        self.0.get(path).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use tcpilot_abi::TP_RECORD_SAMPLE;

    use super::*;

    #[test]
    fn each_path_has_counts_of_its_own() {
        let record = |host: u8, flag: u32| tp_record {
            remote: [
                0,
                0,
                0xffff_u32.to_be(),
                u32::from_be_bytes([10, 0, 0, host]).to_be(),
            ],
            flags: (TP_RECORD_SAMPLE | flag) as u8,
            ..Default::default()
        };
        let mut switches = Switches::default();
        for (host, flag) in [
            (1, TP_RECORD_RESCUED),
            (1, TP_RECORD_UNDONE),
            (1, TP_RECORD_RESCUED),
            (2, TP_RECORD_RESCUED),
            (2, TP_RECORD_MOVED),
            (3, 0),
        ] {
            switches.count(&record(host, flag), Some(1));
        }
        let of = |host| {
            let path = lineage(&record(host, 0)).node(Level::Path);
            let Switched {
                rescued,
                undone,
                moved,
                rescued_from,
            } = switches.of(&path);
            assert_eq!(u64::from(rescued_from[1]), rescued);
            (rescued, undone, moved)
        };
        assert_eq!((of(1), of(2), of(3)), ((2, 1, 0), (1, 0, 1), (0, 0, 0)));
        assert_eq!(switches.0.len(), 2);
    }
}
