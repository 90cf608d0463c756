//! Fuzz targets: each function takes any bytes and must return. A panic, an endless loop, a wrong access of the C
//! code (found by its sanitizers), or a broken promise of a reader is a fault.
//!
//! `make fuzz SECONDS=60` runs each target so long, from the inputs in `corpus/TARGET`. Inputs that once failed are
//! in `regressions/TARGET`; `cargo test -p tcpilot-fuzz` gives both to their target. Its test `mutations` changes known
//! inputs at random, many more of them than libFuzzer runs in the same time.
#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a panic is how a target reports"
)]

mod daemon;
mod fleet;
mod learner;
pub mod mutate;
pub mod watch;

pub use daemon::{config, netlink, protocol, state};
pub use fleet::fleet;
pub use learner::rows;
pub use watch::{capture, model, packets, rounds};

/// A target.
pub type Target = fn(&[u8]);

/// All targets, by name.
pub const TARGETS: [(&str, Target); 10] = [
    ("capture", capture),
    ("config", config),
    ("fleet", fleet),
    ("model", model),
    ("netlink", netlink),
    ("packets", packets),
    ("protocol", protocol),
    ("rounds", rounds),
    ("rows", rows),
    ("state", state),
];
