//! `short`: connections per second.

use crate::churn::{self, Churned, Exchange};
use crate::error::{Error, Result};
use serde::Serialize;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// When `short` stops starting connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// After this many.
    Count(u64),
    /// When this much time has passed.
    Time(Duration),
}

/// Options of `short`.
#[derive(Debug, Clone, Copy)]
pub struct ShortOptions {
    /// The server.
    pub to: SocketAddr,
    /// When to stop.
    pub until: Until,
    /// Bytes the server answers.
    pub answer_bytes: u64,
    /// Connections at the same time.
    pub concurrency: usize,
    /// Longest life of one connection.
    pub wait: Duration,
}

/// The result, as printed.
#[derive(Debug, Clone, Serialize)]
pub struct ShortReport {
    /// Connections that went through whole.
    pub connections: u64,
    /// From the first connect to the last end.
    pub seconds: f64,
    /// Rate of whole connections.
    pub connections_per_s: f64,
    /// Connections that failed.
    pub errors: u64,
    /// The first error.
    pub first_error: Option<String>,
}

impl From<&Churned> for ShortReport {
    fn from(done: &Churned) -> Self {
        Self {
            connections: done.completed,
            seconds: done.elapsed.as_secs_f64(),
            connections_per_s: done.per_second(),
            errors: done.errors,
            first_error: done.first_error.as_ref().map(Error::with_remedy),
        }
    }
}

/// Runs short connections.
///
/// # Errors
/// [`crate::Error::Io`] when epoll fails; failed connections are counted, not returned.
pub fn run(options: &ShortOptions) -> Result<ShortReport> {
    let begin = Instant::now();
    let mut started = 0;
    let next = || {
        let more = match options.until {
            Until::Count(count) => started < count,
            Until::Time(time) => begin.elapsed() < time,
        };
        started += 1;
        more.then_some(options.to)
    };
    let exchange = Exchange::short(options.answer_bytes);
    let done = churn::run(next, &exchange, options.concurrency, options.wait)?;
    Ok(ShortReport::from(&done))
}
