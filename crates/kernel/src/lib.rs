//! The only crate that knows libbpf: what this kernel can do, and the pilot's programs and maps.
//!
//! Everything is attached by links that the process owns: when it goes, by whatever cause, the kernel
//! detaches. Nothing is pinned.

mod error;
mod pilot;
mod socket;

pub mod host;

pub use error::Error;
pub use pilot::{Pilot, RunStats};
pub use socket::{AlgorithmSource, load_algorithm, netns_cookie, own_netns_cookie};

/// Sends libbpf's own messages to `tracing` at debug level instead of standard error.
pub fn log_libbpf_by_tracing() {
    libbpf_rs::set_print(Some((libbpf_rs::PrintLevel::Debug, |_, message| {
        tracing::debug!(target: "libbpf", "{}", message.trim_end());
    })));
}
