//! Agents and a real nats-server: rights, certificates, and faults. Without a server in PATH the tests say so and pass.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod cost;
mod faults;
mod fleet;
mod leaf;
mod rights;
mod server;
#[path = "../support/mod.rs"]
mod support;
