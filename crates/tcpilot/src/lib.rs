//! tcpilot: an autopilot for Linux TCP. The binary is a thin shell around this library.

pub mod cc;
pub mod cli;
pub mod client;
pub mod config;
pub mod daemon;
pub mod failure;
pub mod live;
pub mod protocol;
pub mod state;
pub mod table;
mod tuning_views;
pub mod views;
pub mod watch;
