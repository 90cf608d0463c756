//! tcpilot: an autopilot for Linux TCP. The binary is a thin shell around this library, which has a
//! folder per product: the pilot, the watch at a bottleneck, fair queues, and congestion controls.

pub mod cc;
pub mod cli;
mod clock;
#[cfg(test)]
mod documents;
pub mod failure;
mod fair;
mod link;
pub mod manual;
pub mod pilot;
pub mod show;
pub mod watch;
