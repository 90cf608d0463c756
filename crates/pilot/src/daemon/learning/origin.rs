//! The origin of a path, and the counts that belong to no policy: a leaf module, free for all others to use.

use serde::{Deserialize, Serialize};

/// The origin of paths: paths to one address are learned separately for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// The cookie of their network namespace.
    pub netns_cookie: u64,
    /// The number of the outgoing interface; 0 if all interfaces share a path.
    pub egress: u16,
}

/// Counts that belong to no policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SharedCounts {
    /// Received records.
    pub records: u64,
    /// Records lost because the ring was full.
    pub dropped: u64,
    /// Number of times choice distributions were written.
    pub publications: u64,
}
