//! The figures as metrics, for Prometheus and programs that read its format: `tcpilot metrics` and `run
//! --listen`. `watch --listen` writes its own with the same means.
//!
//! Names follow prometheus.io/docs/practices/naming: base units, `_total` for counts that only grow, ratios
//! from 0 to 1. Labels have few values: policies, algorithms and reasons, never addresses.

mod exposition;
mod server;

pub use exposition::{BYTES_SUM, COUNTER, GAUGE, Labels, SECONDS, Type, Writer, text_of};
pub use server::{Server, Source, listen_address};

use std::path::Path;

use super::protocol::{self, AskError, Request};
use crate::failure::Failure;

/// The metrics of the daemon at `socket`, in the classic format.
///
/// # Errors
/// The daemon does not answer.
pub fn ask(socket: &Path) -> Result<String, Failure> {
    let status: super::figures::Status = protocol::ask(socket, &Request::Status)?;
    let effect = match status.learning {
        Some(_) => Some(protocol::ask(socket, &Request::Report)?),
        None => None,
    };
    let text = exposition::text(status, effect);
    let text = text.map_err(|error| AskError::Refused(error.to_string()))?;
    Ok(exposition::classic(&text))
}
