//! The pilot: its daemon, the questions of the other commands, its configuration and state.
#![warn(clippy::print_stdout)] // it panics if the reader is gone: `tcpilot_show::output` does not

pub mod args;
pub mod check;
pub mod client;
mod clocks;
pub mod daemon;
mod failures;
pub mod figures;
mod html;
pub mod json_fields;
mod lists;
pub mod metrics;
mod owners;
mod page;
pub mod protocol;
mod read;
mod report;
pub mod state;
pub mod table;
pub mod top;
