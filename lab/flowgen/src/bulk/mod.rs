//! `bulk`: uploads or downloads for a time or an amount, each with its own report.

mod frames;
#[cfg(feature = "mpquic")]
mod quic;
mod report;
mod transfer;

pub use report::{ConnectionReport, PathReport, Summary, TEXT_HEADING};

use crate::protocol::Limit;
use crate::transport::{PathEnds, Transport};
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Options of `bulk`.
#[derive(Debug, Clone)]
pub struct BulkOptions {
    /// The server.
    pub to: SocketAddr,
    /// The transport protocol.
    pub transport: Transport,
    /// Paths of multipath QUIC after the first.
    pub paths: Vec<PathEnds>,
    /// When a sender stops.
    pub limit: Limit,
    /// The server sends.
    pub reverse: bool,
    /// Connections in all.
    pub count: u64,
    /// Connections at the same time.
    pub parallel: usize,
    /// Congestion control chosen on the client's own socket.
    pub cc: Option<String>,
    /// Source address.
    pub bind: Option<IpAddr>,
    /// Pause between a connection and the next in its place.
    pub gap: Duration,
    /// Longest wait for a connection, for progress, and for the end to drain.
    pub wait: Duration,
}

/// Runs all connections, calling `each` as they end (one call at a time), and sums up.
///
/// A connection that fails is reported, not returned: the others go on.
pub fn run(options: &BulkOptions, each: impl FnMut(&ConnectionReport) + Send) -> Summary {
    let next = AtomicU64::new(1);
    let done = Mutex::new((each, Vec::new()));
    let worker = || {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index > options.count {
                return;
            }
            let report = transfer::run(options, index);
            {
                let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
                let (each, reports) = &mut *done;
                each(&report);
                reports.push(report);
            }
            if index < options.count && !options.gap.is_zero() {
                std::thread::sleep(options.gap);
            }
        }
    };
    std::thread::scope(|scope| {
        // The calling thread is the first worker: one at a time needs no other.
        let places = options.count.min(options.parallel as u64);
        for _ in 1..places {
            scope.spawn(worker);
        }
        worker();
    });
    let (_, reports) = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    Summary::of(&reports)
}
