//! An autopilot for Linux TCP.

pub mod config;
pub mod state;
