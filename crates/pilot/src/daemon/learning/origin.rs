//! The origin of a path, and the counts that belong to no policy: a leaf, which others may use freely.

use serde::{Deserialize, Serialize};

/// The origin of paths: paths to one address are learned separately for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// The cookie of their network namespace.
    pub netns_cookie: u64,
    /// The number of the interface that they leave the host by; 0 if all interfaces share a path.
    pub egress: u16,
}

/// Counts that belong to no policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SharedCounts {
    /// Records that came.
    pub records: u64,
    /// Records for which the ring had no room.
    pub dropped: u64,
    /// Times that choice distributions were written.
    pub publications: u64,
}
