//! The starts of open connections (`bpf/pilot/conn_starts.h`), counted by path.

use std::collections::HashMap;

use libbpf_rs::{MapCore, MapFlags, MapHandle};
use tcpilot_abi::{from_bytes, tp_conn_start_bucket};
use tcpilot_core::choice_dist::{DistPlace, assignment_tag};

use super::choice_dists::NodeSecrets;
use crate::{Error, object::map_error};

/// Buckets read at once.
const BATCH: u32 = 1024;

/// Reads the connection starts. A connection has one from its opening to its end, in whatever namespace it is.
pub struct ConnStarts {
    starts: MapHandle,
    secrets: NodeSecrets,
}

/// The open connections at one time.
#[derive(Clone, Debug, Default)]
pub struct Live {
    /// By the hash of their path, their class, and their policy.
    counts: HashMap<(u32, u16, u8), u32>,
    secrets: NodeSecrets,
}

impl ConnStarts {
    pub(super) fn new(starts: MapHandle, secrets: NodeSecrets) -> ConnStarts {
        ConnStarts { starts, secrets }
    }

    /// Counts the open connections. It reads all connection starts: some milliseconds for a full table.
    ///
    /// # Errors
    /// [`Error::Map`] if the starts cannot be read.
    pub fn live(&self) -> Result<Live, Error> {
        let action = "count open connections";
        let all = self
            .starts
            .lookup_batch(BATCH, MapFlags::ANY, MapFlags::ANY);
        let mut counts = HashMap::new();
        for (_, value) in all.map_err(map_error(action))? {
            let bucket = from_bytes::<tp_conn_start_bucket>(&value);
            let starts = bucket.iter().flat_map(|bucket| &bucket.way);
            for start in starts.filter(|start| start.tag != 0) {
                *counts
                    .entry((start.path, start.class, start.policy))
                    .or_default() += 1;
            }
        }
        Ok(Live {
            counts,
            secrets: self.secrets,
        })
    }
}

impl Live {
    /// All open connections.
    pub fn total(&self) -> u64 {
        self.counts.values().map(|count| u64::from(*count)).sum()
    }

    /// The open connections of a path. The hash has 32 bits: of 100,000 paths of one class two may count each
    /// other's with a probability of one half.
    pub fn of(&self, path: &DistPlace) -> u32 {
        let key = (assignment_tag(&self.secrets, path), path.class, path.policy);
        self.counts.get(&key).copied().unwrap_or(0)
    }
}
