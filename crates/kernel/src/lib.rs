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
mod verifier;

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
pub use verifier::log_libbpf_by_tracing;
