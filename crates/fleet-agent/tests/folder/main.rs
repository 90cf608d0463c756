//! Agents that share a folder.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod commands;
mod faults;
mod fleet;
mod hearing;
mod merged;
mod refused;
#[path = "../support/mod.rs"]
mod support;
