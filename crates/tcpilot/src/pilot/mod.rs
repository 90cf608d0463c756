//! The pilot: its daemon, the questions that the other commands ask it, its configuration and state.

pub mod client;
pub mod config;
pub mod daemon;
pub mod protocol;
pub mod state;
