//! tcpilot's pure decisions. No I/O and no clock in here: what is needed of the world is an argument.
//!
//! The learner itself is integer arithmetic in `bpf/lib/learn.h`, since it runs in the kernel; this
//! crate has what the daemon computes around it.

pub mod age;
pub mod guard;
pub mod names;
pub mod prefix;
pub mod queues;
pub mod shares;

pub use prefix::{Prefix, PrefixError};
