//! The pilot: its daemon, the questions of the other commands, its configuration and state.

pub mod args;
pub mod client;
pub mod daemon;
mod failures;
pub mod figures;
mod lists;
pub mod metrics;
mod owners;
pub mod protocol;
mod read;
mod report;
pub mod state;
pub mod table;
pub mod top;
