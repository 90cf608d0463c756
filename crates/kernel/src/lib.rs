//! The only crate that uses libbpf: this kernel's facilities, the programs and maps of the pilot and the
//! watch, and the congestion controls.
//!
//! The process owns the pilot's links: when the process ends, for any reason, the kernel
//! detaches it. Nothing of it is pinned. Congestion controls are pinned only if a user asks for it, see
//! [`cc`].

mod claim;
mod error;
mod fail_stop;
mod mapping;
mod object;
mod pilot;
mod process;
mod refusal;
mod socket;
mod stop;
mod trace;
mod types;

pub mod cc;
pub mod clock;
pub mod codel;
pub mod host;
pub mod wall_clock;
pub mod watch;

pub use error::Error;
pub use fail_stop::end_on_panic;
pub use pilot::{
    ASSIGNMENT_BUCKETS, AssignmentBuckets, ChoiceDists, ConnStarts, Costs, Descriptors, Ends,
    Entries, Heartbeat, Keys, LearnerDescriptors, LearnerKeys, Legacy, Live, MOVES, MoveRequest,
    NetnsEnds, NodeSecrets, Pilot, Put, Records, RunStats, Sampler, Tally, check_free,
};
pub use pilot::{PROGRAM, sockops_programs};
pub use process::{become_program, inherited, take_signals, try_program};
pub use refusal::Refusal;
pub use socket::{AlgorithmSource, living_netns, load_algorithm, netns_cookie, own_netns_cookie};
pub use stop::stop_flag;
pub use tcpilot_file::{self as file, lock::try_lock};

/// Sends libbpf's own messages to `tracing` at debug level instead of standard error. Call it after
/// `tracing` has its subscriber: if it does not want them, libbpf's thousands of messages are not even
/// formatted.
pub fn log_libbpf_by_tracing() {
    let wanted = tracing::enabled!(target: "libbpf", tracing::Level::DEBUG);
    let print: libbpf_rs::PrintCallback = |_, message| {
        tracing::debug!(target: "libbpf", "{}", message.trim_end());
    };
    libbpf_rs::set_print(wanted.then_some((libbpf_rs::PrintLevel::Debug, print)));
}
