//! The agent of a fleet: says this host's knowledge of paths, and hears the other hosts of its place.
//!
//! [`tcpilot_fleet`] has the model and all formats; here are the engine ([`store`]), the clocks, the files and the loop. A
//! fleet's agent is a process of its own, so the daemon needs neither a network nor TLS.

pub mod agent;
pub mod boots;
pub mod changed;
pub mod check;
pub mod clock;
pub mod forget;
pub mod hear;
pub mod key;
pub mod memory;
pub mod merge_agent;
pub mod merger;
pub mod merging;
pub mod own;
pub mod say;
pub mod settings;
pub mod status;
pub mod store;
