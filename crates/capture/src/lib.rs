//! `tcpilot watch --read`: the kernel's programs on the packets of a capture.
//!
//! [`read()`] reads a file packet by packet, [`Judge`] gives them to the programs. These are the text of `bpf/watch`
//! itself, compiled for the host by the build script; `native/capture.c` explains what stands for the kernel.

mod error;
mod judge;
mod link;
mod reader;

pub use error::Error;
pub use judge::{Counts, Judge, Options};
pub use reader::{End, Frame, read};
