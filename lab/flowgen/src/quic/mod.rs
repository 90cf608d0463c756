//! QUIC and multipath QUIC (RFC 9000, draft-ietf-quic-multipath), by the library noq.
//!
//! The server (`serve --quic`) is a thread of its own, separate from TCP's. A client's connection is a
//! [`Session`]: `bulk` runs one on the thread that asked for it, `play` runs all of them on one thread
//! in the background and looks at their counters from its own.
//!
//! A connection carries one upload on one stream, with the protocol of TCP's ([`crate::protocol`]). The
//! receiver reads the stream in order, as an application does, and has a window too large for one path
//! to fill while it waits for another. Counters of a path come in the shape of the kernel's
//! [`TcpInfo`](crate::tcp_info::TcpInfo).

mod control;
mod coupled;
mod endpoint;
mod gauge;
mod paths;
mod probe;
mod server;
mod session;
mod silence;
mod tls;

pub use control::Control;
pub use paths::PathState;
pub use server::serve;
pub use session::{Seat, Session, Wish};

use crate::error::{Error, Result};
use std::sync::OnceLock;
use tokio::runtime::{Builder, Handle, Runtime};

/// Paths allowed by a server by default: as many as a coupling counts.
pub const PATHS: u32 = 8;

/// A runtime for the calling thread.
///
/// # Errors
/// [`Error::Io`] when the kernel gives no epoll set.
pub fn runtime() -> Result<Runtime> {
    let mut builder = Builder::new_current_thread();
    builder
        .enable_all()
        .build()
        .map_err(Error::io("starting the runtime of QUIC"))
}

/// The runtime on a thread of its own; it lives as long as the process.
///
/// # Errors
/// Those of [`runtime`].
pub fn background() -> Result<&'static Handle> {
    static HANDLE: OnceLock<Handle> = OnceLock::new();
    if let Some(handle) = HANDLE.get() {
        return Ok(handle);
    }
    let runtime = runtime()?;
    let handle = HANDLE.get_or_init(|| runtime.handle().clone());
    std::thread::spawn(move || runtime.block_on(std::future::pending::<()>()));
    Ok(handle)
}
