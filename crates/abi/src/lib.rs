//! The structures that the BPF programs and the daemon share.
//!
//! Generated from `bpf/abi/abi.h`, where each is described; its size is asserted there and here. Names are
//! the header's. Units are in the names; a rate or an RTT of 0 means "no sample".

#[allow(
    missing_docs,
    non_camel_case_types,
    non_upper_case_globals,
    clippy::pub_underscore_fields,
    clippy::undocumented_unsafe_blocks,
    reason = "generated; bpf/abi/abi.h documents each item"
)]
mod generated {
    include!(concat!(env!("OUT_DIR"), "/abi.rs"));
}

pub use generated::*;

/// A name for the layout of all data left behind for later programs: paths, the memory of connections,
/// counts. Two versions of tcpilot with the same name understand each other's.
#[used]
pub static LAYOUT: &str = include!(concat!(env!("OUT_DIR"), "/layout.rs"));

mod plain;
pub use plain::{Plain, boxed, from_bytes, to_bytes, zeroed};

mod why;
pub use why::{Trouble, Why, Withheld};
