//! Multipath QUIC over links of namespaces: its shares of links, and its messages when it fails.
//!
//! Needs root, and a flowgen with the feature `mpquic`: `tests/run.sh mpquic` builds it.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "clippy takes only the test functions themselves for tests, not their helpers"
)]

mod dying;
mod failing;
mod links;
mod sharing;
mod watch;
