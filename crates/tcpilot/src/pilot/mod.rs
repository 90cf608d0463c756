//! The pilot: its daemon, the questions that the other commands ask it, its configuration and state.

pub mod client;
pub mod config;
pub mod daemon;
mod failures;
pub mod figures;
pub mod metrics;
pub mod protocol;
mod read;
mod report;
pub mod state;
pub mod table;
pub mod top;
