//! The only crate that knows libbpf: this kernel's facilities, the pilot's and the watch's programs and maps,
//! and the congestion controls.
//!
//! The pilot is attached by links that the process owns: when it goes, by whatever cause, the kernel
//! detaches. Nothing of it is pinned. Congestion controls are pinned if a user asks for it, see [`cc`].

mod claim;
mod error;
mod lock;
mod object;
mod pilot;
mod process;
mod socket;

pub mod cc;
pub mod codel;
pub mod host;
pub mod watch;

pub use error::Error;
pub use lock::try_lock;
pub use pilot::{
    CELLS, Cells, Descriptors, Ends, Entries, Heartbeat, Keys, LearnerDescriptors, LearnerKeys,
    Legacy, MOVES, Move, Pilot, Put, Records, RowSecrets, Rows, RunStats, Sampler, Tally,
    check_free,
};
pub use process::{become_program, inherited, take_signals, try_program};
pub use socket::{AlgorithmSource, load_algorithm, netns_cookie, own_netns_cookie};

/// Sends libbpf's own messages to `tracing` at debug level instead of standard error.
pub fn log_libbpf_by_tracing() {
    libbpf_rs::set_print(Some((libbpf_rs::PrintLevel::Debug, |_, message| {
        tracing::debug!(target: "libbpf", "{}", message.trim_end());
    })));
}
