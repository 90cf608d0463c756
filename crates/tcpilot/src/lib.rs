//! An autopilot for Linux TCP.

pub mod config;
