//! The figures as metrics, for Prometheus and other readers of its format: `tcpilot metrics` and `run
//! --listen`.

mod exposition;
mod source;

pub(crate) use source::Daemon;
pub use source::source;

use std::path::Path;

use tcpilot_show::{failure::Failure, metrics::classic};

use crate::protocol::{self, AskError, Request};

/// The metrics of the daemon at `socket`, in the classic format.
///
/// # Errors
/// The daemon does not answer.
pub fn ask(socket: &Path) -> Result<String, Failure> {
    let status: crate::figures::Status = protocol::ask(socket, &Request::Status)?;
    let effect = match status.learning {
        Some(_) => Some(protocol::ask(socket, &Request::Report)?),
        None => None,
    };
    let text = exposition::text(status, effect);
    let text = text.map_err(|error| AskError::Refused(error.to_string()))?;
    Ok(classic(&text))
}
