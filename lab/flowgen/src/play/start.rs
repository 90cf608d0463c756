//! Preparations before the measured time: the server as a thread, memory kept, a common start.

use super::netns;
use super::plan::Serve;
use crate::error::{Error, Result};
use crate::server::{ServeOptions, Server};
use rustix::process::{Pid, Signal, kill_process};
use std::time::{Duration, Instant};

/// The run starts on a whole second, so that timers fall alike in every run.
const ALIGN_NS: u64 = 1_000_000_000;
/// Least time between being ready and the start.
const LEAD_NS: u64 = 300_000_000;

/// Starts a server that lives as long as this process.
///
/// # Errors
/// [`Error::Listen`](crate::error::Error::Listen) when the port is taken.
pub fn serve(wanted: &Serve) -> Result<()> {
    let options = ServeOptions {
        listen: wanted.listen,
        once: false,
        short_bytes: wanted.short_bytes,
        mptcp: wanted.mptcp,
        quic_paths: wanted.quic_paths,
        cc: wanted.cc.clone(),
    };
    let mut server = netns::inside(wanted.netns.as_deref(), || Server::bind(options))?;
    std::thread::spawn(move || {
        if let Err(error) = server.run() {
            eprintln!("flowgen: server: {}", error.with_remedy());
        }
    });
    Ok(())
}

/// The next whole second of the monotonic clock, at least [`LEAD_NS`] away.
pub fn next_start() -> Instant {
    let clock = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let now_ns = clock.tv_sec.unsigned_abs() * ALIGN_NS + clock.tv_nsec.unsigned_abs();
    let start_ns = (now_ns + LEAD_NS).next_multiple_of(ALIGN_NS);
    Instant::now() + Duration::from_nanos(start_ns - now_ns)
}

/// The measured time begins: signals the process `signal`, and returns the time.
///
/// # Errors
/// [`Error::Io`] when there is no such process.
pub fn begin(signal: Option<i32>) -> Result<u64> {
    if let Some(process) = signal.and_then(Pid::from_raw) {
        kill_process(process, Signal::USR1).map_err(Error::io("signalling a process"))?;
    }
    let clock = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    Ok(clock.tv_sec.unsigned_abs() * ALIGN_NS + clock.tv_nsec.unsigned_abs())
}

/// Keeps program and buffers in memory: no page is read in the measured time. Without
/// the privilege it is a little slower, no more.
pub fn lock_memory() {
    // SAFETY: no pointers; it only changes how this process's pages are kept.
    unsafe {
        libc::mlockall(libc::MCL_CURRENT);
    }
}
